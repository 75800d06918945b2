"""The plan of a search without data: the number of private fits, and their total cost."""

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
from dpq_sklearn.composites.nested import checked_row_wise, nested_estimators
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
    """The cost of a search: at most `n_fits` private fits, which cost at most `total`."""

    n_fits: int
    total: PrivacyLoss
    reasons: tuple  # why the cost is not known exactly, or empty
    losses: tuple  # an upper bound of the cost of each fit
    refusals: tuple  # a sentence for each ledger that cannot pay for all fits now
    ledger_notes: tuple = ()  # a sentence for each ledger that counts more eps than `total` states
    voids: tuple = ()  # a sentence for each private step with an invalidated guarantee

    @property
    def affordable(self):
        """Whether the ledgers of the estimator can pay `total` now. True without ledgers."""
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

    The plan also names upstream steps that learn from the private rows, such as a scaler, and so
    invalidate the guarantee of a private transformer. Read more in the :ref:`User Guide
    <search_cost>`.

    Parameters
    ----------
    estimator : estimator
        A GridSearchCV or RandomizedSearchCV, or a Pipeline or other estimator.
    cv : int, cross-validation generator, iterable or None, default=None
        The folds of a cross-validation of `estimator`, as for
        :func:`sklearn.model_selection.cross_validate`. None plans a single call of ``fit``.
    n_features : int or None, default=None
        The number of columns of the data. Without it, the eps of the plan is exact and its rho is
        an upper bound. It is required for transformers with ``delta > 0``.
    groups : object, default=None
        The `groups` that you will pass to the search or the cross-validation. Their values are not
        read. scikit-learn passes groups to the splitter only, unless a step requests them by
        metadata routing. A warning names the private steps that do not request them, because their
        fits protect rows and not people.
    row_wise : list of functions and names of steps, default=()
        Functions of a FunctionTransformer, and steps of a Pipeline, that compute each row of their
        output from one row. Other functions are assumed to learn from the rows.

    Returns
    -------
    plan : SearchPlan
        `n_fits` is the number of private fits, `total` is their cost, and `affordable` says whether
        the ledger of the estimator can pay for them. `voids` has a sentence for each private step
        with a guarantee that an upstream step invalidates. :meth:`PrivacyLedger.check` accepts a
        plan.

    Notes
    -----
    To avoid the cost of a search, fit the private transformer once, wrap it in
    :class:`sklearn.frozen.FrozenEstimator`, and search only the steps after it. The plan of a
    RandomizedSearchCV without an int as `random_state` assumes that every candidate is the most
    expensive one. A Pipeline with ``memory=`` reuses fits, so its plan is an upper bound.

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
    """Warn of private steps that will be fitted without the groups of a search.

    A splitter that requires groups shows that the search will be given groups.
    """
    is_search = isinstance(estimator, (GridSearchCV, RandomizedSearchCV))
    if not is_search and cv is None:  # a single fit accepts groups itself
        return

    splitters = [cv, estimator.cv] if is_search else [cv]
    if groups is None and not any(map(_asks_for_groups, splitters)):
        return

    names = [type(step).__name__ for step in private_inside(estimator) if _loses_groups(step)]
    if names:
        warnings.warn(
            f"groups go to the splitter only: {', '.join(dict.fromkeys(names))} will be fitted "
            "without groups, so the fits protect rows and not people, or raise with "
            'privacy_unit="person". Pass groups to the step as well (step__groups), or enable '
            "metadata routing and call set_fit_request(groups=True), which ends this warning. "
            'Set privacy_unit="row" to protect rows.',
            stacklevel=3,
        )


def _asks_for_groups(splitter):
    routing = getattr(splitter, "get_metadata_routing", None)
    return routing is not None and bool(routing().split.requests.get("groups"))


def _loses_groups(private):
    """Return whether a private step gets no groups in a search, although it may need them."""
    if getattr(private, "privacy_unit", "row") == "row":
        return False
    is_requested = bool(private.get_metadata_routing().fit.requests.get("groups"))
    return not (get_config()["enable_metadata_routing"] and is_requested)


def _voids(estimator, row_wise):
    """Yield a sentence for each private step with a guarantee that an upstream step invalidates."""
    found = nested_estimators(estimator, is_fitted=False, row_wise=row_wise)
    voided = {
        nested.name: nested for nested in found if nested.upstream and is_private(nested.estimator)
    }
    for nested in voided.values():
        yield nested.void_in_words()


# PrivacyLedger.check accepts plans and estimators besides losses.
planned_losses.register(SearchPlan, lambda plan: plan.losses)
planned_losses.register(BaseEstimator, lambda estimator: plan_search(estimator).losses)


class PlannedFit(NamedTuple):
    """A private fit, or several fits that are planned together, and an upper bound of the cost."""

    ledger: LedgerAccess | None
    loss: PrivacyLoss
    reasons: frozenset = frozenset()  # why the cost is not known exactly
    n_fits: int = 1

    def because(self, reason: str | None) -> "PlannedFit":
        """Return this fit with a further reason why its cost is not known exactly, if any."""
        return self if reason is None else self._replace(reasons=self.reasons | {reason})


def planned_fits(estimator: Any, n_features: int | None) -> list[PlannedFit]:
    """Return the private fits in one call of ``estimator.fit``; raise if they are unknown."""
    if is_private(estimator):
        return [_private_fit(estimator, n_features)]
    if _is_search(estimator):
        candidates = _candidates(estimator, n_features)
        refit = _one_of(candidates, REFITTED) if estimator.refit else []
        return list(chain(*candidates)) * _folds_of(estimator, candidates) + refit

    steps = steps_of(estimator, n_features, is_fitted=False)
    if why := why_unknown(estimator, steps):
        raise UnknownFits(f"{why}; plan the inner estimator with its cv instead.")
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
    loss = transformer._planned_loss(n_features=n_features)  # None: for any number of columns
    if getattr(transformer, "random_state", None) is not None:
        loss = replace(loss, os_randomness=False)

    ledger = getattr(transformer, "ledger", None)
    return PlannedFit(None if ledger is None else opened(ledger), loss)


def _one_of(candidates, reason):
    """Return an upper bound of the fits of one candidate; `reason` says why it is unknown."""
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
    """Return the fits of each candidate, or of the most expensive one if draws are unknown."""
    if isinstance(search, GridSearchCV):
        return _fits_of_settings(search.estimator, ParameterGrid(search.param_grid), n_features)

    # The candidates that a RandomState draws depend on its earlier use, so they are unknown.
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
    """Return the parameters of a search that may change the cost, with their costliest values."""
    names = _parameters_of_private_steps(estimator, space)
    dearest = {name: _dearest_of_parameter(name, space[name]) for name in names}

    distributions = [name for name in names if _is_distribution(space[name])]
    if distributions:
        candidates = with_settings(estimator, ParameterGrid(dearest))
        if not all(map(_cost_increases_with_budget, candidates)):
            raise _unknown_dearest(distributions[0])
    return dearest


def _parameters_of_private_steps(estimator, space):
    """Return the names of the parameters in `space` that may change the cost.

    These are the parameters of private steps, or all parameters if the search replaces steps.
    """
    if holds_private(space):
        return list(space)
    steps = estimator.get_params(deep=True) | {"": estimator}
    return [name for name in space if holds_private(steps.get(name.rpartition("__")[0]))]


def _dearest_of_parameter(name, values):
    """Return the values of a parameter to plan with: a list itself, or the end of a distribution.

    The second value for a distribution shows that the cost is not fixed.
    """
    if not _is_distribution(values):
        return values

    low, high = values.support() if hasattr(values, "support") else (-np.inf, np.inf)
    is_budget = name.rpartition("__")[2] in ("eps", "rho")
    if not is_budget or not high - low < np.inf:
        raise _unknown_dearest(name)
    return [high, (low + high) / 2]


def _is_distribution(values):
    return hasattr(values, "rvs")


def _cost_increases_with_budget(estimator):
    """Return whether a larger eps, or rho, increases the cost of all private steps.

    With a delta the budget also decides which composition is used, and with "auto" which mechanism.
    """
    return not any(
        getattr(private, "delta", 0) > 0 or getattr(private, "mechanism", None) == "auto"
        for private in private_inside(estimator)
    )


def _unknown_dearest(name):
    return ValueError(
        "random_state of RandomizedSearchCV must be an int for a plan if the most expensive "
        f"candidates are unknown, as with the distribution of {name!r}."
    )
