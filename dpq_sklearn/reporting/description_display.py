"""DPDescribeDisplay: a private description as one box per column or segment, with its noise."""

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.checks import shown
from dpq_sklearn.forecast.enough_data import TOO_FAR_OFF, errors_in_bins, rank_deviations
from dpq_sklearn.optional import optional_module
from dpq_sklearn.reading.describe_format import (
    labels_of_quantiles,
    names_in_segments,
    read_description,
    read_segments,
)
from dpq_sklearn.releases.plans import plan_description
from dpq_sklearn.releases.request import Column, Request
from dpq_sklearn.releases.segments import plan_private_segments
from dpq_sklearn.reporting.displays import BAND, PRIVATE

_HEIGHT_OF_A_COLUMN = 0.9  # in inches
# Half the heights of a box and of a band, on an axis of height 1.
_HALF_BOX = 0.3
_HALF_BAND = 0.42
# The number of labels that fit into a title.
_MOST_LABELS = 7


class DPDescribeDisplay:
    """Visualisation of a private description of a table.

    Draws a box for each column of :func:`dp_describe`: pairs of quantiles around the median, the
    outermost of them as whiskers, each with a band for the noise of the mechanism. Every column has
    its own axis. For a description by segment, it draws a box for each segment of one column, on
    the same scale. Only released numbers and public facts are drawn. Create it with
    :meth:`from_description`. Read more in the :ref:`User Guide <describe>`.

    Parameters
    ----------
    names : list of str
        The names of the columns, or of the segments.
    counts : ndarray of shape (n_columns,)
        The released counts of values.
    probabilities : array-like of shape (n_quantiles,)
        The probabilities of the quantiles, ascending.
    values : ndarray of shape (n_quantiles, n_columns)
        The released quantiles.
    count_error : float, default=0.0
        Twice the standard deviation of a count.
    rank_errors : array-like of shape (n_quantiles,) or None, default=None
        Twice the standard deviation of the rank of each quantile; None draws no bands.
    are_noise : array-like of bool of shape (n_columns,) or None, default=None
        Which columns have too few values, so that their quantiles are mostly noise.
    column : str or None, default=None
        The column of the segments; None draws columns instead of segments.

    Attributes
    ----------
    axes_, figure_ : ndarray of matplotlib Axes, matplotlib Figure
        The axes and the figure of the plot.

    See Also
    --------
    dp_describe : Makes the description.
    DPQuantileDisplay : Draws one feature of a fitted transformer.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpq_sklearn import DPDescribeDisplay, dp_describe
    >>> incomes = np.random.default_rng(0).lognormal(10, 1, size=5_000)
    >>> description = dp_describe(pd.DataFrame({"income": incomes}), eps=1.0, random_state=0)
    >>> display = DPDescribeDisplay.from_description(description, eps=1.0)
    """

    def __init__(
        self,
        names,
        counts,
        probabilities,
        values,
        *,
        count_error=0.0,
        rank_errors=None,
        are_noise=None,
        column=None,
    ):
        self.names = names
        self.counts = counts
        self.probabilities = probabilities
        self.values = values
        self.count_error = count_error
        self.rank_errors = rank_errors
        self.are_noise = are_noise
        self.column = column
        self.are_dates = [False] * len(names)

    @classmethod
    def from_description(
        cls,
        description,
        *,
        column=None,
        keys=None,
        eps=None,
        delta=0.0,
        rho=None,
        mechanism="aq",
        axes=None,
    ):
        """Draw a description; nothing is released.

        Parameters
        ----------
        description : pandas or polars DataFrame
            The table that :func:`dp_describe` returned.
        column : str or None, default=None
            The column to draw the segments of. Required for a description by segment.
        keys : list, "private" or None, default=None
            The `keys` of :func:`dp_describe`. "private" means that a fifth of eps found the keys.
        eps, delta, rho, mechanism
            The arguments of :func:`dp_describe`, from which the noise follows.
        axes : array-like of matplotlib Axes or None, default=None
            The axes to draw on, one for each column or segment. None makes a new figure.

        Returns
        -------
        display : DPDescribeDisplay
        """
        budget = TotalBudget(eps, delta, rho)
        described, n_columns = _read(description, column)

        n_segments = 1 if column is None else len(described.names)
        request = Request(
            [Column(described.probabilities)] * n_columns, budget, mechanism, n_segments=n_segments
        )
        plan = _plan(request, keys)
        deviation = plan.count_noises[0].deviation()
        rank_errors = 2 * rank_deviations(plan.quantiles)[0]
        display = cls(
            [str(name) for name in described.names],
            described.counts,
            described.probabilities,
            described.values,
            count_error=2 * deviation,
            rank_errors=None if np.isnan(rank_errors).any() else rank_errors,
            are_noise=[
                errors_in_bins(plan.quantiles, max(count - deviation, 1.0))[0] > TOO_FAR_OFF
                for count in described.counts
            ],
            column=column,
        )
        display.are_dates = described.are_dates
        return display.plot(axes=axes)

    def plot(self, axes=None):
        """Draw the display.

        Parameters
        ----------
        axes : array-like of matplotlib Axes or None, default=None
            The axes to draw on, one for each column or segment. None makes a new figure.

        Returns
        -------
        self : DPDescribeDisplay
        """
        n_columns = len(self.names)
        if axes is None:
            axes = self._new_axes()
        self.axes_ = np.ravel(axes)
        if self.axes_.size != n_columns:
            kind = "columns" if self.column is None else "segments"
            raise ValueError(
                f"axes must have an item for each of the {n_columns} {kind}, got {self.axes_.size}."
            )

        for column in range(n_columns):
            self._draw_column(self.axes_[column], column)
        if self.column is not None:
            self._set_common_scale()
        self.figure_ = self.axes_[0].figure
        return self

    def _new_axes(self):
        pyplot = optional_module("matplotlib.pyplot", "DPDescribeDisplay", "dpq-sklearn[plot]")
        n_columns = len(self.names)
        figure, axes = pyplot.subplots(
            n_columns,
            squeeze=False,
            sharex=self.column is not None,
            figsize=(6.4, 0.6 + _HEIGHT_OF_A_COLUMN * n_columns),
            layout="constrained",
        )
        figure.suptitle(self._title(), fontsize="medium")
        return axes

    def _title(self):
        labels = labels_of_quantiles(self.probabilities)
        are_few = len(labels) <= _MOST_LABELS
        quantiles = ", ".join(labels) if are_few else f"{labels[0]} to {labels[-1]}"
        noise = "" if self.rank_errors is None else "; bands and ±: noise (2 sd)"
        what = "private quantiles" if self.column is None else f"{self.column}: private quantiles"
        return f"{what} {quantiles}{noise}"

    def _draw_column(self, ax, column):
        """Draw the box of a column, and its count."""
        if self.rank_errors is not None:
            lower, upper = self._bands(column)
            style = {"color": BAND, "alpha": 0.4}
            ax.barh(np.zeros(lower.size), upper - lower, 2 * _HALF_BAND, lower, **style)
        self._draw_box(ax, self.values[:, column])
        if self.are_dates[column]:  # days since 1970-01-01, as matplotlib counts
            ax.xaxis_date()

        ax.use_sticky_edges = False
        ax.margins(x=0.02)
        ax.set(ylim=(-0.5, 0.5), yticks=[])
        ax.set_title(self._title_of(column), loc="left", fontsize="medium")
        for side in ("left", "right", "top"):
            ax.spines[side].set_visible(False)

    def _set_common_scale(self):
        """Give all axes the range of the released quantiles of all segments.

        Segments that are mostly noise may lie anywhere, so they are ignored if there are others.
        """
        is_noise = np.zeros(len(self.names)) if self.are_noise is None else self.are_noise
        is_noise = np.asarray(is_noise, dtype=bool)
        shown_values = self.values if is_noise.all() else self.values[:, ~is_noise]
        low, high = shown_values.min(), shown_values.max()
        margin = 0.05 * (high - low) or 0.5

        for ax in self.axes_:
            ax.set_xlim(low - margin, high + margin)

    def _draw_box(self, ax, values):
        """Draw ascending values: whiskers at the ends, boxes between, and the median as a line."""
        n_values = values.size
        ax.hlines(0, values[0], values[-1], color=PRIVATE)
        ax.vlines(values[[0, -1]], -_HALF_BOX / 2, _HALF_BOX / 2, color=PRIVATE)

        for below in range(1, n_values // 2):
            width = values[n_values - 1 - below] - values[below]
            ax.barh(0, width, 2 * _HALF_BOX, values[below], color="none", edgecolor=PRIVATE)
        if n_values % 2:
            ax.vlines(values[n_values // 2], -_HALF_BOX, _HALF_BOX, color=PRIVATE, linewidth=2.5)

    def _bands(self, column):
        """Return the lower and upper end of the band of each quantile: values at other ranks.

        Values between quantiles are interpolated. Values beyond the outermost quantiles are
        extrapolated from the last two quantiles, if there are two.
        """
        probabilities = np.asarray(self.probabilities)
        values = self.values[:, column]
        errors = np.asarray(self.rank_errors) / max(self.counts[column], 1.0)
        ends = np.clip((probabilities - errors, probabilities + errors), 0.0, 1.0)

        inside = np.interp(ends, probabilities, values)
        if values.size == 1:
            return inside
        first, *_, last = np.repeat(np.diff(values) / np.diff(probabilities), 2)  # slopes
        below = first * np.minimum(ends - probabilities[0], 0.0)
        above = last * np.maximum(ends - probabilities[-1], 0.0)
        return inside + below + above

    def _title_of(self, column):
        noise = f" ± {self.count_error:,.0f}" if self.count_error else ""
        is_noise = self.are_noise is not None and self.are_noise[column]
        note = ": too few, mostly noise" if is_noise else ""
        return f"{self.names[column]}, {self.counts[column]:,.0f}{noise} values{note}"


def _read(description, column):
    """Return the `Described` that is drawn, and the number of columns that share the budget."""
    names = names_in_segments(description)
    if names is not None:
        if column is None or column not in names:
            raise ValueError(
                "column must be a column of the description by segment: one of "
                f"{', '.join(map(repr, names))}, got {shown(column)}."
            )
        return read_segments(description, column), len(names)

    described = read_description(description)
    if described is None:
        raise ValueError(
            "description must be a table of dp_describe, with a count and quantiles, got "
            f"{shown(description)}."
        )
    if column is not None:
        raise ValueError(
            f"column must be None for a description without segments, got {shown(column)}."
        )
    return described, described.counts.size


def _plan(request, keys):
    """Return the plan of a description."""
    if isinstance(keys, str):
        if keys != "private":
            raise ValueError(f'keys must be a list, "private" or None, got {shown(keys)}.')
        return plan_private_segments(request).description
    return plan_description(request)
