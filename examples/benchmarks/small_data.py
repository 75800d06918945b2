"""Accuracy and speed at the sizes of most tables: 200 to 10,000 rows by 5 to 100 columns.

    python examples/benchmarks/small_data.py [--fits 6] [--skip-tables] [--skip-columns]
        [--skip-speed] [--data FOLDER] [--figures FOLDER]

Tables, 5 bins without bounds: the error of an edge in rank as a share of the rows (how far the
wanted rank is from the ranks of the released value), averaged over edges, columns and fits, with
its standard error; and how many edges lie outside the data by more than the range of the data.

Columns: the same error for one kind of column at a time, by what is said about it: nothing, public
bounds, decimals, both, or 100 public rows as a prior. The four quantiles of 5 bins are measured as
they are released, before equal edges part company. `--data` is a folder with adult_hours.csv, the
hours a week of a census; without it that column is left out.

Speed: a fit in one thread with the default encode against scikit-learn's exact one in the same run.

`--figures` draws one more measurement into a folder: the error against rows.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
        print(
            f"{name:28} {errors.mean():8.4f} {standard_error(errors):7.4f} {is_far.mean():6.1%}  "
            f"{errors.size}"
        )


# Columns


@dataclass(frozen=True)
class Column:
    """A kind of column: how to make it, and what everyone knows about it."""

    name: str
    sample: Callable  # of a generator and a shape
    bounds: tuple
    decimals: int | None = None


def share_of(first, weights):
    """Return a function that samples whole numbers from `first` on by weights."""
    values = np.arange(first, first + len(weights), dtype=float)
    shares = np.array(weights) / sum(weights)
    return lambda rng, shape: rng.choice(values, shape, p=shares)


COLUMNS = [
    Column("kids 0-3", share_of(0, [80, 15, 4, 1]), (0, 3), 0),
    Column("ratings 1-5", share_of(1, [5, 10, 20, 40, 25]), (1, 5), 0),
    Column("Poisson(0.5)", lambda rng, shape: 1.0 * rng.poisson(0.5, shape), (0, 10), 0),
    Column("0/1", share_of(0, [70, 30]), (0, 1), 0),
    Column("ages", lambda rng, shape: np.floor(95 * rng.beta(2, 2.5, shape)), (0, 120), 0),
    Column("Poisson(3)", lambda rng, shape: 1.0 * rng.poisson(3, shape), (0, 20), 0),
    Column("Likert with a peak", share_of(1, [3, 5, 7, 55, 15, 10, 5]), (1, 7), 0),
    Column("years", lambda rng, shape: rng.normal(1975, 14, shape).round(), (1900, 2030), 0),
    Column(
        "counts, 60% zeros",
        lambda rng, shape: rng.geometric(0.15, shape) * (rng.random(shape) > 0.6),
        (0, 100),
        0,
    ),
    Column("cents", lambda rng, shape: rng.lognormal(3, 1, shape).round(2), (0, 10_000), 2),
    Column("N(0, 5)", lambda rng, shape: rng.normal(0, 5, shape), (-100, 100)),
    Column("lognormal(0, 1)", lambda rng, shape: rng.lognormal(0, 1, shape), (0, 1000)),
    Column("uniform(0, 1)", lambda rng, shape: rng.uniform(0, 1, shape), (0, 1)),
    Column("exponential(1)", lambda rng, shape: rng.exponential(1, shape), (0, 100)),
    Column("Cauchy", lambda rng, shape: rng.standard_cauchy(shape), (-10_000, 10_000)),
]
KNOWLEDGE = ("nothing", "bounds", "decimals", "both", "prior")
# Rows, and the eps of a column: a table of 12 columns at eps = 1, and one of 4.
SETTINGS = ((1000, 1 / 12), (300, 1 / 4))
N_COLUMNS = 20  # of a table of one kind, which share 20 times that eps
N_PUBLIC_ROWS = 100


def hours_of_census(folder):
    """Return the column of hours a week, or None, if the folder does not have it."""
    path = folder and folder / "adult_hours.csv"
    if not path or not path.exists():
        print("hours: no adult_hours.csv in --data, skipped")
        return None
    hours = np.loadtxt(path, skiprows=1)
    return Column("hours", lambda rng, shape: rng.choice(hours, shape), (0, 100), 0)


def options_of(column, knowledge, public_rows):
    """Return the parameters that say what is known, or None if that cannot be said."""
    known = {}
    if knowledge in ("bounds", "both"):
        known["bounds"] = column.bounds
    if knowledge in ("decimals", "both"):
        if column.decimals is None:
            return None
        known["decimals"] = column.decimals
    if knowledge == "prior":
        known["prior"] = public_rows
    return known


def errors_of_knowledge(column, knowledge, n_rows, eps, n_fits):
    """Return the error of each column of each fit, or None."""
    q = np.arange(1, N_BINS) / N_BINS
    errors = []
    for fit in range(n_fits):
        rng = np.random.default_rng(fit)
        X = column.sample(rng, (n_rows, N_COLUMNS)).clip(*column.bounds)
        public_rows = column.sample(rng, (N_PUBLIC_ROWS, N_COLUMNS)).clip(*column.bounds)
        known = options_of(column, knowledge, public_rows)
        if known is None:
            return None

        fitted = DPQuantileTransformer(q.size, eps=N_COLUMNS * eps, **known).fit(X)
        quantiles = fitted.quantiles_[np.searchsorted(fitted.references_, q - 1e-9)]
        errors += [errors_of_column(x, v)[0] for x, v in zip(X.T, quantiles.T, strict=True)]
    return np.array(errors)


def print_columns(n_fits, folder):
    hours = hours_of_census(folder)
    columns = COLUMNS + ([hours] if hours else [])
    for n_rows, eps in SETTINGS:
        print(
            f"\n{n_rows:,} rows, eps = {eps:.3f} a column, {n_fits * N_COLUMNS} columns each: "
            "error as a share of the rows, and its s.e."
        )
        print(
            f"{'':18} " + "".join(f"{name:>16}" for name in KNOWLEDGE) + f"{'bounds/nothing':>16}"
        )
        ratios = {}
        for column in columns:
            found = [errors_of_knowledge(column, k, n_rows, eps, n_fits) for k in KNOWLEDGE]
            means = [np.nan if errors is None else errors.mean() for errors in found]
            cells = [
                "-" if errors is None else f"{errors.mean():.4f} {standard_error(errors):.4f}"
                for errors in found
            ]
            ratios[column.name] = means[1] / means[0]
            ratio = f"{ratios[column.name]:.2f}"
            print(f"{column.name:18} " + "".join(f"{c:>16}" for c in cells) + f"{ratio:>16}")
        worst = max(ratios, key=ratios.get)
        print(f"bounds against nothing: at most {ratios[worst]:.2f} ({worst})")


def standard_error(errors):
    return errors.std(ddof=1) / np.sqrt(errors.size)


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
    parser.add_argument("--skip-tables", action="store_true")
    parser.add_argument("--skip-columns", action="store_true")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--data", type=Path, help="folder with adult_hours.csv")
    parser.add_argument("--figures", type=Path, help="folder for the figure")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyNoiseWarning)
    warnings.filterwarnings("ignore", module="sklearn")
    if not arguments.skip_tables:
        print_accuracy(arguments.fits)
    if not arguments.skip_columns:
        print_columns(arguments.fits, arguments.data)
    if not arguments.skip_speed:
        print_speed()
    if arguments.figures is not None:
        plt.switch_backend("agg")
        save_small(draw_accuracy(arguments.fits), arguments.figures / "small_data.png")


if __name__ == "__main__":
    main()
