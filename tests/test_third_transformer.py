"""A new transformer is one class that says which quantiles it wants, and what it makes of them."""

import warnings

import numpy as np
import pytest
from sklearn.base import OneToOneFeatureMixin
from sklearn.preprocessing import RobustScaler

from dpq_sklearn import PrivacyLedger, PrivacyNoiseWarning, plan_search
from dpq_sklearn.estimators import compat
from dpq_sklearn.estimators.private_quantiles import PrivateQuantileTransformer
from dpq_sklearn.reading.containers import checked_table

QUARTILES = (0.25, 0.5, 0.75)


class Scaler(OneToOneFeatureMixin, PrivateQuantileTransformer):
    """Centre by the private median, scale by the private quartiles."""

    _quantiles_parameter = "quantile_range"
    _parameter_constraints = PrivateQuantileTransformer._parameter_constraints

    def __init__(self, *, eps=1.0, delta=0.0, rho=None, ledger=None, random_state=None):
        for name in self._parameter_constraints:  # those that all transformers have
            setattr(self, name, None)
        self.quantile_range = (25.0, 75.0)
        self.mechanism = "aq"
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.random_state = random_state
        self.ledger = ledger

    def _candidate_probabilities(self, n_features, names):
        return [[QUARTILES] * n_features]

    def _set_values(self, released):
        low, self.center_, high = np.array(released.values).T
        self.scale_ = high - low

    def _private_values(self):
        return [np.array([c - s / 2, c, c + s / 2]) for c, s in zip(self.center_, self.scale_)]  # noqa: B905

    def _transform_rows(self, X):
        X = compat.checked_matrix(self._checked_table(X, reset=False))
        return (X - self.center_) / self.scale_

    def _inverse_transform_rows(self, X):
        return compat.checked_matrix(checked_table(X)) * self.scale_ + self.center_

    def _plain(self):
        plain = RobustScaler().fit(np.zeros((2, self.n_features_in_)))
        plain.center_, plain.scale_ = self.center_, self.scale_
        return plain


@pytest.fixture
def X(rng):
    return rng.normal((10.0, -3.0), (2.0, 0.1), size=(20_000, 2))


@pytest.mark.parametrize("batches", [False, True])
def test_it_fits_transforms_and_pays(X, batches):
    ledger = PrivacyLedger(eps=1.0)
    scaler = Scaler(ledger=ledger, random_state=0)
    assert plan_search(scaler).total.eps == 1.0
    scaler = scaler.fit_batches(np.array_split(X, 3)) if batches else scaler.fit(X)
    assert scaler.center_ == pytest.approx([10.0, -3.0], abs=0.1)
    Z = scaler.transform(X)
    assert pytest.approx(scaler.to_sklearn().transform(X)) == Z
    assert scaler.inverse_transform(Z) == pytest.approx(X)
    (record,) = ledger.records()
    assert (record.what, record.eps) == (f"Scaler.fit{'_batches' * batches}", 1.0)
    assert record.detail == "quantile_range=(25.0, 75.0)"
    assert set(scaler.quality_report()["verdict"]) == {"good"}


def test_its_warning_knows_no_smaller_number_of_quantiles(X):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Scaler(eps=0.01, random_state=0).fit(X[:100])
    (warning,) = seen
    assert warning.category is PrivacyNoiseWarning
    assert "delta=1e-6" in str(warning.message) and "fewer features" in str(warning.message)
    assert "quantile" not in str(warning.message)
