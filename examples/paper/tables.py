"""The tables of the experiments as Markdown, for the documentation."""

import numpy as np

SHOWN_M = (1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 31, 50, 80, 120)
# As the paper classes them. The two real ones have ties all the same.
CONTINUOUS = ("uniform", "gaussian", "goodreads_rating", "goodreads_pages")


def markdown(table, digits=2):
    """Return a pivot table (rows and columns named) as Markdown."""
    head = [str(table.index.name), *map(str, table.columns)]
    rows = [
        [str(key), *("" if np.isnan(value) else f"{value:.{digits}f}" for value in row)]
        for key, row in zip(table.index, table.to_numpy(dtype=float), strict=True)
    ]
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ruler, *rows))


def pivot(means, index, columns, value):
    table = means.pivot_table(index=index, columns=columns, values=value, sort=False)
    return table.sort_index()


def accuracy_table(means, datasets):
    """Return error against m for the mechanisms, averaged over datasets."""
    table = pivot(means[means.dataset.isin(datasets)], "m", "mechanism", "error")
    return markdown(table.loc[list(SHOWN_M)])


def averages_over_m(means):
    """Return the error of each mechanism averaged over m = 1 .. 120, for each dataset.

    Between the m that were run the error is taken to be linear.
    """
    table = means.groupby(["dataset", "mechanism"], sort=False).apply(
        lambda part: np.interp(np.arange(1, 121), part.m, part.error).mean(), include_groups=False
    )
    table = table.unstack().reindex(list(means.dataset.unique()))
    table = table[list(means.mechanism.unique())]
    table["AQ / paper's AQ"] = table["AQ"] / table["paper's AQ"]
    return markdown(table)


def all_tables(found):
    """Return all tables, given as {experiment: table of means}, in one Markdown text."""
    no_bounds = pivot(found["6_bounds"], "m", ["dataset", "variant"], "error")
    no_bounds.columns = [f"{name}, {variant}" for name, variant in no_bounds.columns]
    no_bounds = no_bounds.T.rename_axis(index="m")  # twelve rows are readable, twelve columns not
    milliseconds = pivot(found["5_run_time"], "m", "mechanism", "seconds") * 1000
    parts = []
    for title, name in (("eps = 1", "1_accuracy_dp"), ("rho = 1/2", "3_accuracy_zcdp")):
        means = found[name]
        present = [name for name in CONTINUOUS if name in set(means.dataset)]
        parts += [f"## Error, {title}: mean over {', '.join(present)}"]
        parts += [accuracy_table(means, present)]
        parts += [f"## Error, {title}: mean over m = 1 .. 120"]
        parts += [averages_over_m(means)]
    parts += ["## Time in milliseconds, n = 1000", markdown(milliseconds)]
    parts += ["## AQ with and without bounds, eps = 1", markdown(no_bounds, 1)]
    parts += [
        "## Error of 7 quantiles against n",
        markdown(pivot(found["7_sample_size"], "n", "mechanism", "error")),
    ]
    parts += ["## Features that share eps = 1, delta = 1e-6"]
    parts += [markdown(pivot(found["7_features"], "features", "accounting", "error"), 1)]
    parts += ["## Sanitized data: largest difference of counts over all intervals"]
    parts += [markdown(found["8_sanitize"].set_index("dataset"), 0)]
    return "\n\n".join(parts) + "\n"
