"""Access to scikit-learn: private names, differences between its versions, and its checks."""
# ruff: noqa: F401

import sys

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _get_feature_names, validate_data

from dpq_sklearn.reading.containers import library_of, read_matrix

try:  # scikit-learn >= 1.9 lets users choose between sparse matrices and sparse arrays
    from sklearn.utils import _align_api_if_sparse as as_configured_sparse
except ImportError:  # pragma: no cover
    from scipy.sparse import csr_matrix as as_configured_sparse


def is_seeding_an_ensemble():
    """Return whether the caller was called by an ensemble that sets seeds of its estimators.

    scikit-learn's `_set_random_states` calls `set_params` without a mark, so the function searches
    the call stack.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_set_random_states":
            return frame.f_globals.get("__name__", "").startswith("sklearn.")
        frame = frame.f_back
    return False


def output_container(estimator):
    """Return the kind of output of `transform`, set by `set_output` or `sklearn.set_config`."""
    return _get_output_config("transform", estimator)["dense"]


class _NamesOfPolars:
    """The shape and the column names of a polars DataFrame, for older versions of scikit-learn.

    They read the names by `__dataframe__`, a method that polars has removed.
    """

    def __init__(self, X):
        self.shape = X.shape
        self._names = X.columns

    def __dataframe__(self):
        return self

    def column_names(self):
        return self._names


def check_names(estimator, X, *, reset):
    """Check the number and the names of the features, or store them with ``reset=True``."""
    if library_of(X) == "polars" and _get_feature_names(X) is None:
        X = _NamesOfPolars(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def checked_matrix(table, n_columns=None, **options):
    """Return a checked table as a matrix of floats, after scikit-learn's checks of its shape.

    `options` are passed to scikit-learn's `check_array`.
    """
    options = {"dtype": (np.float64, np.float32), "ensure_all_finite": False} | options
    with np.errstate(all="ignore"):
        X = check_array(read_matrix(table), **options)

    if n_columns not in (None, X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} features, but {n_columns} are expected.")
    return X


def drop_categories(encoder, positions):
    """Drop the category at the given position of each feature of a fitted OneHotEncoder.

    None drops no category of a feature. scikit-learn itself drops a category of every feature, or
    of no feature.
    """
    encoder._drop_idx_after_grouping = encoder.drop_idx_ = np.array(positions, dtype=object)
    encoder._n_features_outs = encoder._compute_n_features_outs()
