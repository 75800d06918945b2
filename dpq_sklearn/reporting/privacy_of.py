"""privacy_of: the cost of all private fits of an estimator, and whether the guarantee holds."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.accounting.losses import PrivacyLoss, compose
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import shown
from dpq_sklearn.composites.inside import is_private
from dpq_sklearn.composites.nested import (
    NestedEstimator,
    checked_row_wise,
    learns,
    learns_in_steps_only,
    nested_estimators,
)
from dpq_sklearn.forecast.search import planned_fits
from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.ledger import opened
from dpq_sklearn.ledger.views import sentence
from dpq_sklearn.markup import html_element, html_list

_NOTHING = PrivacyLoss(eps=0.0, delta=0.0, rho=0.0)


@dataclass(frozen=True, repr=False)
class PrivacyInside:
    """The cost of all private fits of an estimator, and the limits of the guarantee.

    Parameters
    ----------
    total : PrivacyLoss
        The cost of all private fits together. It is a lower bound if `unknown` is not empty, and
        otherwise never less than was charged.
    parts : dict
        The cost of each private transformer, by the names of the steps that lead to it.
    not_private : tuple of str
        The names of the other steps, which learn from the rows without privacy.
    voided : dict
        The private transformers for which the guarantee does not hold for the original rows, and
        for each of them the upstream steps that invalidate it.
    n_fits : int
        The number of private fits in `total`.
    reasons : tuple of str
        Why `total` may be more than was charged; empty if it is exact.
    unknown : tuple of str
        Why `total` may be less than was charged; empty if it is not.
    ledgers : tuple of str
        The totals that the ledgers of the private transformers state, for all fits.
    void_sentences : tuple of str
        A sentence for each entry of `voided`.
    """

    total: PrivacyLoss
    parts: dict[str, PrivacyLoss]
    not_private: tuple[str, ...]
    voided: dict[str, tuple[str, ...]]
    n_fits: int = 0
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()
    void_sentences: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no upstream step invalidates the guarantee of a private transformer."""
        return not self.voided

    @property
    def bound_in_words(self) -> str:
        """How `total` relates to the charge: "at least", "at most", or "" if it is exact."""
        if self.unknown:
            return "at least"
        return "at most" if self.reasons else ""

    def sentences(self) -> list[str]:
        """Return the facts as sentences."""
        return [
            *self.void_sentences,
            *self.about_the_total(),
            *self._about_parts(),
            *self._about_the_rest(),
        ]

    def about_the_total(self) -> list[str]:
        """Return the reasons why the total is a bound, and the totals of the ledgers."""
        bounds = [f"It may have cost more: {why}." for why in self.unknown]
        bounds += [f"It may have cost less: {why}." for why in self.reasons if not self.unknown]
        return bounds + list(self.ledgers)

    def _about_parts(self):
        return [
            f"{name!r} costs eps={loss.eps:g}"
            + (f", delta={loss.delta:g}" if loss.delta else "")
            + "."
            for name, loss in self.parts.items()
        ]

    def _about_the_rest(self):
        if not self.not_private:
            return []
        names = ", ".join(map(repr, self.not_private))
        return [f"Not private: {names} learned from the rows."]

    def __repr__(self):
        total = self.total
        line = f"eps={total.eps:g}, delta={total.delta:g} in all ({total.neighbours.in_words})"
        return "\n".join((f"{self.bound_in_words} {line}".strip(), *self.sentences()))

    def _repr_html_(self):
        bound = html_element("p", f"{self.bound_in_words}:") if self.bound_in_words else ""
        return f"{bound}{self.total._repr_html_()}{html_list(self.sentences())}"

    def to_dict(self) -> dict:
        """Return the total as in :meth:`PrivacyLoss.to_dict`, and the `parts`; ready for JSON."""
        entry = self.total.to_dict()
        entry["dpq_sklearn"] |= {
            "parts": {name: loss.to_dict()["dpq_sklearn"] for name, loss in self.parts.items()},
            "not_private": list(self.not_private),
            "voided": {name: list(steps) for name, steps in self.voided.items()},
            "n_fits": self.n_fits,
            "is_lower_bound": bool(self.unknown),
            "may_be_more": list(self.unknown),
            "may_be_less": list(self.reasons),
        }
        return entry


class _Cost(NamedTuple):
    """The cost of a kept private fit, or of all fits of a step that are not kept."""

    loss: PrivacyLoss
    n_fits: int
    reasons: frozenset[str] = frozenset()


def privacy_of(estimator: Any, *, row_wise: Collection = ()) -> PrivacyInside:
    """Return the cost of all private fits of a fitted estimator, and whether the guarantee holds.

    Read more in the :ref:`User Guide <earlier_steps>`.

    Parameters
    ----------
    estimator : estimator
        A fitted Pipeline, ColumnTransformer, search or any other estimator with private
        transformers inside.
    row_wise : list of functions and names of steps, default=()
        Functions of a FunctionTransformer, and steps of a Pipeline, that compute each row of their
        output from one row. Other functions are assumed to learn from the rows.

    Returns
    -------
    privacy : PrivacyInside
        The `total`, the `parts`, the steps that are `not_private`, and the private transformers
        with a guarantee that is `voided` by an upstream step that learns from the private rows.

    See Also
    --------
    plan_search : The cost of a fit or a search, and the same checks, before any data are read.
    privacy_statement : One page about it.

    Notes
    -----
    Call it for every Pipeline: a private transformer that is fitted inside a Pipeline cannot see
    that a scaler before it invalidates its guarantee.

    The fits of candidates and folds that an estimator does not keep count as :func:`plan_search`
    plans them. All meta-estimators of scikit-learn are known. For any other composite the total is
    a lower bound: `unknown` says why, and `ledgers` quotes the totals of the ledgers.

    The cost of folds assumes that an additional row does not move other rows to another fold.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpq_sklearn import DPKBinsDiscretizer, privacy_of
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> privacy_of(make_pipeline(DPKBinsDiscretizer(4)).fit(X)).holds
    True
    >>> privacy_of(make_pipeline(MinMaxScaler(), DPKBinsDiscretizer(4)).fit(X)).voided
    {'dpkbinsdiscretizer': ('minmaxscaler',)}
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be a fitted estimator, got {shown(estimator)}.")
    row_wise = checked_row_wise(row_wise)
    check_is_fitted(estimator)

    found = list(nested_estimators(estimator, is_fitted=True, row_wise=row_wise))
    if not any(is_private(nested.estimator) for nested in found):
        raise ValueError(
            f"there is no private transformer inside this {type(estimator).__name__}, so it has no "
            "privacy guarantee."
        )

    costs, unknown = _costs(found)
    certain = {name: cost for name, cost in costs.items() if not (unknown and cost.reasons)}
    voided = {
        nested.name: nested for nested in found if nested.upstream and is_private(nested.estimator)
    }
    return PrivacyInside(
        total=reduce(add, [cost.loss for cost in certain.values()] or [_NOTHING]),
        parts={name: cost.loss for name, cost in costs.items()},
        not_private=tuple(dict.fromkeys(nested.name for nested in found if _has_learned(nested))),
        voided={
            name: tuple(dict.fromkeys(step.name for step in nested.upstream))
            for name, nested in voided.items()
        },
        n_fits=sum(cost.n_fits for cost in certain.values()),
        reasons=tuple(sorted(set().union(*(cost.reasons for cost in costs.values())))),
        unknown=tuple(dict.fromkeys(unknown)),
        ledgers=tuple(_quoted_ledgers(found)),
        void_sentences=tuple(nested.void_in_words() for nested in voided.values()),
    )


def _costs(all_nested: list[NestedEstimator]) -> tuple[dict[str, _Cost], list[str]]:
    """Return the cost of each part by its name, and why there may be further costs."""
    kept = _kept_private(all_nested)
    neighbours = {nested.estimator.privacy_.neighbours for nested in kept}
    of_all = next(iter(neighbours)) if len(neighbours) == 1 else Neighbours.ROWS

    costs: dict[str, _Cost] = {
        nested.name: _Cost(nested.estimator.privacy_, n_fits=1) for nested in kept
    }
    unknown = [nested.unknown for nested in all_nested if nested.unknown and nested.is_kept]
    for nested in all_nested:
        if nested.lost is None:
            continue
        try:
            cost = _cost_of_lost(nested, of_all)
        except ValueError as error:
            unknown.append(str(error).rstrip("."))
            continue
        if cost.n_fits:
            name = f"{nested.name}, fits that were not kept"
            costs[name] = _sum(cost, costs[name]) if name in costs else cost
    return costs, unknown


def _kept_private(all_nested):
    """Return the fitted private transformers, and shared ones (frozen or cached) only once."""
    fitted = [
        nested for nested in all_nested if nested.is_kept and hasattr(nested.estimator, "privacy_")
    ]
    by_release = {
        getattr(nested.estimator.privacy_, "release_id", None) or id(nested.estimator): nested
        for nested in reversed(fitted)
        if is_private(nested.estimator)
    }
    return list(reversed(by_release.values()))


def _cost_of_lost(nested, neighbours):
    """Return the cost of all fits of a step that its composite did not keep."""
    fits = planned_fits(nested.lost.estimator, nested.lost.n_features)
    n_times = nested.lost.n_fits
    reasons = frozenset().union(*(fit.reasons for fit in fits))
    if nested.lost.note is not None and fits:
        reasons |= {nested.lost.note}

    loss = replace(compose([fit.loss for fit in fits] * n_times), neighbours=neighbours)
    return _Cost(loss, sum(fit.n_fits for fit in fits) * n_times, reasons)


def _sum(one, other):
    return _Cost(one.loss + other.loss, one.n_fits + other.n_fits, one.reasons | other.reasons)


def _has_learned(nested):
    estimator = nested.estimator
    if not nested.is_kept or is_private(estimator) or learns_in_steps_only(estimator):
        return False
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return learns(estimator)


def _quoted_ledgers(all_nested: Iterable[NestedEstimator]):
    """Yield the current total of each ledger of the private transformers."""
    private = [nested.estimator for nested in all_nested if is_private(nested.estimator)]
    ledgers = [getattr(transformer, "ledger", None) for transformer in private]
    yield from dict.fromkeys(_quoted(ledger) for ledger in ledgers if ledger is not None)


def _quoted(ledger):
    try:
        access = opened(ledger)
        stated = sentence(access.summary())
    except (ValueError, OSError, ImportError, LedgerError):  # moved, or on another machine
        return "A privacy ledger was charged that cannot be read from here."
    return (
        f"The privacy ledger {access.store.location} states {stated}, for these and all other fits."
    )
