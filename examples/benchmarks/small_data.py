"""Accuracy and speed at the sizes of most tables: 200 to 10,000 rows by 5 to 100 columns.

    python examples/benchmarks/small_data.py [--fits 6] [--skip-speed] [--figures FOLDER]

Accuracy, 5 bins without bounds: the error of an edge in rank as a share of the rows (how far the
wanted rank is from the ranks of the released value), averaged over edges, columns and fits, with
its standard error; and how many edges lie outside the data by more than the range of the data.

Speed: a fit in one thread with the default encode against scikit-learn's exact one in the same run.

`--figures` draws one more measurement into a folder: the error against rows.
"""

import argparse
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer
from timing import compare, header, print_machine

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, PrivacyNoiseWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from figures import save_small

N_BINS = 5
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def tables():
    """Yield name, rows and budget of each table."""
    rng = np.random.default_rng(0)
    shape = (1500, 10)
    digits = load_digits().data
    digits = digits[:, digits.std(axis=0) > 0][:, :20]
    delta = {"eps": 1.0, "delta": 1e-6}
    yield "breast_cancer", load_breast_cancer().data, {"eps": 1.0}
    yield "breast_cancer, delta=1e-6", load_breast_cancer().data, delta
    yield "wine, eps=4", load_wine().data, {"eps": 4.0}
    yield "N(2005, 8) rounded", rng.normal(2005, 8, shape).round(), {"eps": 1.0}
    yield "N(1.7e18, 1e15) rounded", rng.normal(1.7e18, 1e15, shape).round(), {"eps": 1.0}
    yield "N(0, 1)", rng.normal(size=shape), {"eps": 1.0}
    yield "lognormal(11, 0.7), cents", rng.lognormal(11, 0.7, shape).round(2), {"eps": 1.0}
    positive = rng.lognormal(8, 1, shape)
    yield "60% zeros, lognormal(8, 1)", np.where(rng.random(shape) < 0.6, 0, positive), {"eps": 1.0}
    yield "digits, delta=1e-6", digits, delta


def errors_of_column(values, edges):
    """Return the errors in rank as shares, and which edges are far outside the data."""
    values = np.sort(values)
    wanted = np.arange(1, edges.size + 1) / (edges.size + 1) * values.size
    below = np.searchsorted(values, edges, side="left")
    up_to = np.searchsorted(values, edges, side="right")
    errors = np.maximum(np.maximum(below - wanted, wanted - up_to), 0) / values.size
    data_range = values[-1] - values[0]
    is_far = (edges < values[0] - data_range) | (edges > values[-1] + data_range)
    return errors.mean(), is_far.mean()


def errors_of_fits(X, budget, n_fits):
    """Return what `errors_of_column` finds, for all columns of several fits."""
    found = []
    for _ in range(n_fits):
        edges = DPKBinsDiscretizer(N_BINS, encode="ordinal", **budget).fit(X).bin_edges_
        found += [errors_of_column(x, e[1:-1]) for x, e in zip(X.T, edges, strict=True)]
    return np.array(found).T


def print_accuracy(n_fits):
    print(f"{'5 bins, no bounds':28} {'error':>8} {'s.e.':>7} {'far':>6}  column-fits")
    for name, X, budget in tables():
        errors, is_far = errors_of_fits(X, budget, max(n_fits, -(-60 // X.shape[1])))
        deviation = errors.std() / np.sqrt(errors.size)
        print(
            f"{name:28} {errors.mean():8.4f} {deviation:7.4f} {is_far.mean():6.1%}  {errors.size}"
        )


def print_speed():
    print_machine()
    header("fit, one thread", "scikit-learn")
    rng = np.random.default_rng(0)
    for shape in [(200, 5), (1000, 30), (1000, 100), (10_000, 30), (100_000, 10), (1_000_000, 10)]:
        X = rng.lognormal(size=shape)
        repetitions = 15 if X.size < 1_000_000 else 3
        size = f"{shape[0]:,} x {shape[1]}"
        for encode in ("onehot", "ordinal"):
            compare(
                f"DPKBinsDiscretizer(5), {encode}, {size}",
                lambda X=X, encode=encode: DPKBinsDiscretizer(N_BINS, encode=encode).fit(X),
                lambda X=X, encode=encode: KBinsDiscretizer(
                    N_BINS, encode=encode, subsample=None
                ).fit(X),
                repetitions,
            )
        compare(
            f"DPQuantileTransformer(63), {size}",
            lambda X=X: DPQuantileTransformer(63).fit(X),
            lambda X=X: QuantileTransformer(n_quantiles=65, subsample=None).fit(X),
            repetitions,
        )


def draw_accuracy(n_fits):
    """Draw the error against the number of rows, for four kinds of columns."""
    rng = np.random.default_rng(0)
    kinds = {
        "N(0, 1)": lambda shape: rng.normal(size=shape),
        "N(2005, 8) rounded": lambda shape: rng.normal(2005, 8, shape).round(),
        "lognormal(11, 0.7), cents": lambda shape: rng.lognormal(11, 0.7, shape).round(2),
        "60% zeros, lognormal(8, 1)": lambda shape: (
            rng.lognormal(8, 1, shape) * (rng.random(shape) > 0.6)
        ),
    }
    n_of_rows = (200, 500, 1000, 2000, 5000, 10_000)
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, make), colour in zip(kinds.items(), COLOURS, strict=True):
        errors = [errors_of_fits(make((n, 10)), {"eps": 1.0}, n_fits)[0].mean() for n in n_of_rows]
        axes.loglog(n_of_rows, 100 * np.array(errors), "o-", color=colour, label=name)
    axes.set(xlabel="rows", ylabel="mean error of an edge (% of the rows)")
    axes.set_title("10 columns share eps = 1, 5 bins, no bounds")
    return with_legend(figure, axes)


def with_legend(figure, axes):
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=6, help="fits of each table, at least")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--figures", type=Path, help="folder for the figure")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyNoiseWarning)
    warnings.filterwarnings("ignore", module="sklearn")
    print_accuracy(arguments.fits)
    if not arguments.skip_speed:
        print_speed()
    if arguments.figures is not None:
        plt.switch_backend("agg")
        save_small(draw_accuracy(arguments.fits), arguments.figures / "small_data.png")


if __name__ == "__main__":
    main()
