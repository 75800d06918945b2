"""Planning without data: how often a search will fit privately, and what that costs in total."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline

from dpq_sklearn.accounting.losses import PrivacyLoss, compose
from dpq_sklearn.checks import shown
from dpq_sklearn.ledger.ledger import opened, planned_losses, refusal
from dpq_sklearn.ledger.views import loss_in_words

CACHED = "a Pipeline with memory= reuses fits of equal parameters and data"
REFITTED = "the refit counts as the most expensive candidate"
DRAWN = "without a random_state every candidate counts as the most expensive one"


@dataclass(frozen=True, repr=False)
class SearchPlan:
    """What a search will cost: `n_fits` private fits at most, for `total` at most."""

    n_fits: int
    total: PrivacyLoss
    least: PrivacyLoss
    reasons: tuple = ()  # why the cost is not known exactly; empty if it is
    losses: tuple = ()  # of the fits one by one, at most
    refusals: tuple = ()  # of each ledger that cannot pay `total` now: what is left of it

    @property
    def affordable(self):
        """Whether the ledgers of the estimator can pay `total` now; True if there are none."""
        return not self.refusals

    def __repr__(self):
        fits = f"{self.n_fits} private fit{'' if self.n_fits == 1 else 's'}"
        at_most, why = ("at most ", f" ({'; '.join(self.reasons)})") if self.reasons else ("", "")
        line = f"{at_most}{fits} that cost {at_most}{loss_in_words(self.total)}{why}"
        return "\n".join((line, *self.refusals))


def plan_search(estimator, *, cv=None, n_features=None):
    """Say what a search or a cross-validation will cost, without any data.

    Parameters
    ----------
    estimator : estimator
        A GridSearchCV or RandomizedSearchCV, or a Pipeline or other estimator.
    cv : int, cross-validation generator, iterable or None, default=None
        The folds of a cross-validation of `estimator`, as for
        :func:`sklearn.model_selection.cross_validate`. None is a single call of ``fit``.
    n_features : int or None, default=None
        How many columns the data have. Without it the eps of the plan is exact and its rho is an
        upper bound; transformers with ``delta > 0`` need it.

    Returns
    -------
    plan : SearchPlan
        With the number of fits in `n_fits`, their cost in `total`, and in `affordable` whether
        the ledger of the estimator can pay that. :meth:`PrivacyLedger.check` takes a plan too.

    Notes
    -----
    A search costs nothing more if the private transformer is fitted once before it, wrapped in
    :class:`sklearn.frozen.FrozenEstimator`, and only what comes after it is searched. A
    RandomizedSearchCV without a `random_state` is planned as if it drew its most expensive
    candidate every time.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from dpq_sklearn import DPKBinsDiscretizer, plan_search
    >>> pipeline = make_pipeline(DPKBinsDiscretizer(eps=0.5), LogisticRegression())
    >>> search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=5)
    >>> plan = plan_search(search)
    >>> plan.n_fits, plan.total.eps
    (11, 5.5)
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            "plan_search takes a GridSearchCV, a RandomizedSearchCV, a Pipeline or another "
            f"estimator, got {shown(estimator)}."
        )
    n_fits = 1 if cv is None else _number_of_folds(cv)
    forecast = _together([_forecast(estimator, n_features)] * n_fits)
    ledgers = dict.fromkeys(ledger for ledger, _ in forecast.most if ledger is not None)
    refusals = (refusal(to, _losses_of(forecast, to), "all of this") for to in ledgers)
    losses = tuple(loss for _, loss in forecast.most)
    return SearchPlan(
        n_fits=forecast.n_fits,
        total=compose(losses),
        least=compose(forecast.least),
        reasons=tuple(sorted(forecast.reasons)),
        losses=losses,
        refusals=tuple(str(error) for error in refusals if error),
    )


# What PrivacyLedger.check takes beside costs.
planned_losses.register(SearchPlan, lambda plan: plan.losses)
planned_losses.register(BaseEstimator, lambda estimator: plan_search(estimator).losses)


@dataclass(frozen=True)
class _Forecast:
    """The private fits in one call of `fit`: how many, and their losses at most and at least."""

    n_fits: int = 0
    most: tuple = ()  # of pairs: the ledger that is charged or None, and the loss
    least: tuple = ()  # of losses
    reasons: frozenset = frozenset()


def _losses_of(forecast, ledger):
    return [loss for to, loss in forecast.most if to == ledger]


def _together(forecasts):
    return _Forecast(
        n_fits=sum(forecast.n_fits for forecast in forecasts),
        most=tuple(pair for forecast in forecasts for pair in forecast.most),
        least=tuple(loss for forecast in forecasts for loss in forecast.least),
        reasons=frozenset().union(*(forecast.reasons for forecast in forecasts)),
    )


def _one_of(forecasts, reason):
    """Return the forecast of fitting one of several candidates, not known which: the `reason`."""
    ledgers = dict.fromkeys(ledger for forecast in forecasts for ledger, _ in forecast.most)
    by_ledger = {to: [compose(_losses_of(one, to)) for one in forecasts] for to in ledgers}
    is_known = len({compose(loss for _, loss in one.most) for one in forecasts}) == 1
    return _Forecast(
        n_fits=max(forecast.n_fits for forecast in forecasts),
        most=tuple((to, _extreme_loss(max, losses)) for to, losses in by_ledger.items()),
        least=(_extreme_loss(min, [compose(forecast.least) for forecast in forecasts]),),
        reasons=_together(forecasts).reasons | (set() if is_known else {reason}),
    )


def _extreme_loss(extreme, losses):
    units = ("eps", "delta", "rho", "pure_eps")
    costs = {unit: extreme(getattr(loss, unit) for loss in losses) for unit in units}
    return PrivacyLoss(**costs, os_randomness=all(loss.os_randomness for loss in losses))


def _forecast(estimator, n_features):
    """Return the forecast of one call of ``estimator.fit``."""
    if _is_private(estimator):
        if n_features is None and getattr(estimator, "delta", 0) > 0:
            raise ValueError(
                f"n_features must be given to plan a {type(estimator).__name__} with delta > 0, "
                "for the number of its columns decides which account it uses, got None."
            )
        loss = estimator._planned_loss(n_features=n_features)  # None: the rho of one column
        ledger = getattr(estimator, "ledger", None)
        return _Forecast(1, ((None if ledger is None else opened(ledger), loss),), (loss,))
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        candidates = _forecasts_of_candidates(estimator, n_features)
        refit = [_one_of(candidates, REFITTED)] if estimator.refit else []
        return _together(candidates * _number_of_folds(estimator.cv) + refit)
    forecast = _together([_forecast(*part) for part in _parts(estimator, n_features)])
    if forecast.n_fits and getattr(estimator, "memory", None) is not None:
        return replace(forecast, least=(), reasons=forecast.reasons | {CACHED})
    return forecast


def _parts(estimator, n_features):
    """Return what one fit of this estimator fits once each, with the numbers of columns."""
    if isinstance(estimator, Pipeline):
        return _steps(estimator, n_features)
    if isinstance(estimator, FeatureUnion):
        return [(part, n_features) for _, part in estimator.transformer_list]
    if isinstance(estimator, ColumnTransformer):
        parts = [(part, _n_columns(columns)) for _, part, columns in estimator.transformers]
        parts = [(part, n) for part, n in parts if n != 0]  # nothing selected: not fitted
        return [*parts, (estimator.remainder, None)]
    if isinstance(estimator, TransformedTargetRegressor):
        return [(estimator.regressor, n_features), (estimator.transformer, 1)]
    if _holds_privacy(estimator):
        raise ValueError(
            f"plan_search does not know how often {type(estimator).__name__} fits the private "
            "transformer inside it; plan the inner estimator, with the cv that it meets."
        )
    return []


def _steps(pipeline, n_features):
    """Return the steps with the number of columns that reach them, as long as it is known."""
    steps = []
    for _, step in pipeline.steps:
        steps.append((step, n_features))
        if not isinstance(step, (OneToOneFeatureMixin, str, type(None))):
            n_features = None
    return steps


def _n_columns(columns):
    """Return how many columns a ColumnTransformer's selection has, if it says so by itself."""
    if isinstance(columns, (str, int, np.integer)):
        return 1
    if callable(columns) or isinstance(columns, slice):
        return None
    return sum(column is not False for column in np.asarray(columns).tolist())


def _forecasts_of_candidates(search, n_features):
    """Return a forecast for each candidate; if draws are not known, that of the dearest for all."""
    n_drawn = None
    if isinstance(search, GridSearchCV):
        candidates = ParameterGrid(search.param_grid)
    elif search.random_state is not None:
        state = deepcopy(search.random_state)
        candidates = ParameterSampler(search.param_distributions, search.n_iter, random_state=state)
    else:
        spaces = search.param_distributions
        spaces = [spaces] if hasattr(spaces, "items") else spaces
        candidates = ParameterGrid([_dearest_values(search.estimator, space) for space in spaces])
        n_drawn = len(ParameterSampler(spaces, search.n_iter))
    settings = [clone(chosen, safe=False) for chosen in candidates]
    estimators = [clone(search.estimator).set_params(**chosen) for chosen in settings]
    forecasts = [_forecast(estimator, n_features) for estimator in estimators]
    if n_drawn is None:
        return forecasts
    drawn = _one_of(forecasts, DRAWN)
    return [replace(drawn, least=()) if drawn.reasons else drawn] * n_drawn


def _dearest_values(estimator, space):
    """Return the parameters that may change the cost: their values, of a range the upper end."""
    steps = estimator.get_params(deep=True) | {"": estimator}
    replaces_steps = _holds_privacy(space)
    dearest = {}
    for name, values in space.items():
        owner, _, unit = name.rpartition("__")
        if not replaces_steps and not _holds_privacy(steps.get(owner)):
            continue
        low, high = values.support() if hasattr(values, "support") else (-np.inf, np.inf)
        if not hasattr(values, "rvs"):
            dearest[name] = values
        elif high - low < np.inf and unit in ("eps", "delta", "rho"):
            dearest[name] = [high, (low + high) / 2]  # the second shows that the cost is not fixed
        else:
            raise ValueError(
                "random_state of RandomizedSearchCV must be an int for a plan if it is not known "
                f"which candidates cost most, as with the distribution of {name!r}, got None."
            )
    return dearest


def _number_of_folds(cv):
    if isinstance(cv, Iterator):
        raise ValueError("cv must not be an iterator, for a plan would exhaust it.")
    try:
        return check_cv(cv).get_n_splits()
    except (TypeError, ValueError) as error:
        raise ValueError(
            "cv must have a number of folds that is known without data, such as an int or "
            f"KFold(5), got {shown(cv)}."
        ) from error


def _is_private(estimator):
    # A FrozenEstimator has the attributes of what it holds, but fits nothing.
    return hasattr(estimator, "_planned_loss") and not isinstance(estimator, FrozenEstimator)


def _holds_privacy(thing):
    """Return whether there is a private estimator that can be fitted anywhere inside."""
    inside = ()
    if isinstance(thing, (list, tuple)):
        inside = thing
    elif isinstance(thing, dict):
        inside = thing.values()
    elif hasattr(thing, "get_params") and not isinstance(thing, (FrozenEstimator, type)):
        inside = thing.get_params(deep=False).values()
    return _is_private(thing) or any(map(_holds_privacy, inside))
