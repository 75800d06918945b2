"""Priors: public rows or earlier releases say where to look, and cost no privacy."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer
from sklearn.tree import DecisionTreeClassifier

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles, sanitize
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.mechanisms.base_measure import LEAST_PLAIN_SHARE, step_measure
from dpq_sklearn.mechanisms.prior import Prior, guesses_of_nodes
from dpq_sklearn.reading.overlap import share_memory
from dpq_sklearn.reading.priors import priors_of_features

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning"),
    pytest.mark.filterwarnings("ignore:The current default behavior:FutureWarning"),
]

TRANSFORMERS = [DPKBinsDiscretizer(5, encode="ordinal"), DPQuantileTransformer(7)]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        (rng.normal(1234, 5, n), rng.lognormal(-6, 0.3, n), rng.poisson(0.5, n).astype(float))
    )


def mean_error(X, edges):
    below = np.array([(x[:, None] < e[1:-1]).mean(axis=0) for x, e in zip(X.T, edges, strict=True)])
    up_to = np.array(
        [(x[:, None] <= e[1:-1]).mean(axis=0) for x, e in zip(X.T, edges, strict=True)]
    )
    wanted = np.arange(1, below.shape[1] + 1) / (below.shape[1] + 1)
    return np.maximum(np.maximum(below - wanted, wanted - up_to), 0).mean()


def errors_of_fits(X, n_fits=30, **options):
    fits = (
        DPKBinsDiscretizer(5, encode="ordinal", random_state=seed, **options).fit(X)
        for seed in range(n_fits)
    )
    return np.mean([mean_error(X, fitted.bin_edges_) for fitted in fits])


def test_a_hundred_public_rows_find_data_that_the_budget_does_not():
    X = rows(300)
    without = errors_of_fits(X, eps=0.5)
    assert errors_of_fits(X, eps=0.5, prior=rows(100, seed=1)) < 0.5 * without


def test_a_wrong_prior_costs_little():
    X = rows(1000)
    without = errors_of_fits(X, eps=2.0)
    assert errors_of_fits(X, eps=2.0, prior=1000 * rows(100, seed=1)) < 1.3 * without


def test_every_kind_of_prior_helps():
    X = rows(300)
    without = errors_of_fits(X, eps=0.3, n_fits=20)
    public = rows(2000, seed=1)
    bins = DPKBinsDiscretizer(8, eps=10, encode="ordinal", random_state=0).fit(public)
    quantiles = DPQuantileTransformer(15, eps=10, random_state=0).fit(public)
    priors = [
        public,
        pd.DataFrame(public),
        bins,
        bins.to_sklearn(),
        quantiles,
        quantiles.to_sklearn(),
    ]
    for prior in priors:
        assert errors_of_fits(X, eps=0.3, n_fits=20, prior=prior) < 0.6 * without


def test_numbers_are_the_prior_of_a_column():
    x = rows(200)[:, 1]
    public = rows(100, seed=1)[:, 1]
    medians = [dp_quantiles(x, 0.5, eps=0.2, prior=public, random_state=i) for i in range(30)]
    assert np.mean([0.3 < np.mean(x < median) < 0.7 for median in medians]) > 0.8
    points = sanitize(x, 5, eps=10.0, prior=public.tolist(), random_state=0)
    is_near = (x.min() / 3 < points) & (points < 3 * x.max())
    assert is_near.sum() >= 4  # at this eps one may land at 0


def test_prior_of_atoms_has_their_values():
    prior = Prior.of_numbers(np.array([0.0] * 80 + [1.0] * 20))
    guesses = guesses_of_nodes([prior], np.array([0]), np.array([0.4]))
    is_zero = (guesses.values[0, :-1] == 0) & (guesses.values[0, 1:] == 0)
    assert guesses.weights[0, is_zero].sum() > 0.8 * guesses.weights[0].sum()


def test_missing_numbers_are_no_part_of_a_prior():
    assert Prior.of_numbers(np.array([np.nan, np.inf])) is None
    with_missing = Prior.of_numbers(np.array([1.0, np.nan, 3.0]))
    assert with_missing == Prior.of_numbers(np.array([1.0, 3.0]))


def test_many_public_rows_are_kept_as_few_numbers():
    prior = Prior.of_numbers(np.random.default_rng(0).normal(size=100_000))
    assert len(prior.values) == 257
    hash(prior)


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, 10.0), (0.0, np.inf)])
@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize(
    "numbers", [[3.0], [1.0, 2.0, 7.5], [1e300, -1e300], [0.0] * 5, [-1.0, 99.0]], ids=str
)
def test_measure_with_a_prior_is_one_and_leaves_no_cell_out(bounds, decimals, numbers):
    grid = make_grid([bounds], 40, [decimals])
    prior = Prior.of_numbers(np.array(numbers))
    closed = np.zeros((2, 3), dtype=bool)
    first, last = grid.first[0], grid.end[0] - 1
    inner = grid.cells_of(np.array([2.0, 6.0]), 0)
    lo = np.array([first, first, inner[0]])
    hi = np.array([last, inner[1], inner[1]])
    is_released = np.array([[False, False, True], [False, True, True]])
    is_open = ~is_released & np.array([grid.is_open_low, grid.is_open_high])
    columns = np.zeros(3, dtype=int)
    guesses = guesses_of_nodes([prior], columns, np.array([0.5, 0.25, 0.9]))
    with np.errstate(all="ignore"):
        arguments = grid, columns, lo, hi, lo, is_open, is_released | closed
        measure = step_measure(*arguments, guesses)
        without = step_measure(*arguments)
    for each in (measure, without):
        sums = (np.diff(each.before, axis=1) * each.densities).sum(axis=1)
        np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
        assert np.isfinite(each.densities).all()
    has_cells = np.diff(measure.cuts, axis=1) > 0
    whole = measure.before[:, -1] - measure.before[:, 0]
    least = np.where(has_cells, measure.densities, np.inf).min(axis=1) * whole
    assert np.all(least >= 0.9 * LEAST_PLAIN_SHARE)


@pytest.mark.parametrize("estimator", TRANSFORMERS)
def test_a_clone_a_search_and_a_pickle_keep_the_prior(estimator):
    X, public = rows(200), rows(100, seed=1)
    fitted = clone(estimator).set_params(random_state=0).fit(public)
    chained = clone(estimator).set_params(prior=fitted, random_state=0)
    assert clone(chained).prior is fitted
    expected = clone(chained).fit(X)._private_values()
    from_pickle = pickle.loads(pickle.dumps(chained)).fit(X)._private_values()
    assert all(map(np.array_equal, expected, from_pickle))
    search = GridSearchCV(
        make_pipeline(chained, DecisionTreeClassifier(max_depth=2)), {}, cv=2, error_score="raise"
    ).fit(X, X[:, 2] > 0)
    assert search.best_estimator_[0].prior is fitted


@pytest.mark.parametrize("estimator", TRANSFORMERS)
def test_batches_and_fits_have_the_same_prior(estimator):
    X, public = rows(200), rows(100, seed=1)
    estimator = clone(estimator).set_params(prior=public, resolution=24, random_state=0)
    one, other = clone(estimator).fit(X), clone(estimator).fit_batches([X[:50], X[50:]])
    assert all(map(np.array_equal, one._private_values(), other._private_values()))


PRIVATE = rows(50)
FRAME = pd.DataFrame(PRIVATE.copy(), columns=["a", "b", "c"])


@pytest.mark.parametrize(
    ("X", "prior"),
    [
        (PRIVATE, PRIVATE),
        (PRIVATE, PRIVATE[:10]),
        (PRIVATE[5:], PRIVATE[::2]),
        (FRAME, FRAME),
        (FRAME, FRAME.iloc[:10]),
        (FRAME.to_numpy(), FRAME),
    ],
    ids=["same", "view", "strides", "frame", "slice", "memory of a frame"],
)
def test_private_rows_are_refused_as_a_prior(X, prior):
    for fit in (DPKBinsDiscretizer(prior=prior).fit, DPQuantileTransformer(prior=prior).fit):
        with pytest.raises(ValueError, match="prior must be public"):
            fit(X)
    with pytest.raises(ValueError, match="prior must be public"):
        DPKBinsDiscretizer(prior=prior).fit_batches([X])


def test_private_numbers_are_refused_as_a_prior():
    x = rows(50)[:, 0]
    for prior in (x, x[3:]):
        with pytest.raises(ValueError, match="prior must be public"):
            dp_quantiles(x, 0.5, prior=prior)


def other_containers():
    """Tables of other kinds with missing values, each with a slice of its last rows."""
    numbers = {"a": [1.0, 2.0, None, *range(50)], "b": [None, *range(52)]}
    nullable = pd.DataFrame(numbers).astype("Int64")
    arrow = pa.table(numbers)
    frame = pl.DataFrame(numbers)
    yield pytest.param(nullable, nullable.iloc[20:], id="Int64")
    of_arrow = nullable.astype("double[pyarrow]")
    yield pytest.param(of_arrow, of_arrow.iloc[20:], id="Arrow in pandas")
    yield pytest.param(arrow, arrow.slice(20), id="Arrow")
    yield pytest.param(arrow.to_batches()[0], arrow.slice(20), id="batch of Arrow")
    yield pytest.param(pa.concat_tables([arrow, arrow]), arrow.slice(20), id="chunks of Arrow")
    yield pytest.param(frame, frame[20:], id="polars")
    yield pytest.param(pl.concat([frame, frame], rechunk=False), frame[20:], id="chunks of polars")
    yield pytest.param(frame.to_arrow(), frame[20:], id="memory of polars")
    flags = frame.select(pl.all() > 3)
    yield pytest.param(flags, flags[20:], id="booleans of polars")
    categories = nullable.fillna(0).astype("category")
    yield pytest.param(categories, categories.iloc[20:], id="categories")


@pytest.mark.parametrize(("X", "part"), list(other_containers()))
def test_memory_of_other_containers_is_seen(X, part):
    assert share_memory(X, part)
    assert not share_memory(X, pickle.loads(pickle.dumps(part)))
    for prior in (X, part):
        with pytest.raises(ValueError, match="prior must be public"):
            DPKBinsDiscretizer(3, prior=prior).fit(X)


@pytest.mark.parametrize("column", [pl.Series, pa.array, pd.array])
def test_memory_of_other_columns_is_seen(column):
    x = column([1.0, None, *range(50)])
    for prior in (x, x[5:]):
        with pytest.raises(ValueError, match="prior must be public"):
            dp_quantiles(x, 0.5, prior=prior)
    dp_quantiles(x[:20], 0.5, prior=x[20:])


def test_parts_of_one_array_may_be_public_and_private():
    both = rows(200)
    DPKBinsDiscretizer(prior=both[:100]).fit(both[100:])
    frame = pd.DataFrame(both)
    DPKBinsDiscretizer(prior=frame.iloc[:100]).fit(frame.iloc[100:])
    for table in (pl.DataFrame(both), pa.table(frame.rename(columns=str))):
        DPKBinsDiscretizer(prior=table[:100]).fit(table[100:])


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (rows(9)[:, :2], "prior must have the 3 columns of X, got 2"),
        (pd.DataFrame(rows(9), columns=list("acb")), "by the same names in the same order"),
        (KBinsDiscretizer(3, strategy="uniform").fit(rows(99)), "that scikit-learn has fitted"),
        (QuantileTransformer(n_quantiles=9).fit(rows(99)), "that scikit-learn has fitted"),
        (DecisionTreeClassifier().fit(rows(9), [0, 1, 1] * 3), "prior must be public rows, a fit"),
    ],
)
def test_what_is_no_prior_is_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        DPKBinsDiscretizer(prior=prior).fit(pd.DataFrame(rows(30), columns=list("abc")))


def test_a_prior_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        DPKBinsDiscretizer(prior=DPKBinsDiscretizer()).fit(rows(30))


def test_mechanisms_without_a_base_measure_take_no_prior():
    with pytest.raises(ValueError, match="prior must be None for mechanism="):
        DPKBinsDiscretizer(mechanism="agg_tree", prior=rows(20)).fit(rows(30))


@pytest.mark.parametrize("private", [DPKBinsDiscretizer(5), DPQuantileTransformer(9)])
def test_an_export_is_a_prior_until_scikit_learn_fits_it_again(private):
    X = rows(500)[:, :2]  # scikit-learn would warn of the ties in the third column
    plain = private.fit(X).to_sklearn()
    assert len(priors_of_features(pickle.loads(pickle.dumps(plain)), 2)) == 2
    with pytest.raises(ValueError, match="that scikit-learn has fitted"):
        priors_of_features(plain.fit(X), 2)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_the_private_numbers_themselves_are_refused_whatever_holds_them(kind, rng):
    x = kind(rng.normal(size=100).tolist())
    with pytest.raises(ValueError, match="prior must be public"):
        dp_quantiles(x, 0.5, prior=x)
