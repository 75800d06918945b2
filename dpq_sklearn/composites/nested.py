"""The estimators nested in a composite, and the upstream steps that invalidate a guarantee.

The guarantee of a private transformer covers the rows that it is fitted on. An upstream step that
learns from the private rows (a scaler, an imputer by the mean, PCA) passes on rows that depend on
each other: one person can change all of them, and the guarantee no longer holds for the original
rows.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import get_tags

from dpq_sklearn.checks import shown
from dpq_sklearn.composites.inside import is_private
from dpq_sklearn.composites.rules import (
    column_steps,
    pipeline_steps,
    reason_of,
    rule_of,
    selects_by_values,
    steps_of,
    union_steps,
    why_unknown,
)
from dpq_sklearn.composites.steps import Reason, Step

# Like NumPy's ufuncs, these functions compute each row of their result from one row.
_ROW_WISE_FUNCTIONS = (None, np.clip, np.nan_to_num, np.round, np.around)


class Upstream(NamedTuple):
    """A step before a private transformer that invalidates its guarantee."""

    name: str
    reason: Reason


@dataclass(frozen=True)
class NestedEstimator:
    """An estimator somewhere inside a composite."""

    name: str  # the names of the steps that lead to it
    estimator: Any
    is_kept: bool = False
    upstream: tuple[Upstream, ...] = ()
    lost: Step | None = None  # the fits that a fitted composite does not keep, if there are any
    unknown: str | None = None  # why the number of fits of its own steps is not known

    def void_in_words(self) -> str:
        """Return a sentence that says why the guarantee of this estimator does not hold."""
        steps = "; ".join(f"{step.name!r} {step.reason.value}" for step in self.upstream)
        return (
            f"The guarantee of {self.name!r} does NOT hold for the original rows, because {steps}."
        )


def checked_row_wise(row_wise: object) -> tuple:
    """Return `row_wise` as a tuple, checked: functions and names of steps."""
    given = row_wise if isinstance(row_wise, (list, tuple, set, frozenset)) else None
    if given is None or not all(isinstance(each, str) or callable(each) for each in given):
        raise ValueError(
            f"row_wise must be a list of functions and names of steps, got {shown(row_wise)}."
        )
    return tuple(given)


def nested_estimators(
    estimator: object, *, is_fitted: bool, row_wise: Collection = ()
) -> Iterator[NestedEstimator]:
    """Yield an estimator and all estimators inside it, in the order in which rows reach them.

    `is_fitted` says whether to look at fitted attributes or at parameters. `row_wise` are functions
    and names of steps that the user knows to treat each row separately.
    """
    yield from _nested_estimators(NestedEstimator("", estimator, is_fitted), row_wise, frozenset())


def _nested_estimators(
    nested: NestedEstimator, row_wise: Collection, outer: frozenset[int]
) -> Iterator[NestedEstimator]:
    estimator = nested.estimator
    name = nested.name or type(estimator).__name__
    n_features = getattr(estimator, "n_features_in_", None)
    steps = steps_of(estimator, n_features, is_fitted=nested.is_kept)
    yield replace(nested, name=name, unknown=why_unknown(estimator, steps))

    outer |= {id(estimator)}
    upstream = nested.upstream
    if steps and (reason := reason_of(estimator)):
        upstream = (*upstream, Upstream(name, reason))

    for step in steps:
        if id(step.estimator) in outer:  # an estimator that refers to its own composite
            continue
        path = " > ".join(filter(None, (nested.name, step.name)))
        here = upstream if step.reason is None else (*upstream, Upstream(name, step.reason))
        lost = step if nested.is_kept and not step.is_kept and step.n_fits else None
        yield from _nested_estimators(
            NestedEstimator(path, step.estimator, step.is_kept, here, lost), row_wise, outer
        )

        is_vouched_for = bool({path, step.name} & _names_in(row_wise))
        is_chain = isinstance(estimator, Pipeline)
        if is_chain and not is_vouched_for and learns(step.estimator, row_wise):
            upstream = (*upstream, Upstream(path, Reason.LEARNS))


def _names_in(row_wise):
    return {each for each in row_wise if isinstance(each, str)}


def learns(estimator: object, row_wise: Collection = ()) -> bool:
    """Return whether the output for a row depends on other rows without being private.

    Private transformers, stateless transformers of scikit-learn and constants do not learn in this
    sense. Any other estimator or function is assumed to learn, unless `row_wise` lists it.
    """
    if isinstance(estimator, FrozenEstimator):  # the rows that it was fitted on are not known
        return learns(estimator.estimator, row_wise)
    if is_private(estimator):
        return False
    rule = rule_of(estimator)
    if rule is not None and learns_in_steps_only(estimator):
        steps = rule(estimator, None, True)
        vouched = _names_in(row_wise)
        return any(learns(step.estimator, row_wise) for step in steps if step.name not in vouched)

    if isinstance(estimator, SimpleImputer):  # by default it drops columns without any value
        is_constant = estimator.strategy == "constant" and estimator.keep_empty_features
        return not is_constant or estimator.add_indicator
    if isinstance(estimator, MissingIndicator):
        return estimator.features != "all"
    if isinstance(estimator, FunctionTransformer):
        return not _is_row_wise(estimator.func, row_wise)
    if type(estimator) is PolynomialFeatures:
        return False
    return not _is_stateless_in_sklearn(estimator)


def learns_in_steps_only(estimator: object) -> bool:
    """Return whether an estimator only passes rows on to its steps."""
    rule = rule_of(estimator)
    if rule is column_steps:
        return not selects_by_values(estimator)
    return rule in (pipeline_steps, union_steps)


def _is_row_wise(function, row_wise):
    if isinstance(function, np.ufunc) and function.signature is None:  # matmul has a signature
        return True
    return any(function is known for known in (*_ROW_WISE_FUNCTIONS, *row_wise))


def _is_stateless_in_sklearn(estimator):
    cls = type(estimator)
    if not cls.__module__.startswith("sklearn.") or cls.__name__ == "PatchExtractor":
        return False  # a patch extractor makes many rows of one row
    return not get_tags(estimator).requires_fit
