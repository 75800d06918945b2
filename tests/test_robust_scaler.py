"""DPRobustScaler: what scikit-learn's RobustScaler does, with private quantiles."""

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import RobustScaler

from dpq_sklearn import DPQuantileDisplay, DPRobustScaler, PrivacyLedger, plan_search

SETTINGS = [
    {},
    {"with_centering": False},
    {"with_scaling": False},
    {"quantile_range": (10.0, 90.0)},
    {"unit_variance": True},
    {"quantile_range": (5, 95), "unit_variance": True, "with_centering": False},
]


@pytest.fixture
def X(rng):
    return rng.normal([0, 100, -5], [1, 20, 0.1], size=(20_000, 3))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_with_plenty_of_budget_it_is_the_exact_scaler(X, settings):
    private = DPRobustScaler(eps=1000.0, **settings).fit(X)
    exact = RobustScaler(**settings).fit(X)
    np.testing.assert_allclose(private.transform(X), exact.transform(X), atol=0.02, rtol=2e-3)
    for name in ("center_", "scale_"):
        ours, theirs = getattr(private, name), getattr(exact, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("settings", [*SETTINGS, {"clip": 2.0}], ids=str)
def test_the_plain_scaler_does_the_same(X, settings):
    X[0, 0] = np.nan
    private = DPRobustScaler(**settings).fit(X)
    plain = private.to_sklearn()
    assert isinstance(plain, Pipeline if "clip" in settings else RobustScaler)
    np.testing.assert_allclose(plain.transform(X), private.transform(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_inverse_transform_maps_back(X, settings):
    private = DPRobustScaler(**settings).fit(X)
    np.testing.assert_allclose(private.inverse_transform(private.transform(X)), X)


def test_a_clip_bounds_the_norm_of_a_row(X):
    X[:3] = [[np.inf, 1e300, -np.inf], [0, 100, 1e9], [-1e9, 0, 0]]
    scaled = DPRobustScaler(clip=1.5).fit_transform(X)
    assert np.abs(scaled).max() == 1.5
    assert np.linalg.norm(scaled, axis=1).max() <= 1.5 * np.sqrt(3) * (1 + 1e-12)


def test_only_the_quantiles_that_are_needed_are_released(X):
    sizes = {
        str(settings): DPRobustScaler(**settings).fit(X).quantiles_.shape[0]
        for settings in SETTINGS[:3]
    }
    assert list(sizes.values()) == [3, 2, 1]
    # A range that ends at the median needs no third quantile.
    assert DPRobustScaler(quantile_range=(25, 50)).fit(X).quantiles_.shape[0] == 2


def test_a_column_of_one_value_is_not_divided_by_zero():
    X = np.full((500, 1), 7.0)
    private = DPRobustScaler(eps=100.0).fit(X)
    assert private.scale_.tolist() == [1.0]
    assert private.transform(X).tolist() == [[0.0]] * 500


@pytest.mark.parametrize("copy", [True, False])
def test_copy_says_whether_rows_are_overwritten(X, copy):
    private = DPRobustScaler(copy=copy).fit(X)
    before = X.copy()
    scaled = private.transform(X)
    assert np.shares_memory(scaled, X) == (not copy)
    assert np.array_equal(before, X) == copy


@pytest.mark.parametrize(
    "quantile_range", [(75, 25), (0, 50), (50, 100), (50,), (25, 50, 75), ("a", "b"), (50, 50)]
)
def test_quantile_ranges_are_checked_before_anything_is_spent(X, quantile_range):
    ledger = PrivacyLedger(eps=1)
    with pytest.raises(ValueError, match="quantile_range must be a pair"):
        DPRobustScaler(quantile_range=quantile_range, ledger=ledger).fit(X)
    assert ledger.spent().eps == 0


def test_a_scaler_that_does_nothing_is_refused(X):
    with pytest.raises(ValueError, match="with_centering or with_scaling must be True"):
        DPRobustScaler(with_centering=False, with_scaling=False).fit(X)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("budget", [{}, {"delta": 1e-6}, {"eps": None, "rho": 0.1}], ids=str)
def test_the_cost_is_what_was_planned(X, settings, budget):
    scaler = DPRobustScaler(**settings, **budget)
    spent = scaler.fit(X).privacy_
    planned = plan_search(scaler, n_features=3).total
    for unit in ("eps", "delta", "rho", "pure_eps"):
        assert getattr(spent, unit) == getattr(planned, unit)


def test_reports_warn_and_judge_like_the_others(X):
    report = DPRobustScaler().fit(X).quality_report()
    assert list(report["bins"]) == [4, 4, 4]
    assert set(report["verdict"]) == {"good"}


def test_rows_far_outside_become_infinite_without_a_warning(X):
    scaler = DPRobustScaler(random_state=0).fit(1e-9 * X)
    far = np.full((1, X.shape[1]), 1e308)
    with np.errstate(all="raise"):
        assert np.isinf(scaler.transform(far)).all()
        scaler.set_params(clip=1.0)
        assert (scaler.transform(far) == 1.0).all()


def test_a_fitted_scaler_is_a_prior_and_can_be_drawn(X):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    fitted = DPRobustScaler().fit(X)
    assert fitted.references_.tolist() == [0.25, 0.5, 0.75]
    again = DPRobustScaler(prior=fitted, eps=0.1).fit(X)
    np.testing.assert_allclose(again.quantiles_, fitted.quantiles_, rtol=0.1, atol=0.1)
    assert DPQuantileDisplay.from_estimator(fitted, feature=0).values.size == 3
