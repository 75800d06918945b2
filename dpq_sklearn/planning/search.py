"""Planning without data: how often a search will fit privately, and what that costs in total."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
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

CACHED = "a Pipeline with memory= reuses fits of equal parameters and data"
REFITTED = "the refit costs as much as the best candidate, here the dearest"


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
    """

    n_fits: int
    total: PrivacyLoss
    least: PrivacyLoss
    reasons: tuple = ()

    def __str__(self):
        cost = f"eps={self.total.eps:.6g}, delta={self.total.delta:.6g}, rho={self.total.rho:.6g}"
        fits = f"{self.n_fits} private fit{'' if self.n_fits == 1 else 's'}"
        if not self.reasons:
            return f"{fits} that cost {cost}"
        return f"at most {fits} that cost at most {cost} ({'; '.join(self.reasons)})"


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
        With the number of fits in `n_fits` and their cost in `total`, which
        :meth:`PrivacyLedger.check` takes as it is.

    See Also
    --------
    PrivacyLedger : Keeps count of what is really spent.

    Notes
    -----
    The cheap way: fit the private transformer once, wrap it in
    :class:`sklearn.frozen.FrozenEstimator`, and search over what comes after it. That costs
    nothing more, for what is computed from a private release is private too.

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
    return SearchPlan(
        n_fits=forecast.n_fits,
        total=compose(forecast.most),
        least=compose(forecast.least),
        reasons=tuple(sorted(forecast.reasons)),
    )


@dataclass(frozen=True)
class _Forecast:
    """The private fits in one call of `fit`: how many, and their losses at most and at least."""

    n_fits: int = 0
    most: tuple = ()
    least: tuple = ()
    reasons: frozenset = frozenset()


def _forecast(estimator, n_features=None):
    """Return the forecast of one call of ``estimator.fit``."""
    if _is_private(estimator):
        loss = _loss_of_fit(estimator, n_features)
        return _Forecast(1, (loss,), (loss,))
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
    candidates = [
        _forecast(_with_parameters(search.estimator, parameters), n_features)
        for parameters in _candidates(search)
    ]
    searched = _repeated(_together(candidates), _number_of_folds(search.cv))
    return _together([searched, _forecast_of_refit(candidates)]) if search.refit else searched


def _with_parameters(estimator, parameters):
    return clone(estimator).set_params(**clone(parameters, safe=False))


def _candidates(search):
    if isinstance(search, GridSearchCV):
        return ParameterGrid(search.param_grid)
    if search.random_state is None and _touches_privacy(search):
        raise ValueError(
            "random_state of RandomizedSearchCV must be an int for a plan if the cost depends on "
            "the candidates that are drawn, got None."
        )
    return ParameterSampler(
        search.param_distributions, search.n_iter, random_state=deepcopy(search.random_state)
    )


def _touches_privacy(search):
    """Return whether a parameter that is searched may change how much is spent."""
    spaces = search.param_distributions
    spaces = [spaces] if hasattr(spaces, "items") else spaces
    parameters = search.estimator.get_params(deep=True)
    for name, values in ((name, values) for space in spaces for name, values in space.items()):
        owner_name = name.rpartition("__")[0]
        owner = parameters.get(owner_name) if owner_name else search.estimator
        if _holds_privacy(owner) or _holds_privacy(values):
            return True
    return False


def _forecast_of_refit(candidates):
    """Return the forecast of fitting one of the candidates again, whichever turns out best."""
    most = [compose(candidate.most) for candidate in candidates]
    least = [compose(candidate.least) for candidate in candidates]
    reasons = frozenset().union(*(candidate.reasons for candidate in candidates))
    return _Forecast(
        n_fits=max(candidate.n_fits for candidate in candidates),
        most=(_extreme_loss(max, most),),
        least=(_extreme_loss(min, least),),
        reasons=reasons | ({REFITTED} if len(set(most)) > 1 else set()),
    )


def _extreme_loss(extreme, losses):
    return PrivacyLoss(
        eps=extreme(loss.eps for loss in losses),
        delta=extreme(loss.delta for loss in losses),
        rho=extreme(loss.rho for loss in losses),
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
        raise ValueError(f"cv must not be an iterator, which a plan would use up, got {cv!r}.")
    try:
        return check_cv(cv).get_n_splits()
    except (TypeError, ValueError) as error:
        raise ValueError(
            "cv must have a number of folds that is known without data, such as an int or "
            f"KFold(5), got {cv!r}."
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
            f"estimator, got {estimator!r}."
        )
