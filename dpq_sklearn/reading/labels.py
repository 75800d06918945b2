"""Labels of people: which rows have equal labels, by one rule for all containers.

- **Equal labels are one person.** Equal is what Python's `==` calls equal: 1 and 1.0, 0.0 and
  -0.0, a category and its text, an instant in two time zones; not "Ann" and "ann", nor 1 and "1".
- **Inside a compound label**, such as a tuple or a row of a MultiIndex, a missing part equals a
  missing part of any kind, because containers turn None into NaN: (1, NaN) is one person.
- **A label that is itself missing** (None, NaN, NaT, NA, masked) is a person of its own.

Both mistakes cost privacy. Somebody who is split has twice the weight, and two who are joined are
one person with another's rows: either can change what is released by twice what eps allows.
Therefore a dictionary (of Arrow, of categories, of a MultiIndex) is never taken at its word: what
it holds may be there twice, or be missing.

`check_type` refuses by the type alone, before the price is paid. `people_of` reads the labels.
"""

import re
import sys
from contextlib import suppress
from operator import attrgetter, itemgetter

import numpy as np

from dpq_sklearn.reading.containers import MISSING_TYPES

# Labels of these types are never missing and have no parts.
_PLAIN_TYPES = {int, str, bytes, bool}
# pandas tells objects of these types apart as Python does, in half the time.
_TEXT_TYPES = {str, float, type(None)}
# Python has an integer for some of these scalars of NumPy, which is something else.
_NO_PYTHON_OBJECTS = (np.datetime64, np.timedelta64)
_MISSING = object()


def check_type(labels):
    """Raise unless the type of a column of labels is one of single, hashable labels."""
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
        word = re.match(r"\w+", str(dtype)).group()  # what follows are names of fields
        raise TypeError(
            f"groups must hold hashable labels, such as numbers or strings, got the type {word}."
        )


def people_of(labels):
    """Return a whole number for each label, from 0 on: equal ones for equal labels.

    It raises whatever comparing the labels raises, which may show one.
    """
    codes, is_missing = _codes_of(labels)
    if codes.shape != (len(labels),):
        raise ValueError("an array has another shape than its container")
    codes = _small(codes)
    if is_missing.any():
        codes[is_missing] = codes.max() + 1 + np.arange(np.count_nonzero(is_missing))
    return codes


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
        columns = (map(itemgetter(part), labels) for part in range(len(labels[0])))
        parts = [_codes_of_objects(list(column)) for column in columns]
        return _codes_of_parts(parts, (len(labels),))
    if not types <= _PLAIN_TYPES:
        labels = [_comparable(label) for label in labels]
    numbers = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
    return codes, codes == numbers.get(_MISSING, -1)


def _comparable(label):
    """Return what stands for a label in a dictionary: `_MISSING` for every missing one."""
    if isinstance(label, np.generic) and not isinstance(label, _NO_PYTHON_OBJECTS):
        label = label.item()  # not all scalars of NumPy can be compared with decimals, or hashed
    kind = type(label)
    if kind.__name__ in MISSING_TYPES:
        return _MISSING
    for compound in (tuple, frozenset):  # also named tuples, which are equal to plain ones
        if issubclass(kind, compound) and kind.__eq__ is compound.__eq__:
            return compound(map(_comparable, label))
    return label if label == label else _MISSING


def _codes_of_numpy(labels):
    kind = labels.dtype.kind
    if labels.dtype.names is not None:
        parts = [_codes_of_numpy(labels[name]) for name in labels.dtype.names]
        return _codes_of_parts(parts, labels.shape)
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
    if below.dtype.kind == "O":  # what is below the mask need not be a label
        below = np.where(mask, None, below)
    codes, is_missing = _codes_of_numpy(below)
    return codes, is_missing | mask


def _codes_of_parts(parts, shape):
    """Return the codes of compound labels, which are never missing themselves."""
    codes = np.zeros(shape, dtype=np.int64)
    for of_part, is_missing in parts:
        of_part = _small(of_part) + 1
        of_part[is_missing] = 0
        codes = _small(codes * (of_part.max(initial=0) + 1) + of_part)
    return codes, np.zeros(shape, dtype=bool)


def _codes_of_entries(entries, places):
    """Return the codes of labels that a dictionary has in these places; -1 is a missing label."""
    codes, is_missing = _codes_of(entries)
    return np.append(codes, 0)[places], np.append(is_missing, True)[places]


def _codes_of_pandas(labels):
    pandas = sys.modules["pandas"]
    dtype = labels.dtype
    if isinstance(labels, pandas.MultiIndex):
        parts = map(_codes_of_entries, labels.levels, labels.codes)
        return _codes_of_parts(parts, labels.shape)
    if isinstance(dtype, np.dtype) or hasattr(dtype, "subtype"):  # also sparse ones, and intervals
        array = np.asarray(labels)
        is_text = array.dtype.kind == "O" and set(map(type, array.tolist())) <= _TEXT_TYPES
        return _factorized(array) if is_text else _codes_of_numpy(array)
    if isinstance(dtype, pandas.CategoricalDtype):
        values = getattr(labels, "cat", labels)  # a series has its codes there
        return _codes_of_entries(dtype.categories, np.asarray(values.codes))
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", None) == "pyarrow":
        return _codes_of_arrow(sys.modules["pyarrow"].array(labels))
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
    is_known = labels.dtype != sys.modules["polars"].Object  # of objects Arrow has the addresses
    with suppress(Exception):  # there is no pyarrow, or it does not have the type
        if is_known and not hasattr(labels.dtype, "ext_storage"):
            return _codes_of_arrow(labels.to_arrow())
    return _codes_of_objects(labels.to_list())


def _codes_of_arrow(labels):
    with suppress(NotImplementedError):  # of rare types Arrow can do less than Python
        return _codes_by_arrow(labels)
    return _codes_of_objects(labels.to_pylist())


def _codes_by_arrow(labels):
    import pyarrow
    from pyarrow import compute

    kind, types = labels.type, pyarrow.types
    chunks = labels.chunks if isinstance(labels, pyarrow.ChunkedArray) else [labels]
    if types.is_dictionary(kind):  # each chunk may have a dictionary of its own
        values = [chunk.dictionary_decode() for chunk in chunks]
        return _codes_of_arrow(pyarrow.chunked_array(values, kind.value_type))
    if types.is_run_end_encoded(kind):
        values = [compute.run_end_decode(chunk) for chunk in chunks]
        return _codes_of_arrow(pyarrow.chunked_array(values, kind.value_type))
    if isinstance(kind, pyarrow.BaseExtensionType):  # labels may be equal and their storage not
        return _codes_of_objects(labels.to_pylist())
    if types.is_floating(kind):  # Arrow tells -0.0 from 0.0
        return _codes_of_numpy(np.asarray(labels))

    is_missing = np.asarray(labels.is_null())
    if types.is_integer(kind):
        codes, _ = _codes_of_numpy(np.asarray(labels.fill_null(0)))
        return codes, is_missing
    encoded = pyarrow.chunked_array(chunks, kind).dictionary_encode()  # one dictionary for all
    places = [np.asarray(chunk.indices.fill_null(-1)) for chunk in encoded.chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *places]), is_missing


def _small(codes):
    """Return numbers from 0 on for integers: a few times as many of them as rows at most."""
    if codes.size == 0:
        return codes.astype(np.int64)
    lowest, highest = int(codes.min()), int(codes.max())
    span = highest - lowest
    if span.bit_length() + codes.size.bit_length() > 63:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    codes = codes - lowest
    if span >= 4 * codes.size:
        ascending, order = sorted_with_places(codes)
        codes[order] = np.cumsum(np.diff(ascending, prepend=ascending[:1]) > 0)
    return codes


def sorted_with_places(codes):
    """Return ascending codes, and the place of each among the codes as they were given."""
    n_bits = codes.size.bit_length()
    packed = codes << n_bits | np.arange(codes.size)  # several times as fast as `argsort`
    packed.sort()
    return packed >> n_bits, packed & (2**n_bits - 1)


def _is_of(thing, library, *names):
    """Return whether a thing is of one of these types of a library, imported by whoever made it."""
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
    """Return whether no part of a record is an array."""
    parts = [] if dtype.names is None else [dtype[name] for name in dtype.names]
    return dtype.subdtype is None and all(map(_is_single_in_numpy, parts))
