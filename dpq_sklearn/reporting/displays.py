"""DPQuantileDisplay: the quantiles that a fit released, with a band for the noise."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.composites.inside import is_private
from dpq_sklearn.dates import ColumnKind
from dpq_sklearn.estimators.binning import next_float32
from dpq_sklearn.forecast.enough_data import TOO_FAR_OFF
from dpq_sklearn.optional import optional_module
from dpq_sklearn.reading.containers import checked_table, read_matrix

# Colours for colour-blind readers (Okabe, Ito) and for dark backgrounds.
PRIVATE = "#0072B2"
BAND = "#56B4E9"
_PUBLIC = "#999999"
# A gap of this many times the width of a third of the quantiles is suspicious.
_FAR_AWAY = 1000


class DPQuantileDisplay:
    """Visualisation of the private quantiles of one feature.

    Draws the private distribution function of a :class:`DPQuantileTransformer`, or the bin edges of
    a :class:`DPKBinsDiscretizer`, each with a band for the noise of the mechanism. Only released
    numbers and public facts are drawn. Create it with :meth:`from_estimator`. Read more in the
    :ref:`User Guide <expected_accuracy>`.

    Parameters
    ----------
    values : ndarray of shape (n_quantiles,)
        The released quantiles.
    shares : ndarray of shape (n_quantiles,)
        The share of the rows below each quantile; NaN for edges of equal width.
    errors : ndarray of shape (n_quantiles,) or None, default=None
        Twice the standard deviation of each share; None draws no band.
    kind : {"cdf", "bins"}, default="cdf"
        A line through the quantiles, or vertical edges.
    name : str, default="feature"
        Name of the feature, for the axis.
    x_public : ndarray or None, default=None
        Public values of the feature, for a histogram in the background.

    Attributes
    ----------
    note : str or None
        A warning under the title if the released numbers look wrong.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        The axes and the figure of the plot.

    See Also
    --------
    DPQuantileTransformer : A distribution to draw.
    DPKBinsDiscretizer : Edges to draw.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPQuantileDisplay, DPQuantileTransformer
    >>> X = np.random.default_rng(0).lognormal(size=(5_000, 1))
    >>> fitted = DPQuantileTransformer(15, random_state=0).fit(X)
    >>> display = DPQuantileDisplay.from_estimator(fitted)
    """

    def __init__(self, values, shares, *, errors=None, kind="cdf", name="feature", x_public=None):
        self.values = values
        self.shares = shares
        self.errors = errors
        self.kind = kind
        self.name = name
        self.x_public = x_public
        self.note = None
        self.are_dates = False

    @classmethod
    def from_estimator(cls, estimator, *, feature=0, n_rows=None, X_public=None, ax=None):
        """Draw one feature of a fitted transformer.

        Parameters
        ----------
        estimator : fitted DPKBinsDiscretizer, DPQuantileTransformer or DPRobustScaler
        feature : int or str, default=0
            Index or name of the feature.
        n_rows : int or None, default=None
            A public guess at the number of rows, which turns the noise of ranks into a band of
            shares. None means `n_rows_`, the number that the fit has released.
        X_public : array-like of shape (n_public, n_features) or None, default=None
            Rows that are *not* private, for a histogram in the background.
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        display : DPQuantileDisplay
        """
        if not is_private(estimator):
            raise TypeError(
                "estimator must be a fitted transformer of dpq_sklearn, got an object of type "
                f"{type(estimator).__name__}: pass the step of a Pipeline."
            )
        check_is_fitted(estimator)
        index, name = _feature_of(estimator, feature)
        x_public = None
        if X_public is not None:
            x_public = read_matrix(checked_table(X_public))[:, index]

        released = estimator._private_values()[index]
        if hasattr(estimator, "bin_edges_"):
            kind = "bins"
            values = released
            shares = estimator._shares_below_edges()[index]
            errors = estimator.rank_error_[index]
        else:
            kind = "cdf"
            values = estimator._quantiles_in_numbers()[:, index]
            shares = estimator.references_
            # The knots of the tails are as uncertain as the quantile that they continue.
            n_tail_knots = (values.size - released.size) // 2
            errors = np.pad(estimator.rank_error_[:, index], n_tail_knots, mode="edge")

        n_rows = estimator.n_rows_ if n_rows is None else n_rows
        band = 2 * errors / (n_rows or np.nan)  # a fit that released nothing has no number of rows
        if np.isnan(band).all():  # "agg_tree" has no known errors
            band = None
        display = cls(values, shares, errors=band, kind=kind, name=name, x_public=x_public)
        display.are_dates = estimator._kinds()[index].of_scalars is ColumnKind.INSTANT
        display.note = _warning(released, values[0], estimator.error_in_bins_[index])
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        self : DPQuantileDisplay
        """
        pyplot = optional_module("matplotlib.pyplot", "DPQuantileDisplay", "dpq-sklearn[plot]")
        self.ax_ = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure

        if self.x_public is not None:
            self._draw_histogram()
        title = self._draw_bins() if self.kind == "bins" else self._draw_cdf()

        self.ax_.set_title(title if self.note is None else f"{title}\n{self.note}")
        self.ax_.set(xlabel=self.name, ylabel="share of the rows below", ylim=(-0.02, 1.02))
        self._make_axis_readable()
        self.ax_.legend(loc="best", frameon=False)
        if self.are_dates:  # days since 1970-01-01, as matplotlib counts
            self.ax_.xaxis_date()
        return self

    def _make_axis_readable(self):
        """Show complete numbers at the ticks, and some space around quantiles that are equal."""
        formatter = self.ax_.xaxis.get_major_formatter()
        if hasattr(formatter, "set_useOffset"):
            formatter.set_useOffset(False)

        values = np.asarray(self.values)
        if values.dtype.kind == "f" and self.x_public is None:
            low, high = values.min(keepdims=True), values.max()
            if high <= next_float32(low)[0]:
                space = max(0.05 * abs(high), 1e-3)
                self.ax_.set_xlim(high - space, high + space)

    def _draw_cdf(self):
        if self.errors is not None:
            style = {"color": BAND, "alpha": 0.4, "label": "noise (2 sd)"}
            self.ax_.fill_between(self.values, *self._band(), **style)
        self.ax_.plot(self.values, self.shares, color=PRIVATE, label="private quantiles")
        return "private distribution function"

    def _draw_bins(self):
        style = {"fmt": "o", "color": PRIVATE, "capsize": 3, "label": "private edges"}
        bars = None
        if self.errors is not None:
            bars = np.abs(self._band() - self.shares)
            style["label"] += ", noise (2 sd)"

        is_known = np.isfinite(self.shares)
        if is_known.any():
            shares = self.shares[is_known]
            bars = None if bars is None else bars[:, is_known]
            self.ax_.vlines(self.values[is_known], 0, shares, color=PRIVATE, alpha=0.6)
            self.ax_.errorbar(self.values[is_known], shares, bars, **style)
        if not is_known.all():
            style = {"color": _PUBLIC, "linestyle": "dashed", "label": "edges of equal width"}
            self.ax_.vlines(self.values[~is_known], 0, 1, **style)

        return "private bin edges"

    def _band(self):
        return np.clip((self.shares - self.errors, self.shares + self.errors), 0, 1)

    def _draw_histogram(self):
        behind = self.ax_.twinx()
        finite = self.x_public[np.isfinite(self.x_public)]
        behind.hist(finite, bins="auto", color=_PUBLIC, alpha=0.35)
        behind.set_ylabel("public rows (histogram)")

        self.ax_.set_zorder(behind.get_zorder() + 1)
        self.ax_.patch.set_visible(False)


def _warning(released, lowest, error_in_bins):
    """Return a warning about released quantiles and the lower end of their tail, or None."""
    if error_in_bins > TOO_FAR_OFF:
        return "too much noise for so few rows"
    if _some_are_far_away(released):
        return "some lie far from the others: perhaps noise"
    if lowest < 0 < released[0]:
        return "positive quantiles, negative tail: set bounds"
    return None


def _some_are_far_away(released):
    """Return whether a gap is wide, compared with the adjacent third of the quantiles."""
    third = max(2, -(-released.size // 3))
    starts = released[: 1 - third]  # of every third in a row
    stops = released[third - 1 :]
    has_width = stops > next_float32(starts)  # equal quantiles are moved that far apart
    widths = np.where(has_width, stops - starts, np.abs(starts))

    gaps = np.concatenate((np.diff(stops), np.diff(starts)))  # above a third, and below it
    scales = np.concatenate((widths[:-1], widths[1:]))
    return np.any((gaps > _FAR_AWAY * scales) & (scales > 0))


def _feature_of(estimator, feature):
    """Return the index and the name of a feature, which is given by its index or its name."""
    names = _check_feature_names_in(estimator).tolist()

    if isinstance(feature, str) and feature in names:
        return names.index(feature), feature
    if isinstance(feature, Integral) and 0 <= feature < len(names):
        return int(feature), names[feature]
    raise ValueError(f"feature must be one of {names}, or an index, got {shown(feature)}.")
