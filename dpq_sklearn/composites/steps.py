"""Steps of composites: which estimator is fitted, how often, and on which rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral
from typing import Any

from sklearn.model_selection import check_cv

from dpq_sklearn.checks import shown


class UnknownFits(ValueError):
    """It is not known how often a composite fits the private transformers inside it."""


class Reason(StrEnum):
    """Why a composite or an upstream step invalidates the guarantee of a private transformer."""

    LEARNS = "learns from the private rows, so that one row can change all others"
    REPEATS = "draws rows with replacement, so that one row can occur several times"
    SAMPLES = "draws a number of rows, so that an additional row can take the place of another"
    SELECTS = "selects rows or columns by models that are not private"
    PREDICTS = "passes on labels or predictions of models that are not private"
    CHOOSES = "chooses among settings of it by scores that are not private"
    UNKNOWN = "is a composite that may pass on other rows than it is given"


@dataclass(frozen=True)
class Step:
    """An estimator inside a composite, and how often one fit of the composite fits it."""

    name: str
    estimator: Any
    n_fits: int | None = 1  # None if it is not known
    n_features: int | None = None  # None if the number of columns is not known
    is_kept: bool = False  # whether `estimator` is the fitted estimator itself, and not a parameter
    note: str | None = None  # why `n_fits` is an upper bound, or not known
    reason: Reason | None = None  # why the rows that it is given invalidate the guarantee


def kept_steps(name: str, estimators: Iterable, reason: Reason | None = None) -> list[Step]:
    """Return the fitted estimators that a composite keeps in a list."""
    return [
        Step(f"{name}[{i}]", step, is_kept=True, reason=reason) for i, step in enumerate(estimators)
    ]


def fold_steps(name: str, estimator: Any, cv: object, n_features: int | None) -> list[Step]:
    """Return the fits of an estimator in the folds of `cv`, none of which is kept."""
    try:
        return [Step(name, estimator, number_of_folds(cv), n_features)]
    except ValueError as error:
        return [Step(name, estimator, None, note=str(error))]


def number_of_folds(cv: object) -> int:
    """Return the number of folds of a `cv` parameter; raise if it is not known without data."""
    if isinstance(cv, Iterator):
        raise ValueError("cv must not be an iterator, because a plan would exhaust it.")

    try:
        return check_cv(cv).get_n_splits()
    except (TypeError, ValueError) as error:
        raise ValueError(
            "cv must have a number of folds that is known without data, such as an int or "
            f"KFold(5), got {shown(cv)}."
        ) from error


def stops_early(estimator: Any) -> str:
    """Return why a number of fits is an upper bound if a composite may stop earlier."""
    return f"{type(estimator).__name__} may stop before its last fit"


def is_int(number: object) -> bool:
    """Return whether a number is an integer: scikit-learn reads 1.0 as a share, but not 1."""
    return isinstance(number, Integral)
