"""Warnings of functions about results that are mostly noise.

They depend on released numbers and public facts only, and follow the rule of `enough_data`. The
text names the entries and possible remedies, but no released number, so equal calls warn once.
"""

import numpy as np

from dpq_sklearn.estimators.noise_warning import listed, possible_steps
from dpq_sklearn.forecast.enough_data import (
    TOO_FAR_OFF,
    cautious_count,
    errors_of_entries,
    errors_of_ranks_of,
    judged_plan,
    less_by_noise,
    warn_user,
)

# The points of `sanitize` are mostly noise if the errors of their ranks exceed half of this share
# of the rows.
UNIT_OF_POINTS = 0.1
# Messages name at most this many entries.
MOST_NAMED = 8


def warn_of_noisy_quantiles(released, labels):
    """Warn if quantiles of one column are mostly noise. `labels` are their names."""
    plan = judged_plan(released.plan)
    n_rows = cautious_count(released.n_rows, plan.count_budget)
    ((column, deviations),) = plan.map_columns(lambda *of_column: of_column)
    is_noisy = errors_of_entries(column, deviations, n_rows) > TOO_FAR_OFF

    if is_noisy.any():
        _warn(f"the quantiles {_entries(labels, is_noisy)}", plan)


def warn_of_noisy_points(released):
    """Warn if the points of `sanitize` are mostly noise."""
    plan = judged_plan(released.plan)
    n_rows = cautious_count(released.n_rows, plan.count_budget)
    (errors,) = errors_of_ranks_of(plan, n_rows)

    if errors.mean() > TOO_FAR_OFF * UNIT_OF_POINTS:
        _warn("most points", plan)


def warn_of_noisy_description(plan, counts, names, labels):
    """Warn if entries of a description are mostly noise.

    `plan` is a `DescriptionPlan`, `counts` are released, and `labels` name the quantiles.
    """
    quantiles = judged_plan(plan.quantiles)
    columns = quantiles.map_columns(lambda *of_column: of_column)
    labels = ["count", *labels]

    noisy_labels = {}  # by name of the column
    for name, count, noise, column in zip(names, counts, plan.count_noises, columns, strict=True):
        n_rows = less_by_noise(float(max(count, 1)), noise)
        errors = errors_of_entries(*column, n_rows)
        is_noisy = np.append(noise.deviation() > TOO_FAR_OFF * n_rows, errors > TOO_FAR_OFF)
        if is_noisy.any():
            noisy_labels[name] = _entries(labels, is_noisy)

    if noisy_labels:
        _warn(_entries_of_columns(noisy_labels, len(names)), quantiles)


def warn_of_noisy_segments(released):
    """Warn if entries of `ReleasedSegments` are mostly noise, and name the segments."""
    plan = released.plan
    quantiles = judged_plan(plan.quantiles)
    columns = quantiles.map_columns(lambda *of_column: of_column)
    counts = released.description.counts.reshape(len(columns), len(released.keys))

    noisy = dict.fromkeys(
        key
        for of_column, noise, column in zip(counts, plan.count_noises, columns, strict=True)
        for key, count in zip(released.keys, of_column, strict=True)
        if _is_any_noisy(count, noise, column)
    )
    if noisy:
        words = [repr(key[0] if len(key) == 1 else key) for key in noisy]
        named = ", ".join(words) if len(words) <= MOST_NAMED else f"{len(words)} of them"
        _warn(f"entries of the segments {named}", quantiles)


def _is_any_noisy(count, noise, column):
    """Return whether a quantile of a column with this count is mostly noise."""
    n_rows = less_by_noise(float(max(count, 1)), noise)
    return np.any(errors_of_entries(*column, n_rows) > TOO_FAR_OFF)


def _entries(labels, is_noisy):
    """Return the names of the noisy entries of one column as a text."""
    named = [label for label, noisy in zip(labels, is_noisy, strict=True) if noisy]
    if len(named) > MOST_NAMED:
        return "(most of them)" if len(named) > len(labels) / 2 else "(many of them)"
    return ", ".join(named)


def _entries_of_columns(noisy_labels, n_columns):
    """Return the noisy entries of all columns as a text, which lists equal entries once."""
    columns_of = {}
    for name, entries in noisy_labels.items():
        columns_of.setdefault(entries, []).append(name)

    phrases = []
    for entries, names in columns_of.items():
        if len(names) == n_columns:
            phrases.append(f"{entries} of all columns")
        elif len(names) > MOST_NAMED:
            phrases.append(f"{entries} of {len(names)} columns")
        else:
            phrases.append(f"{entries} of {', '.join(map(repr, names))}")
    return "; ".join(phrases)


def _warn(entries, plan):
    warn_user(
        "Some released values are mostly noise, because the data are too few for this budget: "
        f"{entries}. Consider {listed(possible_steps(plan))}."
    )
