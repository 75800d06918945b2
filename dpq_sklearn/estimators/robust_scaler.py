"""DPRobustScaler: private medians and quantile ranges become centres and scales."""

from numbers import Real

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler

from dpq_sklearn.checks import shown
from dpq_sklearn.dates import (
    MICROSECONDS_IN_A_DAY,
    ColumnKind,
    numbers_in_table,
    table_with_dates,
)
from dpq_sklearn.estimators import compat
from dpq_sklearn.estimators.compat import Interval
from dpq_sklearn.estimators.private_quantiles import PrivateQuantileTransformer
from dpq_sklearn.forecast.enough_data import rank_deviations
from dpq_sklearn.reading.containers import checked_table

_MEDIAN = 0.5


class DPRobustScaler(OneToOneFeatureMixin, PrivateQuantileTransformer):
    """Scale features by private medians and private quantile ranges.

    A drop-in replacement for :class:`sklearn.preprocessing.RobustScaler` with differentially
    private medians and quantile ranges. `eps` is the privacy cost of the whole `fit`, over all
    features. Read more in :ref:`Private models <private_logistic_regression>`.

    Parameters
    ----------
    with_centering : bool, default=True
        Whether to subtract the private median.
    with_scaling : bool, default=True
        Whether to divide by the private quantile range.
    quantile_range : (float, float), default=(25.0, 75.0)
        The percentiles between which the quantile range is computed: ``0 < low < high < 100``. By
        default, it is the interquartile range.
    copy : bool, default=True
        Whether to copy the input of `transform`. Set it to False to transform in place if the
        input allows it.
    unit_variance : bool, default=False
        Whether to scale normally distributed features to a variance of about 1. The quantile range
        is then divided by the quantile range of the standard normal distribution.
    clip : float or None, default=None
        Clip the transformed values to ``[-clip, clip]``. Many private models require such a public
        range: a row with d features then has a norm of at most ``clip * sqrt(d)``. None does not
        clip.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        The private median of each feature. None if ``with_centering=False``. The median of dates is
        a `datetime64` in UTC.
    scale_ : ndarray of shape (n_features,) or None
        The private scale of each feature: its quantile range, or 1 if the range is zero, divided by
        the range of the standard normal distribution if ``unit_variance=True``. None if
        ``with_scaling=False``. The scale of dates and durations is a `timedelta64`.
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        The private quantiles that `center_` and `scale_` are computed from, in ascending order.
        Dates are `datetime64`, and durations are `timedelta64`. If features have different types,
        `center_`, `scale_` and `quantiles_` are arrays of objects.
    references_ : ndarray of shape (n_quantiles,)
        The probabilities of the rows of `quantiles_`.
    rank_error_ : ndarray of shape (n_quantiles, n_features)
        The standard deviation of the number of rows below each private quantile, which is computed
        from public facts. It is NaN for ``mechanism="agg_tree"`` unless `decimals` and `bounds`
        leave few possible values.

    Notes
    -----
    **Missing values.** `fit` ignores NaN, and `transform` keeps them. Infinite values stay infinite
    unless `clip` is set.

    See Also
    --------
    sklearn.preprocessing.RobustScaler : Scale features without privacy.
    DPQuantileTransformer : Map features to a uniform or normal distribution.
    DPKBinsDiscretizer : Bin features instead of scaling them.
    to_sklearn : Convert a fitted pipeline to plain scikit-learn.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPRobustScaler
    >>> X = np.random.default_rng(0).normal(100, 15, size=(10_000, 1))
    >>> est = DPRobustScaler(eps=1.0, unit_variance=True, clip=3, random_state=0).fit(X)
    >>> est.transform([[100.0], [115.0], [1e6]]).round(1).ravel()
    array([0., 1., 3.])
    >>> est.center_.round(), est.scale_.round()
    (array([100.]), array([15.]))
    """

    _counterpart = RobustScaler
    _quantiles_parameter = "quantile_range"

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateQuantileTransformer._parameter_constraints,
        "with_centering": ["boolean"],
        "with_scaling": ["boolean"],
        "quantile_range": [tuple, list],
        "copy": ["boolean"],
        "unit_variance": ["boolean"],
        "clip": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        *,
        eps=1.0,
        delta=0.0,
        rho=None,
        privacy_unit="auto",
        with_centering=True,
        with_scaling=True,
        quantile_range=(25.0, 75.0),
        copy=True,
        unit_variance=False,
        clip=None,
        bounds=None,
        decimals=None,
        prior=None,
        feature_weights=None,
        mechanism="aq",
        resolution=None,
        n_jobs=None,
        random_state=None,
        ledger=None,
    ):
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.privacy_unit = privacy_unit
        self.with_centering = with_centering
        self.with_scaling = with_scaling
        self.quantile_range = quantile_range
        self.copy = copy
        self.unit_variance = unit_variance
        self.clip = clip
        self.bounds = bounds
        self.decimals = decimals
        self.prior = prior
        self.feature_weights = feature_weights
        self.mechanism = mechanism
        self.resolution = resolution
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger

    def _candidate_probabilities(self, n_features, names):
        return [[tuple(sorted(self._wanted_probabilities()))] * n_features]

    def _wanted_probabilities(self):
        """Return the distinct probabilities of the quantiles for the requested center and scale."""
        wanted = set()
        if self.with_centering:
            wanted.add(_MEDIAN)
        if self.with_scaling:
            wanted.update(self._range_probabilities())
        if not wanted:
            raise ValueError(
                "with_centering or with_scaling must be True, got False for both, which would "
                "release nothing."
            )
        return wanted

    def _range_probabilities(self):
        given = self.quantile_range
        is_pair = len(given) == 2 and all(isinstance(end, Real) for end in given)
        if not is_pair or not 0 < given[0] < given[1] < 100:
            raise ValueError(
                "quantile_range must be a pair (low, high) with 0 < low < high < 100, got "
                f"{tuple(given) if is_pair else shown(given)}."
            )
        low, high = given
        return low / 100, high / 100

    def _set_values(self, released):
        probabilities = released.plan.request.probabilities[0]
        values = np.column_stack(released.values)

        self.quantiles_ = self._with_dates(values)
        self.references_ = np.array(probabilities)
        self.rank_error_ = np.column_stack(rank_deviations(released.plan))
        self.center_ = self.scale_ = None
        if self.with_centering:
            self.center_ = self._with_dates(values[[probabilities.index(_MEDIAN)]])[0]
        if self.with_scaling:
            scale = self._scale(values, probabilities)
            self.scale_ = table_with_dates(scale[None, :], self._kinds_of_lengths())[0]

    def _kinds_of_lengths(self):
        """Return the kind of differences between values. Differences of dates are durations."""
        number = ColumnKind.NUMBER
        return [number if kind is number else ColumnKind.DURATION for kind in self._kinds()]

    def _center_in_numbers(self):
        return numbers_in_table(self.center_[None, :], self._kinds())[0]

    def _scale_in_numbers(self):
        return numbers_in_table(self.scale_[None, :], self._kinds_of_lengths())[0]

    def _scale(self, values, probabilities):
        low, high = self._range_probabilities()
        scale = values[probabilities.index(high)] - values[probabilities.index(low)]
        scale[scale == 0] = 1.0
        if self.unit_variance:
            scale = scale / (ndtri(high) - ndtri(low))

        are_dates = [kind is not ColumnKind.NUMBER for kind in self._kinds()]
        scale[are_dates] = np.maximum(scale[are_dates], 1 / MICROSECONDS_IN_A_DAY)
        return scale

    def _private_values(self):
        return list(self._quantiles_in_numbers().T)

    def _transform_rows(self, X):
        X = self._writeable(self._checked_table(X, reset=False))
        with np.errstate(over="ignore"):  # values beyond the largest float become infinite
            if self.with_centering:
                X -= self._center_in_numbers()
            if self.with_scaling:
                X /= self._scale_in_numbers()
        if self.clip is not None:
            np.clip(X, -self.clip, self.clip, out=X)
        return X

    def _inverse_transform_rows(self, X):
        X = self._writeable(checked_table(X))
        with np.errstate(over="ignore"):
            if self.with_scaling:
                X *= self._scale_in_numbers()
            if self.with_centering:
                X += self._center_in_numbers()
        return X

    def _writeable(self, X):
        return compat.checked_matrix(X, self.n_features_in_, copy=self.copy, force_writeable=True)

    def _plain(self):
        scaler = RobustScaler(
            with_centering=self.with_centering,
            with_scaling=self.with_scaling,
            quantile_range=self.quantile_range,
            copy=self.copy,
            unit_variance=self.unit_variance,
        )
        # A fit to rows of the right shape sets all attributes, and the results are replaced below.
        scaler.fit(self._quantiles_in_numbers())
        scaler.center_ = None if self.center_ is None else self._center_in_numbers().copy()
        scaler.scale_ = None if self.scale_ is None else self._scale_in_numbers().copy()
        if self.clip is None:
            return scaler

        # RobustScaler cannot clip, so a MinMaxScaler that maps [-clip, clip] to itself does it.
        ends = np.array([[-self.clip], [self.clip]]) * np.ones(self.n_features_in_)
        clipper = MinMaxScaler(feature_range=(-self.clip, self.clip), clip=True).fit(ends)
        return make_pipeline(scaler, clipper)
