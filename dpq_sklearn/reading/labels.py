"""Labels of people: which rows have equal labels, by one rule for all containers.

- **Equal labels are one person.** Labels are equal if Python's `==` says so: 1 and 1.0, 0.0 and
  -0.0, a category and its text, an instant in two time zones; but not "Ann" and "ann", 1 and "1",
  or a `date` and a `datetime`.
- **A scalar of NumPy stands for one Python object**, because NumPy's own `==` is not transitive.
  A number is the number that `item()` returns: `np.float32(0.1)` is 0.10000000149011612, not 0.1.
  A `datetime64` of any unit is the `datetime` of the same instant, not a `date`. A `timedelta64`
  is a `timedelta`.
- **Inside a compound label**, such as a tuple or a row of a MultiIndex, missing components of all
  kinds are equal, because containers turn None into NaN: (1, NaN) is one person.
- **A label that is itself missing** (None, NaN, NaT, NA, masked) is a separate person.

Both mistakes cost privacy. A person who is split into two has twice the weight, and two people
who are merged share the weight of one: either can change a release by twice as much as eps allows.
Therefore no label passes through a float that could round it, and the entries of a dictionary (of
Arrow, of categories, of a MultiIndex) are compared, because they may be repeated or missing.

`check_type` refuses labels by their type alone, before the price is paid. `people_of` reads them.
"""

import re
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from fractions import Fraction
from operator import attrgetter, itemgetter

import numpy as np

from dpq_sklearn.reading.containers import MISSING_TYPES

# Labels of these types are never missing and have no components.
_PLAIN_TYPES = {int, str, bytes, bool}
# pandas compares objects of these types as Python does, in half the time.
_TEXT_TYPES = {str, float, type(None)}
_MISSING = object()

# How many attoseconds, the shortest unit, each of NumPy's units of time has.
_ATTOSECONDS = {unit: 1000**power for power, unit in enumerate(("as", "fs", "ps", "ns", "us"))}
_ATTOSECONDS |= {"ms": 10**15, "s": 10**18, "m": 60 * 10**18, "h": 3600 * 10**18}
_ATTOSECONDS |= {"D": 24 * _ATTOSECONDS["h"], "W": 168 * _ATTOSECONDS["h"]}


def check_type(labels):
    """Raise unless the type of a column of labels holds single, hashable labels."""
    if _is_of(labels, "pyarrow", "Array", "ChunkedArray"):
        dtype, is_single = labels.type, _is_single_in_arrow(labels.type)
    elif _is_of(labels, "polars", "Series"):
        dtype = labels.dtype
        is_single = not getattr(dtype, "ext_storage", lambda: dtype)().is_nested()
    elif hasattr(getattr(labels, "dtype", None), "pyarrow_dtype"):
        dtype = labels.dtype.pyarrow_dtype
        is_single = _is_single_in_arrow(dtype)
    elif isinstance(labels, np.ndarray):
        dtype = "void" if labels.dtype.kind == "V" else labels.dtype
        is_single = _is_single_in_numpy(labels.dtype)
    else:
        return
    if not is_single:
        word = re.match(r"\w+", str(dtype)).group()  # without the names of fields
        raise TypeError(
            f"groups must hold hashable labels, such as numbers or strings, got the type {word}."
        )


def people_of(labels):
    """Return a whole number from 0 on for each label. Equal labels have equal numbers.

    Errors of comparing the labels are passed on and may show a label.
    """
    codes, is_missing = codes_of(labels)
    if is_missing.any():
        codes[is_missing] = codes.max() + 1 + np.arange(np.count_nonzero(is_missing))
    return codes


def codes_of(labels):
    """Return a code for each label, equal for equal labels, and whether the label is missing.

    Codes are whole numbers from 0 on. Missing labels have arbitrary codes.
    """
    codes, is_missing = _codes_of(labels)
    if codes.shape != (len(labels),):
        raise ValueError("an array has another shape than its container")
    return _small(codes), is_missing


# Each of the functions below returns an integer for each label, and whether the label is missing.


def _codes_of(labels):
    if _is_of(labels, "pyarrow", "Array", "ChunkedArray"):
        return _codes_of_arrow(labels)
    if _is_of(labels, "polars", "Series"):
        return _codes_of_polars(labels)
    if _is_of(labels, "pandas", "Series", "Index", "api.extensions.ExtensionArray"):
        return _codes_of_pandas(labels)
    if isinstance(labels, np.ndarray):
        return _codes_of_numpy(labels)
    if not hasattr(labels, "__array__"):
        return _codes_of_objects(list(labels))  # NumPy would make text of mixed labels
    array = np.asarray(labels)
    if array.dtype.kind not in "iub" and hasattr(labels, "tolist"):
        return _codes_of_objects(labels.tolist())
    return _codes_of_numpy(array)


def _codes_of_objects(labels):
    types = set(map(type, labels))
    if types == {tuple} and len(set(map(len, labels))) == 1:
        columns = (map(itemgetter(position), labels) for position in range(len(labels[0])))
        components = [_codes_of_objects(list(column)) for column in columns]
        return _codes_of_components(components, (len(labels),))
    if not types <= _PLAIN_TYPES:
        labels = [_comparable(label) for label in labels]
    numbers = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
    return codes, codes == numbers.get(_MISSING, -1)


def _comparable(label):
    """Return the key of a label in a dictionary: `_MISSING` for every missing label."""
    if isinstance(label, np.generic):
        label = _python_object(label)
    kind = type(label)
    if kind.__name__ in MISSING_TYPES:
        return _MISSING
    if hasattr(kind, "to_datetime64") and label.tzinfo is None:  # a Timestamp of pandas
        return _instant(label.to_datetime64())
    if hasattr(kind, "to_timedelta64"):  # a Timedelta of pandas
        return _duration(label.to_timedelta64())
    for compound in (tuple, frozenset):  # also named tuples, which are equal to plain ones
        if issubclass(kind, compound) and kind.__eq__ is compound.__eq__:
            return compound(map(_comparable, label))
    return label if label == label else _MISSING


def _python_object(scalar):
    """Return the Python object for a scalar of NumPy, which has an exact `==` and a hash.

    NumPy's own scalars can be equal and have different hashes.
    """
    if isinstance(scalar, (np.datetime64, np.timedelta64)):
        if np.isnat(scalar):
            return None
        return _instant(scalar) if isinstance(scalar, np.datetime64) else _duration(scalar)
    if isinstance(scalar, np.longdouble):
        return Fraction(*scalar.as_integer_ratio()) if np.isfinite(scalar) else float(scalar)
    return scalar.item()


def _instant(scalar):
    """Return a `datetime64` as a datetime if possible, otherwise as its exact time since 1970."""
    unit, _ = np.datetime_data(scalar.dtype)
    if unit in ("Y", "M"):
        scalar = scalar.astype("M8[D]")
    duration = _duration(scalar.view(scalar.dtype.str.replace("M8", "m8")))
    with suppress(TypeError, OverflowError):
        return datetime(1970, 1, 1) + duration
    return np.datetime64, duration


def _duration(scalar):
    """Return a `timedelta64` as a timedelta if possible, otherwise as its exact length."""
    unit, n_units = np.datetime_data(scalar.dtype)
    length = int(scalar.view(np.int64)) * n_units
    if unit not in _ATTOSECONDS:  # months and years have no fixed length
        return np.timedelta64, unit == "generic", length * (12 if unit == "Y" else 1)

    microseconds, rest = divmod(length * _ATTOSECONDS[unit], _ATTOSECONDS["us"])
    if rest == 0:
        with suppress(OverflowError):
            return timedelta(microseconds=microseconds)
    return np.timedelta64, microseconds, rest


def _codes_of_numpy(labels):
    kind = labels.dtype.kind
    if labels.dtype.names is not None:
        components = [_codes_of_numpy(labels[name]) for name in labels.dtype.names]
        return _codes_of_components(components, labels.shape)
    if isinstance(labels, np.ma.MaskedArray):
        return _codes_of_masked(labels)
    if kind in "iub":
        return labels.astype(np.int64, copy=False), np.zeros(labels.shape, dtype=bool)
    if kind in "mM":
        return labels.astype(np.int64), np.isnat(labels)
    if kind in "fc":
        return np.unique(labels, return_inverse=True)[1], np.isnan(labels)
    return _codes_of_objects(labels.tolist())


def _codes_of_masked(labels):
    mask = np.ma.getmaskarray(labels)
    below = labels.data
    if below.dtype.kind == "O":  # an object below the mask need not be a label
        below = np.where(mask, None, below)
    codes, is_missing = _codes_of_numpy(below)
    return codes, is_missing | mask


def _codes_of_components(components, shape):
    """Return the codes of compound labels, which are never missing themselves."""
    codes = np.zeros(shape, dtype=np.int64)
    for of_component, is_missing in components:
        of_component = _small(of_component) + 1
        of_component[is_missing] = 0
        codes = _small(codes * (of_component.max(initial=0) + 1) + of_component)
    return codes, np.zeros(shape, dtype=bool)


def _codes_of_entries(entries, positions):
    """Return the codes of the labels at these positions of a dictionary; -1 is a missing label."""
    codes, is_missing = _codes_of(entries)
    return np.append(codes, 0)[positions], np.append(is_missing, True)[positions]


def _codes_of_pandas(labels):
    pandas = sys.modules["pandas"]
    dtype = labels.dtype
    if isinstance(labels, pandas.MultiIndex):
        components = map(_codes_of_entries, labels.levels, labels.codes)
        return _codes_of_components(components, labels.shape)
    if isinstance(dtype, (np.dtype, pandas.IntervalDtype, pandas.SparseDtype)):
        # A sparse column becomes objects, because pandas would convert uint64 to floats.
        is_sparse = isinstance(dtype, pandas.SparseDtype)
        array = np.asarray(labels, dtype=object if is_sparse else None)
        is_text = array.dtype.kind == "O" and set(map(type, array.tolist())) <= _TEXT_TYPES
        return _factorized(array) if is_text else _codes_of_numpy(array)
    if isinstance(dtype, pandas.CategoricalDtype):
        values = getattr(labels, "cat", labels)  # a series has its codes there
        return _codes_of_entries(dtype.categories, np.asarray(values.codes))
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", None) == "pyarrow":
        return _codes_of_arrow(sys.modules["pyarrow"].array(labels))
    if hasattr(dtype, "numpy_dtype") and dtype.na_value is not pandas.NA:  # an array without a mask
        return _codes_of_numpy(np.asarray(labels))
    if hasattr(dtype, "numpy_dtype"):  # integers with a mask must not become floats
        array = labels.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        codes, is_missing = _codes_of_numpy(array)
        return codes, is_missing | np.asarray(labels.isna())
    if isinstance(dtype, (pandas.StringDtype, pandas.DatetimeTZDtype, pandas.PeriodDtype)):
        return _factorized(labels)
    return _codes_of_objects(list(labels))


def _factorized(labels):
    codes = sys.modules["pandas"].factorize(labels)[0].astype(np.int64, copy=False)
    return codes, codes < 0


def _codes_of_polars(labels):
    is_known = (
        labels.dtype != sys.modules["polars"].Object
    )  # Arrow would only hold the addresses of objects
    with suppress(Exception):  # pyarrow is not installed, or does not know the type
        if is_known and not hasattr(labels.dtype, "ext_storage"):
            return _codes_of_arrow(labels.to_arrow())
    return _codes_of_objects(labels.to_list())


def _codes_of_arrow(labels):
    with suppress(NotImplementedError):  # Arrow does not support all operations for rare types
        return _codes_by_arrow(labels)
    return _codes_of_objects(labels.to_pylist())


def _codes_by_arrow(labels):
    import pyarrow
    from pyarrow import compute

    kind, types = labels.type, pyarrow.types
    chunks = labels.chunks if isinstance(labels, pyarrow.ChunkedArray) else [labels]
    if types.is_dictionary(kind):  # each chunk may have its own dictionary
        values = [chunk.dictionary_decode() for chunk in chunks]
        return _codes_of_arrow(pyarrow.chunked_array(values, kind.value_type))
    if types.is_run_end_encoded(kind):
        values = [compute.run_end_decode(chunk) for chunk in chunks]
        return _codes_of_arrow(pyarrow.chunked_array(values, kind.value_type))
    if isinstance(kind, pyarrow.BaseExtensionType):  # equal labels may have different storage
        return _codes_of_objects(labels.to_pylist())
    if types.is_floating(kind):  # Arrow distinguishes -0.0 from 0.0
        return _codes_of_numpy(np.asarray(labels))

    is_missing = np.asarray(labels.is_null())
    if types.is_integer(kind):
        codes, _ = _codes_of_numpy(np.asarray(labels.fill_null(0)))
        return codes, is_missing
    encoded = pyarrow.chunked_array(
        chunks, kind
    ).dictionary_encode()  # the same dictionary for all chunks
    positions = [np.asarray(chunk.indices.fill_null(-1)) for chunk in encoded.chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *positions]), is_missing


def _small(codes):
    """Return codes from 0 on for integers, with a maximum of a few times the number of rows."""
    if codes.size == 0:
        return codes.astype(np.int64)
    lowest, highest = int(codes.min()), int(codes.max())
    span = highest - lowest
    if span.bit_length() + codes.size.bit_length() > 63:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    codes = codes - lowest
    if span >= 4 * codes.size:
        ascending, order = sorted_with_positions(codes)
        codes[order] = np.cumsum(np.diff(ascending, prepend=ascending[:1]) > 0)
    return codes


def sorted_with_positions(codes):
    """Return ascending codes, and the original position of each."""
    n_bits = codes.size.bit_length()
    packed = codes << n_bits | np.arange(codes.size)  # several times as fast as `argsort`
    packed.sort()
    return packed >> n_bits, packed & (2**n_bits - 1)


def _is_of(thing, library, *names):
    """Return whether an object has one of these types of a library, which may not be imported."""
    module = sys.modules.get(library)
    return module is not None and isinstance(thing, attrgetter(*names)(module))


def _is_single_in_arrow(kind):
    from pyarrow import BaseExtensionType, types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _is_single_in_arrow(kind.value_type)
    if isinstance(kind, BaseExtensionType):
        return _is_single_in_arrow(kind.storage_type)
    return not types.is_nested(kind)


def _is_single_in_numpy(dtype):
    """Return whether no component of a record is an array."""
    components = [] if dtype.names is None else [dtype[name] for name in dtype.names]
    return dtype.subdtype is None and all(map(_is_single_in_numpy, components))
