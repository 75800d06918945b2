"""Steps of scikit-learn before and after an exported transformer, for dates and column names."""

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

from dpq_sklearn.dates import MICROSECONDS_IN_A_DAY, ColumnKind

# NumPy converts a missing date to this float.
_MISSING_DATE = float(np.iinfo(np.int64).min)


def steps_from_dates(kinds):
    """Return the fitted steps that convert dates and durations to days, or no steps without dates.

    `kinds` has the `ColumnKind` of each feature. The steps accept every container that NumPy reads.
    """
    are_dates = np.array([kind is not ColumnKind.NUMBER for kind in kinds])
    if not are_dates.any():
        return []

    to_microseconds = ColumnTransformer(
        [(f"feature_{index}", _microseconds(kind), [index]) for index, kind in enumerate(kinds)],
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )
    to_microseconds.fit(np.zeros((1, are_dates.size)))

    units_in_a_day = np.where(are_dates, float(MICROSECONDS_IN_A_DAY), 1.0)
    to_days = MaxAbsScaler().fit(units_in_a_day[None, :])  # divides by the largest number
    return [to_microseconds, to_days]


def _microseconds(kind):
    """Return a transformer that converts a column to floats, and dates to microseconds."""
    if kind is ColumnKind.NUMBER:
        return _function(np.asarray, dtype="float64")

    dtype = "timedelta64[us]" if kind is ColumnKind.DURATION else "datetime64[us]"
    steps = (
        _function(np.asarray, dtype=dtype),
        _function(np.asarray, dtype="float64"),
        _function(np.ma.masked_equal, value=_MISSING_DATE),
        _function(np.ma.filled, fill_value=np.nan),
    )
    return make_pipeline(*steps)


def _function(function, **arguments):
    """Return a step that calls a function and returns an array, independent of `set_output`."""
    step = FunctionTransformer(function, kw_args=arguments, feature_names_out="one-to-one")
    return step.set_output(transform="default")


def can_be_named(names):
    """Return whether `step_with_names` can give these names to columns."""
    return len(set(names)) == len(names) and not any("__" in name for name in names)


def step_with_names(names, is_sparse):
    """Return a fitted step that sets the names of the columns and changes nothing else.

    No transformer of scikit-learn accepts a list of output names, but a ColumnTransformer can name
    columns after its transformers. The names must be distinct and must not contain "__".
    `is_sparse` is True if the input is a sparse matrix.
    """
    unchanged = "passthrough" if is_sparse else _function(np.asarray)
    naming = ColumnTransformer(
        [(name, unchanged, [index]) for index, name in enumerate(names)],
        sparse_threshold=1,
        verbose_feature_names_out="{transformer_name}",
    )
    zeros = np.zeros((1, len(names)))
    return naming.fit(sparse.csr_matrix(zeros) if is_sparse else zeros)


def set_output_of_steps(steps, container):
    """Set the output container of the steps, but not of the transformers inside them.

    `ColumnTransformer.set_output` would also set the output of its transformers.
    """
    for step in steps:
        TransformerMixin.set_output(step, transform=container)
