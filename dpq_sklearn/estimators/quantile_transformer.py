"""DPQuantileTransformer: private quantiles become a distribution function."""

from numbers import Integral

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin
from sklearn.preprocessing import QuantileTransformer

from dpq_sklearn.estimators import compat
from dpq_sklearn.estimators.compat import Interval, StrOptions
from dpq_sklearn.estimators.parameters import MOST_BINS
from dpq_sklearn.estimators.private_quantiles import PrivateQuantileTransformer
from dpq_sklearn.forecast.enough_data import AUTO_BINS, rank_deviations
from dpq_sklearn.reading.containers import checked_table
from dpq_sklearn.reading.threads import blocks_of_rows, in_threads
from dpq_sklearn.releases.request import even_probabilities

# The number of knots in each tail. The probability beyond a knot halves from knot to knot.
TAIL_KNOTS = 10
# With a normal output, scikit-learn's QuantileTransformer treats values within this distance of an
# end as lying at the end.
_END = 1e-7
_NORMAL_ENDS = ndtri(_END - np.spacing(1)), ndtri(1 - (_END - np.spacing(1)))
_ROWS_PER_BLOCK = 8192


class DPQuantileTransformer(OneToOneFeatureMixin, PrivateQuantileTransformer):
    """Transform features to a uniform or normal distribution with private quantiles.

    A drop-in replacement for :class:`sklearn.preprocessing.QuantileTransformer` with
    differentially private quantiles. `eps` is the privacy cost of the whole `fit`, over all
    features and all quantiles. Read more in the :ref:`User Guide <private_or_not>`.

    Parameters
    ----------
    n_quantiles : int or "auto", default="auto"
        The number of private quantiles of each feature, at least 2. Their probabilities are
        i / (n_quantiles + 1). More quantiles follow the distribution more closely, but each of
        them is noisier. "auto" chooses the number from the released number of rows.
    output_distribution : {"uniform", "normal"}, default="uniform"
        The distribution of the transformed features.
    copy : bool, default=True
        Whether to copy the input of `transform`. Set it to False to transform in place if the
        input allows it.

    Attributes
    ----------
    n_quantiles_ : int
        The number of private quantiles of each feature: `n_quantiles`, or the number that "auto"
        chose.
    quantiles_ : ndarray of shape (n_knots, n_features)
        The private distribution function of each feature: the values at the probabilities
        `references_`. Beyond the outermost private quantiles, it has exponential tails, which end
        at the bounds. Dates are `datetime64` in UTC, and durations are `timedelta64`. If other
        features are numbers, this is an array of objects.
    references_ : ndarray of shape (n_knots,)
        The probabilities of the rows of `quantiles_`, from 0 to 1.
    rank_error_ : ndarray of shape (n_quantiles, n_features)
        The standard deviation of the number of rows below each private quantile, which is computed
        from public facts. It is NaN for ``mechanism="agg_tree"`` unless `decimals` and `bounds`
        leave few possible values.

    Notes
    -----
    **Missing values.** `fit` ignores NaN, and `transform` keeps them. Infinite values are mapped to
    the ends of the output distribution.

    See Also
    --------
    sklearn.preprocessing.QuantileTransformer : Transform features without privacy.
    DPKBinsDiscretizer : Bin features instead of mapping them to a distribution.
    DPRobustScaler : Scale features by private medians and quantile ranges.
    DPQuantileDisplay : Plot the private distribution function with its noise.
    to_sklearn : Convert a fitted pipeline to plain scikit-learn.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPQuantileTransformer
    >>> X = np.random.default_rng(0).lognormal(size=(10_000, 1))
    >>> est = DPQuantileTransformer(eps=1.0, random_state=0).fit(X)
    >>> est.transform([[0.5], [1.0], [2.0]]).round(2).ravel()
    array([0.24, 0.5 , 0.75])
    >>> est.inverse_transform([[0.5]]).round(1)
    array([[1.]])
    >>> est.n_quantiles_
    15
    """

    _counterpart = QuantileTransformer
    _quantiles_parameter = "n_quantiles"
    # n quantiles make n + 1 bins. A single quantile does not show the scale, so "auto" omits it.
    _probabilities_by_number = {  # noqa: RUF012
        n_bins - 1: even_probabilities(n_bins) for n_bins in AUTO_BINS[1:]
    }

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateQuantileTransformer._parameter_constraints,
        "n_quantiles": [Interval(Integral, 2, MOST_BINS, closed="both"), StrOptions({"auto"})],
        "output_distribution": [StrOptions({"uniform", "normal"})],
        "copy": ["boolean"],
    }

    def __init__(
        self,
        n_quantiles="auto",
        *,
        eps=1.0,
        delta=0.0,
        rho=None,
        privacy_unit="auto",
        output_distribution="uniform",
        bounds=None,
        decimals=None,
        prior=None,
        feature_weights=None,
        mechanism="aq",
        copy=True,
        resolution=None,
        n_jobs=None,
        random_state=None,
        ledger=None,
    ):
        self.n_quantiles = n_quantiles
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.privacy_unit = privacy_unit
        self.output_distribution = output_distribution
        self.bounds = bounds
        self.decimals = decimals
        self.prior = prior
        self.feature_weights = feature_weights
        self.mechanism = mechanism
        self.copy = copy
        self.resolution = resolution
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger

    def _candidate_probabilities(self, n_features, names):
        if isinstance(self.n_quantiles, str):  # "auto"
            return [[each] * n_features for each in self._probabilities_by_number.values()]
        return [[even_probabilities(self.n_quantiles + 1)] * n_features]

    def _set_values(self, released):
        request = released.plan.request
        knots = knot_values(np.array(released.values), np.array(request.bounds))

        self.n_quantiles_ = len(request.probabilities[0])
        self.references_ = knot_references(np.array(request.probabilities[0]))
        self.quantiles_ = self._with_dates(np.ascontiguousarray(knots.T))
        self.rank_error_ = np.column_stack(rank_deviations(released.plan))

    def _private_values(self):
        return list(self._quantiles_in_numbers()[TAIL_KNOTS + 1 : -TAIL_KNOTS - 1].T)

    def _transform_rows(self, X):
        X = self._writeable(self._checked_table(X, reset=False))
        knots = np.ascontiguousarray(self._quantiles_in_numbers().T)
        return self._in_blocks(X, lambda rows: self._shares(rows.T, knots).T)

    def _inverse_transform_rows(self, X):
        X = self._writeable(checked_table(X))
        plain = self._plain()
        limits = np.finfo(X.dtype)

        def values(rows):
            finite = np.clip(rows, limits.min, limits.max)  # scikit-learn rejects infinities
            return plain.inverse_transform(finite)

        return self._in_blocks(X, values)

    def _writeable(self, table):
        """Return a checked table as a matrix that may be overwritten."""
        return compat.checked_matrix(
            table, self.n_features_in_, copy=self.copy, force_writeable=True
        )

    def _in_blocks(self, X, function):
        """Overwrite `X` with a function of its rows, block by block."""

        def apply(rows):
            X[rows] = function(X[rows])

        in_threads(apply, blocks_of_rows(X.shape[0], _ROWS_PER_BLOCK), self.n_jobs)
        return X

    def _shares(self, columns, knots):
        """Return the distribution function at the values, equal to scikit-learn's bit by bit.

        `columns` and the result have the shape (n_features, n_rows), and `knots` has the shape
        (n_features, n_knots).
        """
        columns = np.ascontiguousarray(columns)
        at_low, at_high = self._at_the_ends(columns, knots)

        # np.interp is three times as fast on sorted values. Operations on all columns at once keep
        # Python's lock free for other threads.
        order = np.argsort(columns, axis=1)
        ascending = np.take_along_axis(columns, order, axis=1).astype(np.float64, copy=False)
        descending = -ascending

        shares = np.empty_like(columns)
        for index, values in enumerate(knots):
            # At equal knots the two directions return the two ends of the jump, so take the mean.
            upwards = np.interp(ascending[index], values, self.references_)
            downwards = np.interp(descending[index], -values[::-1], -self.references_[::-1])
            shares[index, order[index]] = 0.5 * (upwards - downwards)

        shares[at_high] = 1
        shares[at_low] = 0
        if self.output_distribution == "uniform":
            return shares
        return np.clip(ndtri(shares), *_NORMAL_ENDS)

    def _at_the_ends(self, columns, knots):
        """Return masks of the values at the lower and at the upper end of the distribution."""
        # The dtype in which NumPy compares a column with a single number, as scikit-learn does.
        low, high = knots[:, [0, -1]].T[:, :, None].astype(np.result_type(columns, knots[0, 0]))

        if self.output_distribution == "uniform":
            return columns == low, columns == high
        return columns - _END < low, columns + _END > high

    def _plain(self):
        plain = QuantileTransformer(
            n_quantiles=self.references_.size,
            output_distribution=self.output_distribution,
            subsample=None,
            copy=self.copy,
        )
        knots = self._quantiles_in_numbers()
        plain.fit(knots)  # any rows of the right shape: the knots are replaced below

        plain.quantiles_ = knots.copy()
        plain.references_ = self.references_.copy()
        return plain


def knot_references(probabilities):
    """Return the probabilities of all knots: both ends, both tails and the private quantiles."""
    halvings = 0.5 ** np.arange(TAIL_KNOTS, 0, -1)
    low_tail = probabilities[0] * halvings
    high_tail = 1 - (1 - probabilities[-1]) * halvings[::-1]
    return np.concatenate(([0.0], low_tail, probabilities, high_tail, [1.0]))


def knot_values(values, bounds):
    """Return the values of the knots of features, from their private quantiles and bounds.

    `values` has the shape (n_features, n_quantiles), `bounds` has the shape (n_features, 2), and
    the result has a row for each feature. The tails are exponential: beyond the last quantile, the
    probability halves every `gap`, which is the distance between the last two quantiles. A bound at
    distance L truncates the tail, so that a share s of it lies beyond the distance
    ``-gap log2(s + (1 - s) 2^(-L / gap))``. A bound that is far away or infinite changes nothing.
    """
    low, high = bounds[:, :1], bounds[:, 1:]
    first, last = values[:, :1], values[:, -1:]
    mean_gap = (last - first) / (values.shape[1] - 1)

    below = _tail_distances(values[:, 1:2] - first, first - low, mean_gap)
    above = _tail_distances(last - values[:, -2:-1], high - last, mean_gap)
    knots = np.concatenate((first - below[:, ::-1], values, last + above), axis=1)
    return np.maximum.accumulate(np.clip(knots, low, high), axis=1)


def _tail_distances(gap, length, mean_gap):
    """Return the distances from the last quantile beyond which 1/2, 1/4, ... and 0 of a tail lie.

    The arguments have the shape (n_features, 1). The result has a column for each distance.
    """
    # With equal last quantiles (gap = 0), the tail ends there unless a bound lies beyond them.
    beyond_an_atom = np.where(np.isfinite(length), mean_gap, 0.0)
    end = np.minimum(length, (TAIL_KNOTS + 1) * np.where(gap > 0, gap, beyond_an_atom))

    shares = 0.5 ** np.arange(1, TAIL_KNOTS + 1)
    gaps_to_bound = np.divide(length, gap, out=np.full_like(gap, np.inf), where=gap > 0)
    distances = -gap * np.log2(shares + (1 - shares) * np.exp2(-gaps_to_bound))
    return np.concatenate((distances, end), axis=1)
