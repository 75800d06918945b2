"""The few private names of scikit-learn that are used, and what differs between its versions."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions

try:  # scikit-learn >= 1.9 lets users choose between sparse matrices and sparse arrays
    from sklearn.utils import _align_api_if_sparse as as_configured_sparse
except ImportError:  # pragma: no cover
    from scipy.sparse import csr_matrix as as_configured_sparse

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "_fit_context",
    "as_configured_sparse",
]
