"""Planning without data: how often a search will fit privately, and what that costs in total."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import rv_discrete
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
MOST_VALUES = 1000  # of a discrete distribution, to try them all


@dataclass(frozen=True)
class SearchPlan:
    """What a search will cost.

    Parameters
    ----------
    n_fits : int
        How many private fits it will make.
    total : PrivacyLoss
        What they cost together, at most.
    least : PrivacyLoss
        What they cost together, at least.
    reasons : tuple of str
        Why the cost is not known exactly; empty if it is.
    losses : tuple of PrivacyLoss
        What the fits cost one by one, at most.
    refusals : tuple of str
        For each ledger of the estimator that cannot pay `total` now: what is left of it.
    """

    n_fits: int
    total: PrivacyLoss
    least: PrivacyLoss
    reasons: tuple = ()
    losses: tuple = field(default=(), repr=False)
    refusals: tuple = ()

    @property
    def affordable(self):
        """Whether the ledgers of the estimator can pay `total` now; True if there are none."""
        return not self.refusals

    def __str__(self):
        fits = f"{self.n_fits} private fit{'' if self.n_fits == 1 else 's'}"
        cost = loss_in_words(self.total)
        line = f"{fits} that cost {cost}"
        if self.reasons:
            line = f"at most {fits} that cost at most {cost} ({'; '.join(self.reasons)})"
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

    See Also
    --------
    PrivacyLedger : Keeps count of what is really spent.

    Notes
    -----
    A search costs nothing more if the private transformer is fitted once before it, wrapped in
    :class:`sklearn.frozen.FrozenEstimator`, and only what comes after it is searched: what is
    computed from a private release is private too.

    A RandomizedSearchCV with ``random_state=None`` is planned as if it drew its most expensive
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
    _refuse_no_estimator(estimator)
    forecast = _forecast(estimator, n_features)
    if cv is not None:
        forecast = _repeated(forecast, _number_of_folds(cv))
    losses = _losses_by_ledger(forecast)
    refusals = (refusal(to, losses[to], "all of this") for to in losses if to is not None)
    return SearchPlan(
        n_fits=forecast.n_fits,
        total=_most(forecast),
        least=compose(forecast.least),
        reasons=tuple(sorted(forecast.reasons)),
        losses=tuple(loss for _, loss in forecast.most),
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


def _most(forecast):
    return compose(loss for _, loss in forecast.most)


def _losses_by_ledger(forecast):
    losses = {ledger: [] for ledger, _ in forecast.most}
    for ledger, loss in forecast.most:
        losses[ledger].append(loss)
    return losses


def _forecast(estimator, n_features=None):
    """Return the forecast of one call of ``estimator.fit``."""
    if _is_private(estimator):
        loss = _loss_of_fit(estimator, n_features)
        ledger = getattr(estimator, "ledger", None)
        return _Forecast(1, ((None if ledger is None else opened(ledger), loss),), (loss,))
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return _forecast_of_search(estimator, n_features)
    parts = _parts(estimator, n_features)
    if parts is None:
        _refuse_unknown(estimator)
        return _Forecast()
    together = _together([_forecast(part, n) for part, n in parts])
    if together.n_fits and getattr(estimator, "memory", None) is not None:
        return replace(together, least=(), reasons=together.reasons | {CACHED})
    return together


def _loss_of_fit(estimator, n_features):
    """Return the cost of one private fit; its rho is that of one column if they are not known."""
    if n_features is None and getattr(estimator, "delta", 0) > 0:
        raise ValueError(
            f"n_features must be given to plan a {type(estimator).__name__} with delta > 0, for "
            "the number of its columns decides which kind of accounting it uses, got None."
        )
    return estimator._planned_loss(n_features=n_features)


def _parts(estimator, n_features):
    """Return the estimators that one fit of this one fits once each, with their numbers of columns.

    None if it is not known what the estimator fits.
    """
    if isinstance(estimator, Pipeline):
        parts = _steps(estimator, n_features)
    elif isinstance(estimator, FeatureUnion):
        parts = [(part, n_features) for _, part in estimator.transformer_list]
    elif isinstance(estimator, ColumnTransformer):
        parts = [(part, _n_columns(columns)) for _, part, columns in estimator.transformers]
        parts = [(part, n) for part, n in parts if n != 0]  # nothing selected: not fitted
        parts.append((estimator.remainder, None))
    elif isinstance(estimator, TransformedTargetRegressor):
        parts = [(estimator.regressor, n_features), (estimator.transformer, 1)]
    elif isinstance(estimator, FrozenEstimator) or not hasattr(estimator, "get_params"):
        return []  # frozen, "passthrough", "drop" or None: nothing is fitted
    else:
        return None
    return parts


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
    columns = list(columns)
    is_mask = all(isinstance(column, (bool, np.bool_)) for column in columns)
    return sum(map(bool, columns)) if is_mask else len(columns)


def _forecast_of_search(search, n_features):
    candidates = _forecasts_of_candidates(search, n_features)
    searched = _repeated(_together(candidates), _number_of_folds(search.cv))
    if not search.refit:
        return searched
    return _together([searched, _forecast_of_one_of(candidates, REFITTED)])


def _forecasts_of_candidates(search, n_features):
    if isinstance(search, GridSearchCV):
        parameters = ParameterGrid(search.param_grid)
    elif search.random_state is None:
        return _forecasts_of_unknown_draws(search, n_features)
    else:
        state = deepcopy(search.random_state)
        parameters = ParameterSampler(search.param_distributions, search.n_iter, random_state=state)
    return [_forecast_with(search.estimator, chosen, n_features) for chosen in parameters]


def _forecasts_of_unknown_draws(search, n_features):
    """Return forecasts that bound those of the candidates, whichever are drawn."""
    spaces = search.param_distributions
    spaces = [spaces] if hasattr(spaces, "items") else spaces
    possible = ParameterGrid([_values_that_matter(search.estimator, space) for space in spaces])
    drawn = _forecast_of_one_of(
        [_forecast_with(search.estimator, chosen, n_features) for chosen in possible], DRAWN
    )
    n_candidates = len(ParameterSampler(spaces, search.n_iter))
    return [replace(drawn, least=()) if drawn.reasons else drawn] * n_candidates


def _forecast_with(estimator, parameters, n_features):
    chosen = clone(estimator).set_params(**clone(parameters, safe=False))
    return _forecast(chosen, n_features)


def _values_that_matter(estimator, space):
    """Return the possible values of those parameters that may change how much is spent."""
    steps = estimator.get_params(deep=True) | {"": estimator}
    private = {name for name, values in space.items() if _holds_privacy(values)}

    def matters(name):
        owner = name.rpartition("__")[0]
        inside = any(name.startswith(f"{step}__") for step in private)
        return name in private or inside or _holds_privacy(steps.get(owner))

    return {name: _possible(name, values) for name, values in space.items() if matters(name)}


def _possible(name, values):
    """Return the values that can be drawn; of a range the upper end, which costs most."""
    if not hasattr(values, "rvs"):
        return values
    low, high = values.support() if hasattr(values, "support") else (-np.inf, np.inf)
    if high - low < MOST_VALUES and isinstance(getattr(values, "dist", values), rv_discrete):
        return range(int(low), int(high) + 1)
    if high - low < np.inf and name.rpartition("__")[2] in ("eps", "delta", "rho"):
        return [high, (low + high) / 2]  # the second one shows that the cost is not fixed
    raise ValueError(
        "random_state of RandomizedSearchCV must be an int for a plan if it is not known which "
        f"candidates cost most, as with the distribution of {name!r}, got None."
    )


def _forecast_of_one_of(candidates, reason):
    """Return the forecast of fitting one of the candidates, not known which, for this reason."""
    losses = [_losses_by_ledger(candidate) for candidate in candidates]
    ledgers = dict.fromkeys(ledger for by_ledger in losses for ledger in by_ledger)
    most = {to: [compose(by_ledger.get(to, ())) for by_ledger in losses] for to in ledgers}
    reasons = frozenset().union(*(candidate.reasons for candidate in candidates))
    return _Forecast(
        n_fits=max(candidate.n_fits for candidate in candidates),
        most=tuple((to, _extreme_loss(max, most[to])) for to in ledgers),
        least=(_extreme_loss(min, [compose(candidate.least) for candidate in candidates]),),
        reasons=reasons | ({reason} if len(set(map(_most, candidates))) > 1 else set()),
    )


def _extreme_loss(extreme, losses):
    return PrivacyLoss(
        eps=extreme(loss.eps for loss in losses),
        delta=extreme(loss.delta for loss in losses),
        rho=extreme(loss.rho for loss in losses),
        pure_eps=extreme(loss.pure_eps for loss in losses),
        os_randomness=all(loss.os_randomness for loss in losses),
    )


def _together(forecasts):
    return _Forecast(
        n_fits=sum(forecast.n_fits for forecast in forecasts),
        most=tuple(loss for forecast in forecasts for loss in forecast.most),
        least=tuple(loss for forecast in forecasts for loss in forecast.least),
        reasons=frozenset().union(*(forecast.reasons for forecast in forecasts)),
    )


def _repeated(forecast, times):
    return replace(
        forecast,
        n_fits=forecast.n_fits * times,
        most=forecast.most * times,
        least=forecast.least * times,
    )


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
    if _is_private(thing):
        return True
    if isinstance(thing, (list, tuple)):
        return any(map(_holds_privacy, thing))
    if isinstance(thing, dict):
        return any(map(_holds_privacy, thing.values()))
    if isinstance(thing, (FrozenEstimator, type)) or not hasattr(thing, "get_params"):
        return False
    return any(map(_holds_privacy, thing.get_params(deep=False).values()))


def _refuse_unknown(estimator):
    """Raise if an estimator of a kind that is not known here holds a private one."""
    if _holds_privacy(estimator):
        raise ValueError(
            f"plan_search does not know how often {type(estimator).__name__} fits the private "
            "transformer inside it; plan the inner estimator, with the cv that it meets."
        )


def _refuse_no_estimator(estimator):
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            "plan_search takes a GridSearchCV, a RandomizedSearchCV, a Pipeline or another "
            f"estimator, got {shown(estimator)}."
        )
