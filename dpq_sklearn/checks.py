"""Checks of arguments. Messages name the parameter, the rule and the value, but never data.

Users may pass private data by mistake, as in ``dp_quantiles([0.5], salaries)``, and messages end up
in logs. So a message shows a scalar as it is, and only the type of anything else.
"""

import math
from numbers import Integral, Number, Real
from os import PathLike

import numpy as np

from dpq_sklearn.dates import ColumnKind, days_of_scalar, kind_of_scalar

UNBOUNDED = (-math.inf, math.inf)
MOST_DECIMALS = 15

# Without two bounds, the range of the numbers ends at two to this power. It includes every 64-bit
# integer.
LARGEST_EXPONENT = 64

# The most quantiles of a column. More would take minutes and gigabytes after the budget is spent.
MOST_QUANTILES = 100_000

_LONGEST_TEXT = 200


def shown(value):
    """Return a scalar or a short text as it is written, and type and shape of other objects."""
    if isinstance(value, np.generic):
        value = value.item()  # 3 and not np.int64(3)

    shape = getattr(value, "shape", None)
    if value is None or isinstance(value, Number) or shape == ():
        return repr(value)
    if isinstance(value, (str, PathLike)):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."

    name = type(value).__name__
    if isinstance(shape, tuple):
        return f"{name} of shape {shape}"
    return f"{name} of length {len(value)}" if hasattr(value, "__len__") else f"a {name}"


def checked_positive(value, name):
    """Return `value` as a float if it is a positive number whose square is finite."""
    number = _finite(value)

    if not 0 < number < 1e100:
        raise ValueError(f"{name} must be a finite number > 0 and < 1e100, got {shown(value)}.")
    return number


def checked_delta(value):
    """Return `value` as a float if it is a number in [0, 1)."""
    number = _finite(value)
    if not 0 <= number < 1:
        raise ValueError(f"delta must be a number in [0, 1), got {shown(value)}.")
    return number


def checked_bounds(bounds, kind=None):
    """Return `bounds` as two floats, with infinity for None, or raise a ValueError.

    Dates become days since 1970-01-01. The `kind` of the column decides whether the bounds must be
    numbers, dates or durations. It is None if the kind is not known.
    """
    if bounds is None:
        return UNBOUNDED

    try:
        low, high = bounds
    except (TypeError, ValueError):
        low = high = math.nan
    _check_kind_of_bounds(bounds, (low, high), kind)

    low = -math.inf if low is None else _finite_end(low)
    high = math.inf if high is None else _finite_end(high)

    if not low < high:
        rule = (
            "be None or a pair (low, high) of finite numbers or dates with low < high, where None "
            "is a missing bound"
        )
    elif math.inf in (-low, high) and 2.0**LARGEST_EXPONENT <= min(abs(low), abs(high)) < math.inf:
        rule = f"have a number within 2^{LARGEST_EXPONENT} of 0 if the other bound is missing"
    elif -math.inf < low and high < math.inf == high - low:
        rule = "have a finite width"
    else:
        return low, high

    raise ValueError(f"bounds must {rule}, got {_bounds_in_words(bounds)}.")


def _check_kind_of_bounds(bounds, ends, kind):
    """Raise if bounds are dates and the column has numbers, or the other way round."""
    kinds = {kind_of_scalar(end) for end in ends if end is not None}
    if len(kinds) > 1:
        raise ValueError(
            f"bounds must be two numbers, two dates or two durations, got "
            f"{_bounds_in_words(bounds)}."
        )
    if kind is None or not kinds:
        return

    (of_bounds,) = kinds
    if of_bounds is not kind.of_scalars:
        raise ValueError(
            f"bounds of a column of {kind.in_words} must be {kind.in_words}, got "
            f"{_bounds_in_words(bounds)}. If a table has numbers and dates, pass the bounds by "
            "name: bounds={name: (low, high)}."
        )


def _finite_end(end):
    """Return a bound as a float, a date in days since 1970-01-01, or NaN for other objects."""
    return _finite(end) if kind_of_scalar(end) is ColumnKind.NUMBER else days_of_scalar(end)


def _bounds_in_words(bounds):
    """Return wrong bounds as a text for messages: numbers as they are, types of other objects."""
    is_short = isinstance(bounds, (tuple, list)) and len(bounds) <= 4
    if is_short and any(kind_of_scalar(end) is not ColumnKind.NUMBER for end in bounds):
        return f"({', '.join(type(end).__name__ for end in bounds)})"
    if is_short and all(end is None or np.isscalar(end) for end in bounds):
        return repr(bounds)
    return shown(bounds)


def checked_decimals(decimals):
    """Return `decimals` as an int or None, or raise a ValueError."""
    if decimals is None:
        return None
    is_int = isinstance(decimals, Integral) and not isinstance(decimals, (bool, np.bool_))
    if not is_int or abs(decimals) > MOST_DECIMALS:
        raise ValueError(
            f"decimals must be None, 'schema' or integers from -{MOST_DECIMALS} to "
            f"{MOST_DECIMALS}, got {shown(decimals)}."
        )
    return int(decimals)


def _finite(value):
    """Return a finite real number as a float, and NaN for anything else."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an integer beyond float64
        return math.nan


def checked_probabilities(given, name):
    """Return numbers strictly between 0 and 1 as a float array of the shape of `given`."""
    probabilities = real_numbers(given)
    if probabilities.size == 0 or not np.all((probabilities > 0) & (probabilities < 1)):
        # The text does not depend on the numbers, because they may be data by mistake.
        raise ValueError(
            f"{name} must be numbers strictly between 0 and 1, got {shown(given)}. A minimum or "
            "maximum is the value of a single record, so it cannot be released: use 0.01 and 0.99, "
            "or public bounds."
        )
    if probabilities.size > MOST_QUANTILES:
        raise ValueError(f"{name} must be at most {MOST_QUANTILES:,} numbers, got {shown(given)}.")
    return probabilities


def checked_whole(value, name, least=1):
    """Return a whole number as an int. Floats such as 1e4 are accepted."""
    is_whole = isinstance(value, Real) and not isinstance(value, bool) and value % 1 == 0
    if not is_whole or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {shown(value)}.")
    return int(value)


def real_numbers(given):
    """Return real numbers as an array of floats, or an empty array for anything else."""
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        return np.empty(0)

    if array.dtype.kind not in "iuf":
        return np.empty(0)
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def checked_random_state(random_state):
    """Return `random_state` if it is valid, or raise a ValueError."""
    is_int = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    is_seed = is_int and random_state >= 0
    if random_state is None or is_seed or isinstance(random_state, np.random.RandomState):
        return random_state
    raise ValueError(
        "random_state must be None (the operating system's generator), a non-negative int "
        f"or a numpy RandomState, got {shown(random_state)}."
    )
