"""Planning without data: how often a search will fit privately, and what that costs in total."""

import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn import get_config
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

from dpq_sklearn.accounting.losses import PrivacyLoss, compose, most_of_each
from dpq_sklearn.checks import shown
from dpq_sklearn.composites import is_private, parts_of, void_in_words
from dpq_sklearn.ledger.access import LedgerAccess
from dpq_sklearn.ledger.ledger import opened, planned_losses
from dpq_sklearn.ledger.views import in_words

CACHED = "a Pipeline with memory= reuses fits of equal parameters and data"
REFITTED = "the refit counts as the most expensive candidate"
DRAWN = "without a random_state every candidate counts as the most expensive one"


@dataclass(frozen=True, repr=False)
class SearchPlan:
    """What a search will cost: `n_fits` private fits at most, for `total` at most."""

    n_fits: int
    total: PrivacyLoss
    reasons: tuple  # why the cost is not known exactly; empty if it is
    losses: tuple  # of the fits one by one, at most
    refusals: tuple  # of each ledger that cannot pay `total` now: what is left of it
    ledger_notes: tuple = ()  # of each ledger that counts more eps for it than `total` states
    voids: tuple = ()  # of each private step whose promise a step in front of it voids

    @property
    def affordable(self):
        """Whether the ledgers of the estimator can pay `total` now; True if there are none."""
        return not self.refusals

    def __repr__(self):
        fits = f"{self.n_fits} private fit{'' if self.n_fits == 1 else 's'}"
        line = f"{fits} that cost {in_words(self.total)}"
        if self.reasons:
            line = f"at most {fits} that cost at most {in_words(self.total)}"
            line += f" ({'; '.join(self.reasons)})"

        return "\n".join((line, *self.voids, *self.ledger_notes, *self.refusals))


def plan_search(estimator, *, cv=None, n_features=None, groups=None):
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
    groups : object, default=None
        What the search or the cross-validation will be given as `groups`, which is not looked at.
        scikit-learn hands it to the splitter only, unless a step requests it by metadata routing:
        a warning names the private steps that do not, as their fits protect rows and not people.

    Returns
    -------
    plan : SearchPlan
        With the number of fits in `n_fits`, their cost in `total`, and in `affordable` whether
        the ledger of the estimator can pay that. :meth:`PrivacyLedger.check` takes a plan too.
        `voids` names steps in front of a private one that void its promise.

    Notes
    -----
    A search costs nothing more if the private transformer is fitted once before it, wrapped in
    :class:`sklearn.frozen.FrozenEstimator`, and only what comes after it is searched. A
    RandomizedSearchCV without a `random_state` is planned as if it drew its most expensive
    candidate every time. A Pipeline with ``memory=`` reuses fits, so its plan is an upper bound.

    See Also
    --------
    PrivacyLedger : Pays for every fit, and refuses what it cannot pay.
    privacy_of : What a fitted estimator has cost.

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

    _warn_of_lost_groups(estimator, cv, groups)
    n_times = 1 if cv is None else _number_of_folds(cv)
    fits = _fits(estimator, n_features) * n_times
    losses = tuple(fit.loss for fit in fits)

    charged = {
        ledger: [fit.loss for fit in fits if fit.ledger == ledger]
        for ledger in dict.fromkeys(fit.ledger for fit in fits)
        if ledger is not None
    }
    refusals = [ledger.refusal(costs, "all of this") for ledger, costs in charged.items()]
    notes = [ledger.note_about_eps(costs) for ledger, costs in charged.items()]

    return SearchPlan(
        n_fits=sum(fit.n_fits for fit in fits),
        total=compose(losses),
        reasons=tuple(sorted({reason for fit in fits for reason in fit.reasons})),
        losses=losses,
        refusals=tuple(str(error) for error in refusals if error),
        ledger_notes=tuple(filter(None, notes)),
        voids=tuple(_voids(estimator)),
    )


def _warn_of_lost_groups(estimator, cv, groups):
    """Warn of private steps that are fitted without the groups of a search.

    A splitter that keeps groups together shows that there will be some.
    """
    is_search = isinstance(estimator, (GridSearchCV, RandomizedSearchCV))
    if not is_search and cv is None:  # a single fit takes groups itself
        return

    splitters = [cv, estimator.cv] if is_search else [cv]
    if groups is None and not any(map(_asks_for_groups, splitters)):
        return

    names = [type(step).__name__ for step in _private_inside(estimator) if _loses_groups(step)]
    if names:
        warnings.warn(
            f"groups go to the splitter only: {', '.join(dict.fromkeys(names))} will be fitted "
            'without them, which protects rows and not people, and which privacy_unit="person" '
            "refuses. Pass them by the name of the step too (step__groups), or request them by "
            "set_fit_request(groups=True) with metadata routing enabled, which ends this warning; "
            'or set privacy_unit="row" if rows are meant.',
            stacklevel=3,
        )


def _asks_for_groups(splitter):
    routing = getattr(splitter, "get_metadata_routing", None)
    return routing is not None and bool(routing().split.requests.get("groups"))


def _loses_groups(private):
    """Return whether a private step inside a search gets no groups, and nobody said so."""
    if getattr(private, "privacy_unit", "row") == "row":
        return False
    is_requested = bool(private.get_metadata_routing().fit.requests.get("groups"))
    return not (get_config()["enable_metadata_routing"] and is_requested)


def _voids(estimator):
    """Yield a sentence for each private step behind one that learns from the private rows."""
    for part in parts_of(estimator):
        if part.in_front and is_private(part.estimator):
            yield void_in_words(part.name, part.in_front)


# What PrivacyLedger.check takes beside costs.
planned_losses.register(SearchPlan, lambda plan: plan.losses)
planned_losses.register(BaseEstimator, lambda estimator: plan_search(estimator).losses)


class _Fit(NamedTuple):
    """A private fit, or several that are not known one by one, and what it costs at most."""

    ledger: LedgerAccess | None
    loss: PrivacyLoss
    reasons: frozenset = frozenset()  # why the cost is not known exactly
    n_fits: int = 1


def _fits(estimator, n_features):
    """Return the private fits in one call of ``estimator.fit``."""
    if is_private(estimator):
        return [_private_fit(estimator, n_features)]

    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        candidates = _candidates(estimator, n_features)
        refit = _one_of(candidates, REFITTED) if estimator.refit else []
        return list(chain(*candidates)) * _number_of_folds(estimator.cv) + refit

    fits = [fit for part in _parts(estimator, n_features) for fit in _fits(*part)]
    if getattr(estimator, "memory", None) is not None:
        return [fit._replace(reasons=fit.reasons | {CACHED}) for fit in fits]
    return fits


def _private_fit(transformer, n_features):
    """Return the fit of a private transformer."""
    loss = transformer._planned_loss(n_features=n_features)  # None: of any number of columns

    ledger = getattr(transformer, "ledger", None)
    return _Fit(None if ledger is None else opened(ledger), loss)


def _one_of(candidates, reason):
    """Return the fits of one of several candidates, not known which: the `reason`."""
    if all(fits == candidates[0] for fits in candidates):
        return candidates[0]

    fits = list(chain(*candidates))
    reasons = frozenset({reason}).union(*(fit.reasons for fit in fits))

    by_ledger = []
    for ledger in dict.fromkeys(fit.ledger for fit in fits):
        charged = [[fit for fit in fits if fit.ledger == ledger] for fits in candidates]
        loss = most_of_each([compose(fit.loss for fit in fits) for fits in charged])
        n_fits = max(sum(fit.n_fits for fit in fits) for fits in charged)
        by_ledger.append(_Fit(ledger, loss, reasons, n_fits))

    return by_ledger


def _parts(estimator, n_features):
    """Return what one fit of this estimator fits once each, with the known numbers of columns."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
        keeps = [isinstance(step, (OneToOneFeatureMixin, str, type(None))) for step in steps]
        return [(step, n_features if all(keeps[:i]) else None) for i, step in enumerate(steps)]

    if isinstance(estimator, FeatureUnion):
        return [(part, n_features) for _, part in estimator.transformer_list]

    if isinstance(estimator, ColumnTransformer):
        parts = [(part, _n_columns(columns)) for _, part, columns in estimator.transformers]
        parts = [(part, n) for part, n in parts if n != 0]  # nothing selected: not fitted
        return [*parts, (estimator.remainder, None)]

    if isinstance(estimator, TransformedTargetRegressor):
        return [(estimator.regressor, n_features), (estimator.transformer, None)]

    if _holds_privacy(estimator):
        raise ValueError(
            f"plan_search does not know how often {type(estimator).__name__} fits the private "
            "transformer inside it; plan the inner estimator, with the cv that it meets."
        )
    return []


def _n_columns(columns):
    """Return how many columns a ColumnTransformer's selection has, if it says so by itself."""
    if isinstance(columns, (str, int, np.integer)):
        return 1
    if callable(columns) or isinstance(columns, slice):
        return None
    return sum(column is not False for column in np.asarray(columns).tolist())


def _candidates(search, n_features):
    """Return the fits of each candidate; if draws are not known, those of the dearest for all."""
    if isinstance(search, GridSearchCV):
        return _fits_of_settings(search.estimator, ParameterGrid(search.param_grid), n_features)

    state = deepcopy(search.random_state)
    draws = ParameterSampler(search.param_distributions, search.n_iter, random_state=state)
    if state is not None:
        return _fits_of_settings(search.estimator, draws, n_features)

    dearest = [_dearest_values(search.estimator, space) for space in draws.param_distributions]
    candidates = _fits_of_settings(search.estimator, ParameterGrid(dearest), n_features)
    return [_one_of(candidates, DRAWN)] * len(draws)


def _fits_of_settings(estimator, settings, n_features):
    return [_fits(candidate, n_features) for candidate in _with_settings(estimator, settings)]


def _with_settings(estimator, settings):
    for chosen in settings:
        yield clone(estimator).set_params(**clone(chosen, safe=False))


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
        elif high - low < np.inf and unit in ("eps", "rho"):
            dearest[name] = [high, (low + high) / 2]  # the second shows that the cost is not fixed
        else:
            raise _unknown_dearest(name)

    ranges = [name for name in dearest if hasattr(space[name], "rvs")]
    if ranges and not all(map(_costs_grow, _with_settings(estimator, ParameterGrid(dearest)))):
        raise _unknown_dearest(ranges[0])
    return dearest


def _costs_grow(estimator):
    """Return whether more eps, or rho, costs more of everything, as it decides nothing else.

    With a delta it decides which account is used, and with "auto" which mechanism.
    """
    return not any(
        getattr(private, "delta", 0) > 0 or getattr(private, "mechanism", None) == "auto"
        for private in _private_inside(estimator)
    )


def _unknown_dearest(name):
    return ValueError(
        "random_state of RandomizedSearchCV must be an int for a plan if it is not known "
        f"which candidates cost most, as with the distribution of {name!r}, got None."
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


def _holds_privacy(thing):
    """Return whether there is a private estimator that can be fitted anywhere inside."""
    return any(True for _ in _private_inside(thing))


def _private_inside(thing):
    """Yield all private estimators that can be fitted inside."""
    inside = ()
    if isinstance(thing, (list, tuple)):
        inside = thing
    elif isinstance(thing, dict):
        inside = thing.values()
    elif hasattr(thing, "get_params") and not isinstance(thing, (FrozenEstimator, type)):
        inside = thing.get_params(deep=False).values()

    if is_private(thing):
        yield thing
    for part in inside:
        yield from _private_inside(part)
