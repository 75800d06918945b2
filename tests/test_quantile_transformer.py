"""DPQuantileTransformer beside sklearn's exact QuantileTransformer."""

import numpy as np
import pytest
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import QuantileTransformer

from dpq_sklearn import DPQuantileTransformer
from dpq_sklearn.estimators.quantile_transformer import TAIL_KNOTS, knot_references, knot_values

OPEN = (-np.inf, np.inf)


def knots_of(quantiles, bounds):
    """The knots of one feature."""
    return knot_values(np.array([quantiles]), np.array([bounds]))[0]


COLUMNS = {
    "normal": lambda rng: rng.normal(size=3000),
    "skewed": lambda rng: rng.lognormal(10, 2, size=3000),
    "integers": lambda rng: rng.integers(0, 500, 3000).astype(float),
    "zero-inflated": lambda rng: rng.lognormal(size=3000) * (rng.random(3000) < 0.5),
    "constant": lambda rng: np.full(3000, 4.0),
    "two values": lambda rng: rng.integers(0, 2, 3000).astype(float),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("output_distribution", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exported_transformer_transforms_alike_to_the_last_bit(
    column, output_distribution, dtype, rng
):
    X = np.column_stack((column(rng), rng.normal(size=3000))).astype(dtype)
    ours = DPQuantileTransformer(output_distribution=output_distribution, random_state=0).fit(X)
    plain = ours.to_sklearn()
    assert type(plain) is QuantileTransformer
    knots = ours.quantiles_.astype(dtype)
    probes = np.concatenate((X, knots, np.nextafter(knots, dtype(np.inf)), 3 * X))
    mine, theirs = ours.transform(probes), plain.transform(probes)
    assert mine.dtype == theirs.dtype == dtype
    assert np.array_equal(mine, theirs)
    assert np.array_equal(ours.inverse_transform(mine), plain.inverse_transform(theirs))


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_without_noise_it_agrees_with_sklearn(column, rng):
    """Inside the outermost quantiles; beyond them sklearn goes to the extremes of the data."""
    X = column(rng)[:, None]
    ours = DPQuantileTransformer(63, eps=1e6).fit(X)
    theirs = QuantileTransformer(n_quantiles=65, subsample=None).fit(X)
    mine, exact = ours.transform(X), theirs.transform(X)
    inside = (exact > 2 / 64) & (exact < 1 - 2 / 64)
    assert np.abs(mine - exact)[inside].max(initial=0) < 1.5 / 64
    assert np.abs(mine - exact).max() < 3 / 64 or np.unique(X).size < 2000


def test_uniform_output_is_uniform_and_normal_output_is_normal(rng):
    X = rng.lognormal(size=(20_000, 1))
    for output_distribution in ("uniform", "normal"):
        est = DPQuantileTransformer(
            output_distribution=output_distribution, eps=5.0, random_state=0
        )
        out = est.fit_transform(X)[:, 0]
        reference = stats.uniform() if output_distribution == "uniform" else stats.norm()
        assert stats.kstest(out, reference.cdf).statistic < 0.02


def test_tails_are_strictly_monotone_and_have_no_spikes(rng):
    X = rng.normal(size=(20_000, 1))
    est = DPQuantileTransformer(eps=1.0, random_state=0).fit(X)
    out = est.transform(X)[:, 0]
    assert np.mean((out == 0) | (out == 1)) < 0.002
    low, high = est.quantiles_[[0, -1], 0]
    inside = np.linspace(low, high, 2000)[:, None]
    assert np.all(np.diff(est.transform(inside)[:, 0]) > 0)
    est.set_params(output_distribution="normal")
    ends = np.abs(est.transform(X)) > 5.1
    assert ends.mean() < 0.002


def test_knots_of_an_unbounded_tail_halve_the_mass_every_gap():
    q = np.arange(1, 4) / 4
    values, references = knots_of(np.array([10.0, 12.0, 15.0]), OPEN), knot_references(q)
    assert values.size == references.size == 3 + 2 * (TAIL_KNOTS + 1)
    assert np.allclose(np.diff(values[: TAIL_KNOTS + 2]), 2.0)
    assert np.allclose(np.diff(values[-TAIL_KNOTS - 2 :]), 3.0)
    assert references[[0, -1]].tolist() == [0.0, 1.0]
    assert references[TAIL_KNOTS] == 0.125 and references[1] == 0.25 * 2.0**-TAIL_KNOTS


@pytest.mark.parametrize(
    ("bounds", "ends"),
    [
        ((0.0, 40.0), (0.0, 40.0)),
        ((9.0, 15.5), (9.0, 15.5)),
        ((10.0, 15.0), (10.0, 15.0)),
        ((0.0, 1e6), (0.0, 48.0)),
        ((-1e300, 1e300), (-12.0, 48.0)),
        ((0.0, np.inf), (0.0, 48.0)),
        ((-np.inf, 16.0), (-12.0, 16.0)),
        ((-np.inf, np.inf), (-12.0, 48.0)),
    ],
)
def test_bounded_tails_end_at_the_bounds_or_before(bounds, ends):
    values = knots_of(np.array([10.0, 12.0, 15.0]), bounds)
    assert (values[0], values[-1]) == ends
    assert np.all(np.diff(values) >= 0)
    if bounds[0] < 10.0:
        assert np.all(np.diff(values[: TAIL_KNOTS + 2]) > 0)


def test_a_bound_far_away_leaves_the_tail_as_it_is():
    quantiles = np.array([10.0, 12.0, 15.0])
    assert np.allclose(knots_of(quantiles, (-1e5, 1e5)), knots_of(quantiles, OPEN))
    one_sided = knots_of(quantiles, (0.0, np.inf))
    assert np.array_equal(one_sided[14:], knots_of(quantiles, OPEN)[14:])


@pytest.mark.parametrize("bounds", [(0.0, 1000.0), (0.0, 1e9)])
def test_inverse_of_a_far_tail_does_not_run_to_a_wide_bound(bounds, rng):
    X = rng.lognormal(size=(20_000, 1))
    far = [[4.0], [5.0], [6.0]]
    for n_quantiles in (7, 15, 63):
        est = DPQuantileTransformer(n_quantiles, output_distribution="normal", eps=1e6)
        without = est.fit(X).inverse_transform(far)
        within = est.set_params(bounds=bounds).fit(X).inverse_transform(far)
        assert np.allclose(within, without, rtol=0.01)
        assert np.all(within < 60)


@pytest.mark.parametrize("bounds", [None, (0.0, 12.0), (0.0, 500.0), (0.0, 1e6)])
def test_transform_is_monotone_up_to_the_bounds_and_beyond(bounds, rng):
    X = rng.exponential(size=(5000, 2))
    X[:, 1] = np.minimum(X[:, 1].round(), 2.0)  # atoms at both ends
    probes = np.sort(np.concatenate((X, np.geomspace(0.01, 1e7, 500)[:, None] * [1, 1])), axis=0)
    est = DPQuantileTransformer(15, bounds=bounds, eps=100.0, random_state=0).fit(X)
    assert np.array_equal(est.transform(probes), est.to_sklearn().transform(probes))
    assert np.all(np.diff(est.transform(probes), axis=0) >= 0)
    assert np.all(est.transform(probes)[-1] == 1.0)
    shares = np.linspace(0, 1, 2000)[:, None] * [1, 1]
    assert np.all(np.diff(est.inverse_transform(shares), axis=0) >= 0)


def test_bounds_beyond_an_atom_at_the_end_keep_what_lies_between_apart():
    quantiles = np.array([1.0, 2.0, 3.0, 3.0])
    assert knots_of(quantiles, OPEN)[-1] == 3.0
    assert knots_of(quantiles, (0.0, 5.0))[-1] == 5.0
    assert knots_of(quantiles, (0.0, 1e6))[-1] < 12.0
    assert np.all(knots_of(np.full(4, 7.0), (0.0, 1e6)) == 7.0)


def test_regression_on_a_transformed_target_works_with_wide_bounds(rng):
    X = rng.normal(size=(2000, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=2000))
    private = DPQuantileTransformer(output_distribution="normal", eps=100.0, random_state=0)
    scores = []
    for bounds in (None, (0.0, 1e4)):
        target = private.set_params(bounds=bounds)
        model = TransformedTargetRegressor(LinearRegression(), transformer=target).fit(X, y)
        assert model.predict(2 * X).max() < 3 * y.max()
        scores.append(model.score(X, y))
    assert scores[0] > 0.5 and scores[1] > scores[0] - 0.05


def test_a_tail_that_is_short_beside_its_gap_is_nearly_uniform():
    values = knots_of(np.array([0.5, 1.5, 2.5]), (0.0, 3.0))
    half = values[TAIL_KNOTS]  # half of the tail's mass lies below
    assert half == pytest.approx(0.25, abs=0.03)


def test_missing_and_infinite_values(rng):
    est = DPQuantileTransformer(7, random_state=0).fit(rng.normal(size=(500, 1)))
    X = np.array([[np.nan], [-np.inf], [np.inf], [0.0]])
    out = est.transform(X)
    assert np.isnan(out[0, 0]) and out[1, 0] == 0.0 and out[2, 0] == 1.0
    back = est.inverse_transform(out)
    assert np.isnan(back[0, 0]) and np.isfinite(back[1:]).all()
    normal = est.set_params(output_distribution="normal").transform(X)
    assert normal[1, 0] == pytest.approx(-normal[2, 0]) and normal[1, 0] < -5


def test_inverse_undoes_transform(rng):
    X = rng.normal(size=(10_000, 2))
    for output_distribution in ("uniform", "normal"):
        est = DPQuantileTransformer(output_distribution=output_distribution, random_state=0).fit(X)
        assert np.all(np.diff(est.quantiles_, axis=0) > 1e-4)  # no jump, which has no inverse
        back = est.inverse_transform(est.transform(X))
        low, high = est.quantiles_[0], est.quantiles_[-1]
        inside = np.abs(X - (low + high) / 2) < (high - low) / 2 - 0.5
        assert np.allclose(back[inside], X[inside])


def test_copy_false_works_in_place(rng):
    X = rng.normal(size=(100, 2))
    est = DPQuantileTransformer(copy=False, random_state=0).fit(X)
    out = est.transform(X)
    assert np.shares_memory(out, X)


@pytest.mark.parametrize("n_quantiles", [1, 0, 2.5, "7"])
def test_impossible_numbers_of_quantiles_raise(n_quantiles, rng):
    with pytest.raises(ValueError, match="n_quantiles"):
        DPQuantileTransformer(n_quantiles).fit(rng.normal(size=(10, 2)))


def test_number_of_quantiles_does_not_depend_on_the_rows():
    for rows in (1, 5, 100):
        est = DPQuantileTransformer(63).fit(np.arange(rows, dtype=float)[:, None])
        assert est.quantiles_.shape == (63 + 2 * (TAIL_KNOTS + 1), 1)


def test_wrong_number_of_features_in_inverse_raises(rng):
    est = DPQuantileTransformer(7).fit(rng.normal(size=(10, 2)))
    with pytest.raises(ValueError, match="X has 1 features, but 2 are expected"):
        est.inverse_transform([[0.5]])


def test_skops_loads_the_exported_object_without_trusting_new_types(rng, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    plain = DPQuantileTransformer(7).fit(rng.normal(size=(100, 2))).to_sklearn()
    skops_io.dump(plain, tmp_path / "cdf.skops")
    assert skops_io.get_untrusted_types(file=tmp_path / "cdf.skops") == []


@pytest.mark.slow
def test_onnx_converts_the_exported_object(rng):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X = rng.normal(size=(200, 2)).astype(np.float32)
    plain = DPQuantileTransformer(15, random_state=0).fit(X).to_sklearn()
    model = skl2onnx.to_onnx(plain, X[:1])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (out,) = session.run(None, {session.get_inputs()[0].name: X})
    assert np.abs(out - plain.transform(X)).max() < 1e-3


@pytest.mark.parametrize("n_quantiles", [7, "auto"])
def test_the_number_of_private_quantiles_is_an_attribute(rng, n_quantiles):
    transformer = DPQuantileTransformer(n_quantiles, random_state=0).fit(rng.normal(size=(5000, 2)))
    assert transformer.n_quantiles_ == len(transformer.rank_error_)
    assert n_quantiles in ("auto", transformer.n_quantiles_)
