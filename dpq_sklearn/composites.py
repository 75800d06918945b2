"""What is inside a composite estimator: private parts, others, and what stands in front of what.

A private transformer keeps its promise for the rows that it is given. A step in front that learns
from the private rows (a scaler, an imputer by the mean, PCA) hands over rows that depend on each
other: one person moves all of them, and the promise is void.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import get_tags


class Part(NamedTuple):
    """An estimator inside another one."""

    name: str  # the names of the steps that lead to it
    estimator: object
    in_front: tuple = ()  # the names of the steps before it that learn from the rows


def void_in_words(name, in_front):
    """Return a sentence about a private part whose promise steps in front of it void."""
    steps = ", ".join(map(repr, in_front))
    return (
        f"The promise of {name!r} is VOID: {steps} in front of it learns from the private rows, so "
        "that one row moves all others."
    )


def is_private(estimator):
    """Return whether an estimator releases private numbers in its fit."""
    # Of the class: a FrozenEstimator has the attributes of what it holds, but fits nothing.
    return hasattr(type(estimator), "_planned_loss")


def parts_of(estimator, name="", in_front=()) -> Iterator[Part]:
    """Yield the simple estimators inside another one, in the order in which rows meet them."""
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    steps = _steps(estimator)
    if steps is None:
        yield Part(name or type(estimator).__name__, estimator, in_front)
        return

    is_chain = isinstance(estimator, Pipeline)
    for step_name, step in steps:
        path = f"{name} > {step_name}" if name else step_name
        yield from parts_of(step, path, in_front)
        if is_chain and learns(step):
            in_front = (*in_front, path)


def _steps(estimator):
    """Return the names and fitted parts of a composite estimator; None if it is a simple one."""
    if isinstance(estimator, Pipeline):
        return [(name, step) for name, step in estimator.steps if _is_estimator(step)]
    if isinstance(estimator, ColumnTransformer):
        fitted = getattr(estimator, "transformers_", estimator.transformers)
        return [(name, step) for name, step, _ in fitted if _is_estimator(step)]
    if isinstance(estimator, FeatureUnion):
        return [(name, step) for name, step in estimator.transformer_list if _is_estimator(step)]
    if hasattr(estimator, "best_estimator_"):
        return [("best_estimator_", estimator.best_estimator_)]
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return [("estimator", estimator.estimator)]
    if is_private(estimator) or not isinstance(estimator, BaseEstimator):
        return None
    return _fitted_attributes(estimator) or None


def _fitted_attributes(estimator):
    """Return what an unknown composite has fitted: estimators in its attributes, lists and dicts.

    Only those are looked at in which something is private: else the whole is a simple estimator.
    """
    found = []
    for name, value in vars(estimator).items():
        if name.endswith("_") and not name.endswith("__"):
            found += _estimators_in(name, value)
    distinct = {id(step): (name, step) for name, step in found}
    steps = list(distinct.values())
    return steps if any(holds_private(step) for _, step in steps) else []


def _estimators_in(name, value):
    if _is_estimator(value):
        return [(name, value)]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [found for key, item in items for found in _estimators_in(f"{name}[{key!r}]", item)]


def holds_private(estimator):
    """Return whether there is a fitted private transformer inside."""
    return any(hasattr(part.estimator, "privacy_") for part in parts_of(estimator))


def _is_estimator(thing):
    return hasattr(thing, "get_params") and not isinstance(thing, type)


def learns(estimator):
    """Return whether what an estimator makes of a row depends on other rows, and not privately.

    Private transformers, transformers without state and constants do not learn in this sense. What
    is not known is assumed to learn.
    """
    if isinstance(estimator, (Pipeline, ColumnTransformer, FeatureUnion)):
        return any(learns(step) for _, step in _steps(estimator))
    if isinstance(estimator, FrozenEstimator):  # before, and nobody can tell from which rows
        return learns(estimator.estimator)
    if is_private(estimator):
        return False
    if isinstance(estimator, SimpleImputer):
        return estimator.strategy != "constant" or estimator.add_indicator
    if isinstance(estimator, MissingIndicator):
        return estimator.features != "all"
    if isinstance(estimator, (FunctionTransformer, PolynomialFeatures)):
        return False
    return _requires_fit(estimator)


def _requires_fit(estimator):
    try:
        return get_tags(estimator).requires_fit
    except Exception:  # an estimator of another library without tags
        return True
