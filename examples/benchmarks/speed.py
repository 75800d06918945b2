"""How long does it take, compared with the exact counterpart in scikit-learn, NumPy or pandas?

    python examples/benchmarks/measured.py speed_fits speed_transforms speed_functions
    python examples/benchmarks/measured.py speed_people speed_segments

Times are the least of several turns, in one thread, by the clock of the process. Both sides of a
ratio take turns in one run. How fast NumPy sorts depends on the CPU, so fits are timed a second
time with all vector instructions of NumPy switched off, in a process of their own.
"""

import json
import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
from results import Number, Table
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer
from timing import best_seconds

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles

VECTOR_INSTRUCTIONS = "X86_V4 AVX512_ICL AVX512_SPR X86_V3"
SHAPES = [(10**6, 10), (10**5, 10), (10**4, 30), (1000, 30), (1000, 100), (200, 5)]
FIFTHS = np.arange(1, 5) / 5


def table_of(shape):
    return np.random.default_rng(0).normal(0, 5, shape)


def times_of_fits(n_turns):
    """Return seconds of ours and of the exact counterpart, by name."""
    found = {}
    for shape in SHAPES:
        X = table_of(shape)
        turns = n_turns if X.size >= 10**6 else 10 * n_turns
        name = f"{shape[0]:,} x {shape[1]}"
        found[f"DPKBinsDiscretizer(5), {name}"] = best_seconds(
            (
                lambda X=X: DPKBinsDiscretizer(5).fit(X),
                lambda X=X: KBinsDiscretizer(5, subsample=None).fit(X),
            ),
            turns,
        )
        found[f"DPQuantileTransformer(63), {name}"] = best_seconds(
            (
                lambda X=X: DPQuantileTransformer(63).fit(X),
                lambda X=X: QuantileTransformer(n_quantiles=65, subsample=None).fit(X),
            ),
            turns,
        )
    return found


def times_of_functions(n_turns):
    """Return seconds of dp_quantiles and of np.quantile, by name."""
    found = {}
    for n_rows in (10**5, 10**6, 10**7):
        x = table_of(n_rows)
        for m in (1, 4, 63):
            q = np.arange(1, m + 1) / (m + 1)
            functions = partial(dp_quantiles, x, q), partial(np.quantile, x, q)
            name = f"{n_rows:,} rows, {m} quantile{'s' * (m > 1)}"
            found[name] = best_seconds(functions, n_turns)
    return found


def without_vectors(function, n_turns):
    """Return what a function of this module returns if NumPy uses no vector instructions."""
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": VECTOR_INSTRUCTIONS}
    command = [sys.executable, __file__, function.__name__, str(n_turns)]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(printed.stdout)


def table_of_ratios(title, first, peer, found, without=None):
    """Return a table of the times of ours and the peer, and their ratios."""
    rows = {}
    for name, (ours, of_peer) in found.items():
        rows[name] = [
            Number(1e3 * ours, 0.0, 1),
            Number(1e3 * of_peer, 0.0, 1),
            Number(ours / of_peer, 0.0, 2),
        ]
        if without is not None:
            ours, of_peer = without[name]
            rows[name].append(Number(ours / of_peer, 0.0, 2))
    columns = [first, "ours, ms", f"{peer}, ms", "ratio"]
    more = [] if without is None else ["ratio without vector instructions"]
    return Table(title=title, columns=columns + more, rows=rows, trials=1)


def measure_fits(n_turns):
    """Return the times of fits."""
    return table_of_ratios(
        "`fit` of float64 compared with scikit-learn's exact `fit` without subsampling.",
        "",
        "scikit-learn",
        times_of_fits(n_turns),
        without_vectors(times_of_fits, n_turns),
    )


def measure_functions(n_turns):
    """Return the times of dp_quantiles."""
    return table_of_ratios(
        "`dp_quantiles` of one column compared with `numpy.quantile`.",
        "column",
        "np.quantile",
        times_of_functions(n_turns),
        without_vectors(times_of_functions, n_turns),
    )


def measure_transforms(n_turns):
    """Return the times of transforms, compared with the exported plain objects."""
    X = table_of((10**6, 10))
    kinds = [DPKBinsDiscretizer(5, encode=e) for e in ("ordinal", "onehot", "onehot-dense")]
    kinds += [DPQuantileTransformer(63, output_distribution=o) for o in ("uniform", "normal")]
    found = {}
    for ours in kinds:
        plain = ours.fit(X).to_sklearn()
        kind = getattr(ours, "encode", None) or ours.output_distribution
        functions = [partial(each.transform, X) for each in (ours, plain)]
        found[f"{type(ours).__name__}, {kind}"] = best_seconds(functions, n_turns)
    return table_of_ratios(
        "`transform` of 1,000,000 x 10 float64 compared with the plain object of `to_sklearn()`.",
        "",
        "scikit-learn",
        found,
    )


def measure_people(n_turns):
    """Return the times of fits with groups, compared with those without."""
    n_rows, n_people = 10**6, 10**5
    numbers = np.random.default_rng(0).integers(0, n_people, n_rows)
    kinds = {"integers": numbers, "text": pd.Series(numbers).map("person {}".format)}
    found = {}
    for n_columns in (1, 10):
        X = table_of((n_rows, n_columns))
        for kind, groups in kinds.items():
            binner = DPKBinsDiscretizer(5, encode="ordinal")
            functions = partial(binner.fit, X, groups=groups), partial(binner.fit, X)
            name = f"{n_columns} column{'s' * (n_columns > 1)}, labels are {kind}"
            found[name] = best_seconds(functions, n_turns)
    return table_of_ratios(
        "`DPKBinsDiscretizer(5)` on 1,000,000 rows of 100,000 people: `fit` with `groups` compared "
        "with `fit` without.",
        "",
        "without groups",
        found,
    )


def measure_segments(n_turns):
    """Return the times of quantiles by segment, compared with those of pandas."""
    n_rows, n_segments = 10**6, 20
    q = [0.05, 0.25, 0.5, 0.75, 0.95]
    keys = [f"region {number}" for number in range(n_segments)]
    x = pd.Series(table_of(n_rows))
    numbers = np.random.default_rng(1).integers(0, n_segments, n_rows)
    text = pd.Series(numbers).map(dict(enumerate(keys)))
    found = {}
    for kind in ("str", "category"):
        labels = text.astype(kind)
        functions = (
            partial(dp_quantiles, x, q, by=labels, keys=keys),
            lambda labels=labels: x.groupby(labels, observed=True).quantile(q),
        )
        found[f"labels are {kind}"] = best_seconds(functions, n_turns)
    return table_of_ratios(
        "`dp_quantiles` with `by`, five quantiles of 1,000,000 rows in 20 segments, compared with "
        "`groupby().quantile()` of pandas.",
        "",
        "pandas",
        found,
    )


if __name__ == "__main__":  # the second process
    warnings.simplefilter("ignore")
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]))))
