"""Schemas: bounds and decimals that follow from the types of columns.

A type that was guessed from the values depends on the data: ``read_csv`` makes int64 of a column
until another row holds 3.5 or a missing value. So this module is used only if a user vouches for
the types with ``decimals="schema"``.
"""

import re

import numpy as np

from dpq_sklearn.dates import ColumnKind, kind_of

_INTEGERS = r"(sparse\[|dictionary<values=)?u?int\d"
_BOOLEANS = r"(sparse\[|dictionary<values=)?bool"
_BOUNDS_OF_TYPES = {"uint8": (0.0, 255.0), "uint16": (0.0, 65535.0)}


def within_schema(dtypes, bounds):
    """Return the bounds and the decimals of columns with these dtypes: lists.

    Integers, booleans and dates without a time have no decimals. Booleans and small unsigned
    integers have bounds, which apply if no bounds are given. Other types imply nothing.
    """
    of_types = list(map(_bounds_and_decimals, dtypes))
    return (
        [
            _intersection(*pair)
            for pair in zip(bounds, (found for found, _ in of_types), strict=True)
        ],
        [decimals for _, decimals in of_types],
    )


def _bounds_and_decimals(dtype):
    if str(dtype) == "category":
        dtype = dtype.categories.dtype
    name = str(dtype).lower()
    if kind_of(dtype) is ColumnKind.DATE:  # whole days
        return (-np.inf, np.inf), 0
    if re.match(_BOOLEANS, name):
        return (0.0, 1.0), 0
    if re.match(_INTEGERS, name):
        named = (found for of_type, found in _BOUNDS_OF_TYPES.items() if of_type in name)
        return next(named, (-np.inf, np.inf)), 0
    return (-np.inf, np.inf), None


def _intersection(given, of_type):
    """Return given bounds, with open ends replaced by the type's, unless they are disjoint."""
    low = given[0] if np.isfinite(given[0]) else of_type[0]
    high = given[1] if np.isfinite(given[1]) else of_type[1]
    return (low, high) if low < high else given
