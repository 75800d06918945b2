"""Where is expected_rank_error right? Measured errors beside it, from few rows to many.

    python examples/benchmarks/measured.py expected_error

The root of the mean square of the errors in rank, over 10 columns of one kind, divided by what
`expected_rank_error` says for data in plenty: eps = 1 for all columns, 5 bins, no bounds. Standard
errors are over fits. `error in bins` is what the rule of the warning expects for so many rows.
"""

import numpy as np
from results import Number, Table

from dpq_sklearn import DPKBinsDiscretizer, expected_rank_error

N_BINS, N_COLUMNS = 5, 10
ROWS = (200, 500, 1000, 2000, 5000, 10_000, 20_000)
KINDS = {
    "N(0, 1)": lambda rng, shape: rng.normal(size=shape),
    "uniform on (50, 60)": lambda rng, shape: rng.uniform(50, 60, shape),
    "lognormal(11, 0.7)": lambda rng, shape: rng.lognormal(11, 0.7, shape),
    "Student t, 2 degrees": lambda rng, shape: rng.standard_t(2, shape),
}


def mean_square(X, seed):
    """Return the mean square of the errors in rank of one fit, and its expected error in bins."""
    fitted = DPKBinsDiscretizer(N_BINS, encode="ordinal", random_state=seed).fit(X)
    wanted = np.arange(1, N_BINS) / N_BINS * len(X)
    errors = [
        np.searchsorted(np.sort(x), edges[1:-1]) - wanted
        for x, edges in zip(X.T, fitted.bin_edges_, strict=True)
    ]
    return np.mean(np.square(errors)), fitted.error_in_bins_.mean()


def ratios(n_fits):
    """Return measured / expected errors with their standard errors, and the errors in bins."""
    expected = np.sqrt(np.mean(expected_rank_error(N_BINS, n_features=N_COLUMNS) ** 2))
    found = np.empty((len(ROWS), len(KINDS), 2, n_fits))
    for i, n_rows in enumerate(ROWS):
        for j, make in enumerate(KINDS.values()):
            for fit in range(n_fits):
                X = make(np.random.default_rng((i, j, fit)), (n_rows, N_COLUMNS))
                found[i, j, :, fit] = mean_square(X, fit)
    means = found[:, :, 0].mean(axis=2)
    deviations = found[:, :, 0].std(axis=2) / np.sqrt(n_fits)
    ratio = np.sqrt(means) / expected
    return ratio, ratio * deviations / (2 * means), found[:, :, 1].mean(axis=(1, 2))


def measure(trials):
    """Return measured errors as multiples of expected ones."""
    ratio, deviation, in_bins = ratios(trials)
    rows = {}
    for n_rows, bins, means, errors in zip(ROWS, in_bins, ratio, deviation, strict=True):
        cells = [Number(*pair, 2) for pair in zip(means.tolist(), errors.tolist(), strict=True)]
        rows[f"{n_rows:,}"] = [f"{bins:.2f}", *cells]

    return Table(
        title=f"Measured rank errors as multiples of `expected_rank_error`: {N_COLUMNS} columns of "
        f"one kind that share eps=1, {N_BINS} bins, no bounds.",
        columns=["rows", "error in bins that the report shows", *KINDS],
        rows=rows,
        trials=trials,
    )
