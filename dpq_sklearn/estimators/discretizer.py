"""DPKBinsDiscretizer: private quantiles become bin edges."""

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.data.columns import checked_table, read_matrix
from dpq_sklearn.data.threads import blocks_of_rows, in_threads
from dpq_sklearn.estimators.base import PrivateQuantileTransformer, counts_of_features, is_dask
from dpq_sklearn.estimators.compat import Interval, Options, StrOptions, as_configured_sparse
from dpq_sklearn.planning.expected_error import rank_errors

_VALUES_AT_ONCE = 2**17
_EDGES_AT_ONCE = 8
# Up to so many edges, counting the edges below a value beats searching: no branch to mispredict.
_MOST_COUNTED_EDGES = 64


class DPKBinsDiscretizer(PrivateQuantileTransformer):
    """Bin continuous features into private quantile intervals.

    Works like :class:`sklearn.preprocessing.KBinsDiscretizer` with ``strategy="quantile"``, but
    the bin edges are differentially private: `eps` is the price of the whole `fit`, over all
    features and all edges.

    Read more in the :ref:`User Guide <guide>`.

    Parameters
    ----------
    n_bins : int or array-like of shape (n_features,), default=5
        The number of bins, at least 2. Powers of two are the most accurate for their number:
        8 bins cost little more than 5.
    eps : float or None, default=1.0
        Privacy budget of a fit. Smaller is more private and less accurate. None if `rho` is
        given.
    delta : float, default=0.0
        With ``delta > 0`` the fit is (eps, delta)-DP, which helps with many features.
    rho : float or None, default=None
        Budget in zero-concentrated DP instead, with ``eps=None``.
    encode : {"onehot", "onehot-dense", "ordinal"}, default="onehot"
        How the bins are encoded: a sparse matrix of indicators, a dense one, or bin numbers.
    bounds : None, pair, list of pairs or dict, default=None
        Public bounds of the features: None if unknown, one pair ``(low, high)`` for all, one pair
        or None for each, or a dict from feature name to pair. Data outside are clipped. Bounds
        are not needed, and must never be taken from the data.
    feature_weights : array-like of shape (n_features,) or None, default=None
        Positive weights by which the features share the budget. None is equal shares.
    mechanism : {"aq", "joint_exp", "ind_exp", "agg_tree", "auto"}, default="aq"
        The mechanism that finds the quantiles; "auto" takes AQ or JointExp by public facts.
    dtype : {np.float32, np.float64} or None, default=None
        Type of the output. None keeps that of the input.
    resolution : int or None, default=None
        The public grid has ``2**resolution`` cells, at most 2^40. None is 40 for rows in memory,
        and 24 for batches and Dask, where a summary takes at most 8 bytes a cell and feature. A
        cell is ``2**(8 - resolution)`` of its value wide at most, or with bounds
        ``2**-resolution`` of their distance.
    n_jobs : int or None, default=None
        Number of threads for `fit` and `transform`; -1 is all cores. None is 1, unless in a
        :func:`joblib.parallel_config` context. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None is the operating system's generator. Anything else is reproducible, for tests only:
        who knows the seed can undo the noise.
    ledger : PrivacyLedger, path or None, default=None
        Where the spend of every fit is recorded before `X` is read; a fit that does not fit into
        its budget raises. A path stays a path in clones and in worker processes.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_features,) of arrays
        The private edges of each feature, ``n_bins_ + 1`` of them. Equal edges make an empty bin.
        The outermost two are the bounds or, without bounds, a bin's width away; they play no role
        in `transform`.
    n_bins_ : ndarray of shape (n_features,)
        The number of bins of each feature, always what was asked for.
    privacy_ : PrivacyLoss
        What the fit cost.
    rank_error_ : ndarray of shape (n_features,) of arrays
        The expected error of each quantile: the standard deviation of the number of rows below
        it, from public facts only (NaN for ``mechanism="agg_tree"``).
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, if they are all strings.

    See Also
    --------
    DPQuantileTransformer : Private mapping to a uniform or normal distribution.

    Notes
    -----
    **Privacy.** Neighbours: datasets that differ by adding or removing one row. The fitted state
    is an (eps, delta)-DP (or rho-zCDP) function of the rows given to `fit`. What `transform`
    returns for a row is *not* private: it tells the bin of that row. Every refit spends anew,
    also inside a cross-validation.

    NaN are ignored by `fit`; `transform` gives NaN (ordinal) or a block of zeros (one-hot).
    Infinities fall into the outermost bins.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import DPKBinsDiscretizer
    >>> X = np.random.default_rng(0).lognormal(size=(10_000, 1))
    >>> est = DPKBinsDiscretizer(n_bins=4, eps=1.0, encode="ordinal", random_state=0).fit(X)
    >>> est.transform([[0.1], [0.8], [1.2], [9.0], [np.nan]]).ravel()
    array([ 0.,  1.,  2.,  3., nan])
    >>> est.privacy_.eps
    1.0
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateQuantileTransformer._parameter_constraints,
        "n_bins": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "encode": [StrOptions({"onehot", "onehot-dense", "ordinal"})],
        "dtype": [Options(type, {np.float64, np.float32}), None],
    }

    def __init__(
        self,
        n_bins=5,
        *,
        eps=1.0,
        delta=0.0,
        rho=None,
        encode="onehot",
        bounds=None,
        feature_weights=None,
        mechanism="aq",
        dtype=None,
        resolution=None,
        n_jobs=None,
        random_state=None,
        ledger=None,
    ):
        self.n_bins = n_bins
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.encode = encode
        self.bounds = bounds
        self.feature_weights = feature_weights
        self.mechanism = mechanism
        self.dtype = dtype
        self.resolution = resolution
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger

    def _set_quantiles(self, released):
        bounds = self._plan_bounds()
        self.n_bins_ = counts_of_features(self.n_bins, self.n_features_in_, "n_bins", 2)
        self.bin_edges_ = np.empty(self.n_features_in_, dtype=object)
        for index, (inner, pair) in enumerate(zip(released, bounds, strict=True)):
            self.bin_edges_[index] = with_outer_edges(inner, pair)

    def _quantiles_of_features(self, n_features):
        n_bins = counts_of_features(self.n_bins, n_features, "n_bins", 2)
        return [tuple(np.arange(1, n) / n) for n in n_bins]

    def _set_rank_errors(self, plan):
        self.rank_error_ = np.empty(self.n_features_in_, dtype=object)
        self.rank_error_[:] = rank_errors(plan)

    def _detail(self):
        return f"n_bins={self.n_bins}"

    def transform(self, X):
        """Put each value into its bin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to be binned. The result is as private as they are: not at all.

        Returns
        -------
        Xt : {ndarray, sparse matrix}
            Bin numbers (``encode="ordinal"``) or indicators, sparse for ``encode="onehot"``.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._transform_dask(X)
        return self._transform_rows(X)

    def _transform_rows(self, X):
        dtype = (np.float64, np.float32) if self.dtype is None else self.dtype
        X = self._validated(X, reset=False, dtype=dtype)
        if self.encode == "ordinal":
            return self._numbered(X, np.zeros(X.shape[1], dtype=np.int32), np.nan, X.dtype)
        # The sparse matrix has a one in the column of each value's bin, and nothing for NaN.
        columns = self._numbered(X, self._first_columns()[:-1], -1, np.int32)
        if self.encode == "onehot-dense":
            return self._dense_indicators(columns, X.dtype)
        return as_configured_sparse(self._sparse_indicators(columns, X.dtype))

    def _numbered(self, X, firsts, missing, dtype):
        """Return for each value the number of its bin plus the first number of its feature."""
        numbers = np.empty(X.shape, dtype=dtype)
        edges = [edges[1:-1] for edges in self.bin_edges_]
        firsts = np.asarray(firsts, dtype=dtype)[:, None]
        few = max(some.size for some in edges) <= _MOST_COUNTED_EDGES

        def number(rows):
            # Room for one piece, used again for the next: new memory would cost more than the work.
            shape = (X.shape[1], _rows_at_once(X.shape))
            types = (np.float64, np.uint8 if few else np.int64, dtype)
            room = [np.empty(shape, dtype=some) for some in types]
            flags_room = np.empty((_EDGES_AT_ONCE, *shape), dtype=bool)
            for some in _pieces(rows, X.shape):
                columns, bins, block = (part[:, : some.stop - some.start] for part in room)
                flags = flags_room[:, :, : some.stop - some.start]
                columns[:] = X[some].T
                _write_bins(columns, edges, bins, flags)
                np.add(bins, firsts, out=block, dtype=dtype)
                missing_ones = np.isnan(columns, out=flags[0])
                if missing_ones.any():
                    block[missing_ones] = missing
                numbers[some] = block.T

        in_threads(number, blocks_of_rows(X.shape[0], self.n_jobs), self.n_jobs)
        return numbers

    def _sparse_indicators(self, columns, dtype):
        n_rows, n_features = columns.shape
        ones = np.empty(columns.size, dtype=dtype)
        complete = []

        def indicate(rows):
            ones[n_features * rows.start : n_features * rows.stop] = 1
            complete.append(columns[rows].min(initial=0) >= 0)

        in_threads(indicate, blocks_of_rows(n_rows, self.n_jobs), self.n_jobs)
        if all(complete):
            columns = columns.ravel()
            ends = np.arange(0, n_rows * n_features + 1, n_features)
        else:
            present = columns >= 0
            columns = columns[present]
            ones = ones[: columns.size]
            ends = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
        if columns.size < 2**31:  # else SciPy takes wider indices for all
            ends = ends.astype(np.int32)
        return sparse.csr_array((ones, columns, ends), shape=(n_rows, self._n_indicators()))

    def _dense_indicators(self, columns, dtype):
        indicators = np.zeros((columns.shape[0], self._n_indicators()), dtype=dtype)

        def indicate(rows):
            for piece in _pieces(rows, columns.shape):
                some = columns[piece]
                places = some + np.arange(some.shape[0])[:, None] * indicators.shape[1]
                block = indicators[piece].reshape(-1)  # a view
                block[places[some >= 0] if some.min() < 0 else places.ravel()] = 1

        in_threads(indicate, blocks_of_rows(columns.shape[0], self.n_jobs), self.n_jobs)
        return indicators

    def _n_indicators(self):
        return int(self._first_columns()[-1])

    def _first_columns(self):
        """Return where the indicators of each feature begin, and the width of all."""
        return np.concatenate(([0], np.cumsum(self.n_bins_)))

    def inverse_transform(self, X):
        """Replace each bin by its centre.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_out)
            Binned rows, as `transform` returns them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Bin centres; NaN where the bin is missing.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._inverse_transform_dask(X)
        return self._inverse_transform_rows(X)

    def _inverse_transform_rows(self, X):
        one_hot = self.encode != "ordinal"
        X = check_array(
            read_matrix(checked_table(X)),
            accept_sparse="csr" if one_hot else False,
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan",
        )
        expected = self._n_indicators() if one_hot else self.n_features_in_
        if X.shape[1] != expected:
            raise ValueError(
                f"Incorrect number of features. Expecting {expected}, received {X.shape[1]}."
            )
        bins = self._bins_of_indicators(X) if one_hot else X
        centres = np.full(bins.shape, np.nan, dtype=X.dtype)
        for index, edges in enumerate(self.bin_edges_):
            present = ~np.isnan(bins[:, index])
            numbers = bins[present, index].astype(np.int64)
            last_bin = self.n_bins_[index] - 1
            if np.any((numbers < 0) | (numbers > last_bin)):
                raise ValueError(f"column {index} of X must hold bin numbers, 0 to {last_bin}.")
            centres[present, index] = ((edges[1:] + edges[:-1]) * 0.5)[numbers]
        return centres

    def _bins_of_indicators(self, X):
        """Return the bin numbers of one-hot rows, NaN for a block of zeros."""
        offsets = self._first_columns()
        bins = np.empty((X.shape[0], self.n_features_in_))
        for index in range(self.n_features_in_):
            block = X[:, offsets[index] : offsets[index + 1]]
            block = block.toarray() if sparse.issparse(block) else block
            bins[:, index] = np.where(block.any(axis=1), block.argmax(axis=1), np.nan)
        return bins

    def get_feature_names_out(self, input_features=None):
        """Get output feature names, as scikit-learn's KBinsDiscretizer names them.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Input features; None uses the names seen in `fit`, or x0, x1, ...

        Returns
        -------
        feature_names_out : ndarray of str objects
            The names of the input, followed by the bin number for one-hot encodings.
        """
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        if self.encode == "ordinal":
            return names
        pairs = zip(names, self.n_bins_, strict=True)
        return np.array([f"{name}_{k}.0" for name, n in pairs for k in range(n)], dtype=object)

    def to_sklearn(self):
        """Return a plain fitted KBinsDiscretizer with the private edges.

        It needs no dpq_sklearn where it is used, and its `transform` equals this one's on data
        without NaN. It is as private as this object.

        Returns
        -------
        discretizer : sklearn.preprocessing.KBinsDiscretizer
            The fitted discretizer.
        """
        check_is_fitted(self)
        plain = KBinsDiscretizer(
            n_bins=self.n_bins_.copy(),
            encode=self.encode,
            strategy="uniform",
            dtype=np.float64,
            subsample=None,
        )
        # Fitting something of the right shape sets all that is not the edges.
        plain.fit(np.stack((np.zeros(self.n_features_in_), self.n_bins_.astype(np.float64))))
        plain.set_params(strategy="quantile", dtype=self.dtype)
        plain.bin_edges_ = np.array([None] * self.n_features_in_, dtype=object)
        plain.bin_edges_[:] = [edges.copy() for edges in self.bin_edges_]
        if hasattr(self, "feature_names_in_"):
            plain.feature_names_in_ = self.feature_names_in_.copy()
        return plain


def with_outer_edges(inner, bounds):
    """Return the inner edges with one more at each end: the bounds, or a bin's width away."""
    if bounds is not None:
        return np.concatenate(([bounds[0]], inner, [bounds[1]]))
    if inner.size == 1:  # one edge tells no width: as far from it as zero is
        width = abs(inner[0]) or 1.0
        return np.array([inner[0] - width, inner[0], inner[0] + width])
    first, last = 2 * inner[0] - inner[1], 2 * inner[-1] - inner[-2]
    return np.concatenate(([first], inner, [last]))


def _rows_at_once(shape):
    return max(1, _VALUES_AT_ONCE // shape[1])


def _pieces(rows, shape):
    """Yield slices of a slice of rows that are small enough for the cache."""
    height, stop = _rows_at_once(shape), min(rows.stop, shape[0])
    return (slice(start, min(start + height, stop)) for start in range(rows.start, stop, height))


def _write_bins(columns, edges, bins, flags):
    """Write how many of its column's edges are at most each value; anything for NaN."""
    if bins.dtype != np.uint8:
        for index, some in enumerate(edges):
            bins[index] = np.searchsorted(some, columns[index], side="right")
        return
    bins[:] = 0
    if len({some.size for some in edges}) == 1:
        # All columns and several edges at once: threads seldom need Python's lock.
        levels = np.stack(edges, axis=1)[:, :, None]
        for first in range(0, len(levels), _EDGES_AT_ONCE):
            some = levels[first : first + _EDGES_AT_ONCE]
            reached = np.greater_equal(columns, some, out=flags[: len(some)])
            bins += np.add.reduce(reached.view(np.uint8), axis=0, dtype=np.uint8)
        return
    for values, found, reached, levels in zip(columns, bins, flags[0], edges, strict=True):
        for level in levels:
            np.greater_equal(values, level, out=reached)
            found += reached.view(np.uint8)
