"""Find private transformers inside estimators and containers."""

from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

# Objects that have attributes, but hold no estimators to be fitted.
_HOLD_NO_ESTIMATORS = (type, ModuleType, FunctionType)


def is_private(estimator: object) -> bool:
    """Return whether an estimator releases private numbers in its fit."""
    # The class decides: a FrozenEstimator has the attributes of its estimator, but fits nothing.
    return hasattr(type(estimator), "_planned_loss")


def holds_private(thing: Any) -> bool:
    """Return whether an object contains a private transformer that can be fitted."""
    return any(True for _ in private_inside(thing))


def private_inside(thing: Any) -> Iterator[Any]:
    """Yield all private transformers that can be fitted inside an estimator or a container."""
    inside: Iterable[Any] = ()
    if isinstance(thing, (list, tuple)):
        inside = thing
    elif isinstance(thing, dict):
        inside = thing.values()
    elif is_estimator(thing) and not isinstance(thing, FrozenEstimator):
        inside = thing.get_params(deep=False).values()

    if is_private(thing):
        yield thing
    for item in inside:
        yield from private_inside(item)


def is_estimator(thing: Any) -> bool:
    """Return whether an object is an estimator, and not an estimator class."""
    return hasattr(thing, "get_params") and not isinstance(thing, type)


def estimators_in_attributes(estimator: Any) -> list[tuple[str, Any]]:
    """Return (name, estimator) for each estimator in the attributes of an object."""
    seen: set[int] = set()
    return [
        found
        for name, value in getattr(estimator, "__dict__", {}).items()
        for found in _estimators_in(name, value, seen)
    ]


def are_private_anywhere(estimators: Iterable[Any]) -> bool:
    """Return whether some of the estimators, or of those in their attributes, are private."""
    waiting = list(estimators)
    seen: set[int] = set()
    while waiting:
        estimator = waiting.pop()
        if is_private(estimator):
            return True
        if id(estimator) not in seen:
            seen.add(id(estimator))
            waiting += [step for _, step in estimators_in_attributes(estimator)]
    return False


def _estimators_in(name, value, seen):
    """Return (name, estimator) for each estimator in a value, its items or its attributes."""
    if is_estimator(value):
        return [(name, value)]
    if id(value) in seen or isinstance(value, _HOLD_NO_ESTIMATORS):
        return []
    seen.add(id(value))

    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = enumerate(value)
    elif isinstance(value, np.ndarray):
        items = enumerate(value.flat) if value.dtype == object else ()
    else:
        items = getattr(value, "__dict__", {}).items()

    return [
        found
        for key, item in list(items)
        for found in _estimators_in(f"{name}[{key!r}]", item, seen)
    ]
