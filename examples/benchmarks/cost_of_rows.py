"""
How does the time of a fit grow with the rows, where NumPy sorts fast and where it sorts slowly?

Quantiles of one column and bins of ten, of 1e5, 1e6 and 1e7 rows, against NumPy's and
scikit-learn's. How fast NumPy sorts depends on the CPU. The other kind is shown by switching off
what makes it fast, in a process of its own. One thread, time of the process, best of a few.

    python examples/benchmarks/cost_of_rows.py [--rows 10000000] [--out cost_of_rows.png]
"""

import argparse
import json
import os
import subprocess
import sys
import warnings

import numpy as np
from sklearn.preprocessing import KBinsDiscretizer
from timing import best_seconds, print_machine

from dpq_sklearn import DPKBinsDiscretizer, dp_quantiles

# With these switched off, NumPy's sort has no vector instructions.
FAST_SORT = "X86_V4 AVX512_ICL AVX512_SPR X86_V3"
KINDS = {"fast sort": "", "slow sort": FAST_SORT}
FIFTHS = np.arange(1, 5) / 5
N_COLUMNS = 10
NUMBERS_OF_FIT = 10**7


def times(n_rows):
    """Return seconds by name for so many rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 5, n_rows)
    functions = {
        "np.sort": lambda: np.sort(x),
        "np.quantile, 4": lambda: np.quantile(x, FIFTHS),
        "dp_quantiles, 4": lambda: dp_quantiles(x, FIFTHS),
    }
    if n_rows * N_COLUMNS <= NUMBERS_OF_FIT:
        X = rng.normal(0, 5, (n_rows, N_COLUMNS))
        functions |= {
            "KBinsDiscretizer(5)": lambda: KBinsDiscretizer(5, subsample=None).fit(X),
            "DPKBinsDiscretizer(5)": lambda: DPKBinsDiscretizer(5).fit(X),
        }
    repetitions = 3 if n_rows >= 10**6 else 9
    found = best_seconds(list(functions.values()), repetitions)
    return dict(zip(functions, found, strict=True))


def all_times(largest):
    sizes = [10**5, 10**6, 10**7]
    return {n_rows: times(n_rows) for n_rows in sizes if n_rows <= largest}


def times_of_kind(features, largest):
    """Return the times in a process in which these features of the CPU are switched off."""
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": features}
    command = [sys.executable, __file__, "--rows", str(largest), "--as-json"]
    printed = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    machine, found = printed.stdout.strip().splitlines()
    print(machine)
    return {int(n_rows): row for n_rows, row in json.loads(found).items()}


def show(kinds):
    for kind, rows in kinds.items():
        print(f"\n{kind}, milliseconds\n{'rows':>12}" + "".join(f"{n:>14,}" for n in rows))
        for name in rows[min(rows)]:
            cells = (row.get(name) for row in rows.values())
            print(f"{name:24}" + "".join(f"{c * 1e3:14.1f}" if c else " " * 14 for c in cells))


def draw(kinds, path):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for ax, (kind, rows) in zip(axes, kinds.items(), strict=True):
        for name in rows[min(rows)]:
            points = [(n, row[name]) for n, row in rows.items() if name in row]
            is_ours = name.startswith(("dp", "DP"))
            is_table = "Bins" in name
            ax.plot(
                *zip(*points, strict=True),
                marker="o",
                color="C0" if is_table else "C1",
                linestyle="-" if is_ours else ":" if name == "np.sort" else "--",
                label=f"{name}, {N_COLUMNS} columns" if is_table else f"{name}, 1 column",
            )
        ax.set(xscale="log", yscale="log", title=kind, xlabel="rows")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds")
    axes[0].legend(fontsize="small", frameon=False)
    fig.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**7, help="of the longest column")
    parser.add_argument("--out", help="draw a figure")
    parser.add_argument("--as-json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    if options.as_json:
        print_machine()
        print(json.dumps(all_times(options.rows)))
        return

    kinds = {kind: times_of_kind(off, options.rows) for kind, off in KINDS.items()}
    show(kinds)
    if options.out:
        draw(kinds, options.out)


if __name__ == "__main__":
    main()
