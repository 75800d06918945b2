"""The tables of the experiments, for the documentation."""

import numpy as np

SHOWN_M = (1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 31, 50, 80, 120)
# As the paper classes them. The two real ones have ties all the same.
CONTINUOUS = ("uniform", "gaussian", "goodreads_rating", "goodreads_pages")


def pivot(means, index, columns, value):
    table = means.pivot_table(index=index, columns=columns, values=value, sort=False)
    return table.sort_index()


def accuracy_table(means, datasets):
    """Return error against m for the mechanisms, averaged over datasets."""
    table = pivot(means[means.dataset.isin(datasets)], "m", "mechanism", "error")
    return table.loc[list(SHOWN_M)]


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
    return table


def all_tables(found):
    """Return {name: table}, given {experiment: table of means}."""
    no_bounds = pivot(found["6_bounds"], "m", ["dataset", "variant"], "error")
    no_bounds.columns = [f"{name}, {variant}" for name, variant in no_bounds.columns]
    tables = {
        "milliseconds": pivot(found["5_run_time"], "m", "mechanism", "seconds") * 1000,
        "bounds": no_bounds.T.rename_axis(index="m"),
        "sample_size": pivot(found["7_sample_size"], "n", "mechanism", "error"),
        "features": pivot(found["7_features"], "features", "accounting", "error"),
        "sanitize": found["8_sanitize"].set_index("dataset"),
    }
    for unit, name in (("eps", "1_accuracy_dp"), ("rho", "3_accuracy_zcdp")):
        means = found[name]
        present = [name for name in CONTINUOUS if name in set(means.dataset)]
        tables[f"error_{unit}"] = accuracy_table(means, present)
        tables[f"error_{unit}_by_dataset"] = averages_over_m(means)
    return tables
