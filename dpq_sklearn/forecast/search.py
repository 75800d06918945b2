"""Planning without data: how often a search will fit privately, and what that costs in total."""

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
)

from dpq_sklearn.accounting.losses import PrivacyLoss, compose, most_of_each
from dpq_sklearn.checks import shown
from dpq_sklearn.composites.inside import holds_private, is_private, private_inside
from dpq_sklearn.composites.parts import checked_row_wise, parts_of
from dpq_sklearn.composites.rules import rule_of, steps_of, why_unknown
from dpq_sklearn.composites.searches import with_settings
from dpq_sklearn.composites.steps import UnknownFits, number_of_folds
from dpq_sklearn.ledger.access import LedgerAccess
from dpq_sklearn.ledger.ledger import opened, planned_losses
from dpq_sklearn.ledger.views import in_words

REFITTED = "the refit counts as the most expensive candidate"
DRAWN = "without an int as random_state every candidate counts as the most expensive one"


@dataclass(frozen=True, repr=False)
class SearchPlan:
    """What a search will cost: `n_fits` private fits at most, for `total` at most."""

    n_fits: int
    total: PrivacyLoss
    reasons: tuple  # why the cost is not known exactly; empty if it is
    losses: tuple  # of the fits one by one, at most
    refusals: tuple  # of each ledger that cannot pay `total` now: what is left of it
    ledger_notes: tuple = ()  # of each ledger that counts more eps for it than `total` states
    voids: tuple = ()  # for each private step whose guarantee an upstream step invalidates

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


def plan_search(
    estimator: BaseEstimator,
    *,
    cv: object = None,
    n_features: int | None = None,
    groups: object = None,
    row_wise: Collection = (),
) -> SearchPlan:
    """Return the cost of a fit, a search or a cross-validation, without any data.

    The plan also looks at the upstream steps of each private transformer: it says if one of them
    learns from the private rows, as a scaler does, which invalidates the guarantee.

    Parameters
    ----------
    estimator : estimator
        A GridSearchCV or RandomizedSearchCV, or a Pipeline or other estimator.
    cv : int, cross-validation generator, iterable or None, default=None
        The folds of a cross-validation of `estimator`, as for
        :func:`sklearn.model_selection.cross_validate`. None is a single call of ``fit``.
    n_features : int or None, default=None
        The number of columns of the data. Without it the eps of the plan is exact and its rho is
        an upper bound; transformers with ``delta > 0`` need it.
    groups : object, default=None
        The `groups` that the search or the cross-validation will be given; their values are not
        read. scikit-learn passes them to the splitter only, unless a step requests them by metadata
        routing: a warning names the private steps that do not, because their fits protect rows and
        not people.
    row_wise : list of functions and names of steps, default=()
        Functions of a FunctionTransformer, and steps of a Pipeline, that compute each row of their
        output from one row. Other functions are assumed to learn from the rows.

    Returns
    -------
    plan : SearchPlan
        `n_fits` is the number of private fits, `total` their cost, and `affordable` says whether
        the ledger of the estimator can pay for it. `voids` has a sentence for each private step
        whose guarantee an upstream step invalidates. :meth:`PrivacyLedger.check` accepts a plan.

    Notes
    -----
    A search costs nothing more if you fit the private transformer once before it, wrap it in
    :class:`sklearn.frozen.FrozenEstimator`, and search only the steps after it. A
    RandomizedSearchCV without an int as `random_state` is planned as if it drew its most expensive
    candidate every time. A Pipeline with ``memory=`` reuses fits, so its plan is an upper bound.

    See Also
    --------
    PrivacyLedger : Charges every fit, and refuses fits beyond the budget.
    privacy_of : The cost of a fitted estimator.

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

    row_wise = checked_row_wise(row_wise)
    _warn_of_lost_groups(estimator, cv, groups)
    n_times = 1 if cv is None else number_of_folds(cv)
    fits = planned_fits(clone(estimator), n_features) * n_times
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
        voids=tuple(_voids(estimator, row_wise)),
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

    names = [type(step).__name__ for step in private_inside(estimator) if _loses_groups(step)]
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


def _voids(estimator, row_wise):
    """Yield a sentence for each private step whose guarantee an upstream step invalidates."""
    parts = parts_of(estimator, is_fitted=False, row_wise=row_wise)
    voided = {part.name: part for part in parts if part.upstream and is_private(part.estimator)}
    for part in voided.values():
        yield part.void_in_words()


# What PrivacyLedger.check takes beside costs.
planned_losses.register(SearchPlan, lambda plan: plan.losses)
planned_losses.register(BaseEstimator, lambda estimator: plan_search(estimator).losses)


class PlannedFit(NamedTuple):
    """A private fit, or several that are not known one by one, and an upper bound of its cost."""

    ledger: LedgerAccess | None
    loss: PrivacyLoss
    reasons: frozenset = frozenset()  # why the cost is not known exactly
    n_fits: int = 1

    def because(self, reason: str | None) -> "PlannedFit":
        """Return this fit with one more reason why its cost is not known exactly, if given."""
        return self if reason is None else self._replace(reasons=self.reasons | {reason})


def planned_fits(estimator: Any, n_features: int | None) -> list[PlannedFit]:
    """Return the private fits in one call of ``estimator.fit``; raise if they are not known."""
    if is_private(estimator):
        return [_private_fit(estimator, n_features)]
    if _is_search(estimator):
        candidates = _candidates(estimator, n_features)
        refit = _one_of(candidates, REFITTED) if estimator.refit else []
        return list(chain(*candidates)) * _folds_of(estimator, candidates) + refit

    steps = steps_of(estimator, n_features, is_fitted=False)
    if why := why_unknown(estimator, steps):
        raise UnknownFits(f"{why}; plan the inner estimator, with the cv that it meets.")
    return [
        fit.because(step.note)
        for step in steps
        if step.n_fits
        for fit in planned_fits(step.estimator, step.n_features) * step.n_fits
    ]


def _is_search(estimator):
    return rule_of(estimator) is not None and isinstance(
        estimator, (GridSearchCV, RandomizedSearchCV)
    )


def _folds_of(search, candidates):
    return number_of_folds(search.cv) if any(candidates) else 1


def _private_fit(transformer, n_features):
    """Return the fit of a private transformer."""
    loss = transformer._planned_loss(n_features=n_features)  # None: of any number of columns
    if getattr(transformer, "random_state", None) is not None:
        loss = replace(loss, os_randomness=False)

    ledger = getattr(transformer, "ledger", None)
    return PlannedFit(None if ledger is None else opened(ledger), loss)


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
        by_ledger.append(PlannedFit(ledger, loss, reasons, n_fits))

    return by_ledger


def _candidates(search, n_features):
    """Return the fits of each candidate; if draws are not known, those of the dearest for all."""
    if isinstance(search, GridSearchCV):
        return _fits_of_settings(search.estimator, ParameterGrid(search.param_grid), n_features)

    # A RandomState draws other candidates once it has been used, so a plan cannot know them.
    seed = search.random_state if isinstance(search.random_state, Integral) else None
    draws = ParameterSampler(search.param_distributions, search.n_iter, random_state=seed)
    if seed is not None:
        return _fits_of_settings(search.estimator, draws, n_features)

    dearest = [_dearest_values(search.estimator, space) for space in draws.param_distributions]
    candidates = _fits_of_settings(search.estimator, ParameterGrid(dearest), n_features)
    return [_one_of(candidates, DRAWN)] * len(draws)


def _fits_of_settings(estimator, settings, n_features):
    return [planned_fits(candidate, n_features) for candidate in with_settings(estimator, settings)]


def _dearest_values(estimator, space):
    """Return the parameters that may change the cost: their values, of a range the upper end."""
    steps = estimator.get_params(deep=True) | {"": estimator}
    replaces_steps = holds_private(space)

    dearest = {}
    for name, values in space.items():
        owner, _, unit = name.rpartition("__")
        if not replaces_steps and not holds_private(steps.get(owner)):
            continue

        low, high = values.support() if hasattr(values, "support") else (-np.inf, np.inf)
        if not hasattr(values, "rvs"):
            dearest[name] = values
        elif high - low < np.inf and unit in ("eps", "rho"):
            dearest[name] = [high, (low + high) / 2]  # the second shows that the cost is not fixed
        else:
            raise _unknown_dearest(name)

    ranges = [name for name in dearest if hasattr(space[name], "rvs")]
    if ranges and not all(map(_costs_grow, with_settings(estimator, ParameterGrid(dearest)))):
        raise _unknown_dearest(ranges[0])
    return dearest


def _costs_grow(estimator):
    """Return whether more eps, or rho, costs more of everything, as it decides nothing else.

    With a delta it decides which account is used, and with "auto" which mechanism.
    """
    return not any(
        getattr(private, "delta", 0) > 0 or getattr(private, "mechanism", None) == "auto"
        for private in private_inside(estimator)
    )


def _unknown_dearest(name):
    return ValueError(
        "random_state of RandomizedSearchCV must be an int for a plan if it is not known "
        f"which candidates cost most, as with the distribution of {name!r}."
    )
