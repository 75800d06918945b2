"""scikit-learn's own checks, with no exemption, and those that it leaves to its own test suite."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPQuantileTransformer,
    DPRobustScaler,
)

ESTIMATORS = [
    DPKBinsDiscretizer(),
    DPKBinsDiscretizer(encode="onehot-dense"),
    DPKBinsDiscretizer(encode="ordinal"),
    DPKBinsDiscretizer(encode="ordinal", n_bins=8, bounds=(-10, 10)),
    DPKBinsDiscretizer(encode="ordinal", strategy="uniform"),
    DPKBinsDiscretizer(encode="ordinal", strategy="auto", bounds=(-10, 10), n_bins="auto"),
    DPKBinsDiscretizer(encode="ordinal", delta=1e-6),
    DPKBinsDiscretizer(encode="ordinal", eps=None, rho=0.5),
    DPQuantileTransformer(),
    DPQuantileTransformer(output_distribution="normal"),
    DPQuantileTransformer(bounds=(-10, 10)),
    DPQuantileTransformer(delta=1e-6),
    DPQuantileTransformer(eps=None, rho=0.5, n_quantiles=7),
    DPRobustScaler(),
    DPRobustScaler(bounds=(-10, 10), unit_variance=True, clip=5),
    DPRobustScaler(delta=1e-6, with_centering=False),
    DPOneHotEncoder(),
    DPOneHotEncoder(eps=20.0, delta=0.9, drop="if_binary", sparse_output=False),
    DPOrdinalEncoder(),
    DPOrdinalEncoder(eps=20.0, delta=0.9, unknown_value=np.nan),
]

# Not part of parametrize_with_checks, but expected of every estimator in scikit-learn.
EXTRA_CHECKS = [
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_dataframe_column_names_consistency",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_get_feature_names_out_error",
    "check_inplace_ensure_writeable",
]


CHECKS = parametrize_with_checks(ESTIMATORS)


# A list of them: older versions of scikit-learn pass a generator, which pytest deprecates.
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_the_checks_are_many_and_none_is_skipped():
    for estimator in ESTIMATORS:
        names = [
            getattr(check, "func", check).__name__
            for _, check in estimator_checks.estimator_checks_generator(
                estimator, legacy=True, mark="skip"
            )
        ]
        assert len(names) >= 40
        assert "check_fit_idempotent" in names
        assert "check_transformer_preserve_dtypes" in names
        tags = estimator.__sklearn_tags__()
        assert not tags._skip_test and not tags.no_validation and not tags.non_deterministic


# The set_output checks mix DataFrames and arrays on purpose.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("name", EXTRA_CHECKS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_extra_sklearn_checks(estimator, name):
    check = getattr(estimator_checks, name)
    estimator = clone(estimator)
    if "random_state" in inspect.signature(type(estimator)).parameters:
        estimator.set_params(random_state=0)
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_sparse_output_in_a_dataframe_raises_as_sklearn_does(container):
    X = np.random.default_rng(0).normal(size=(100, 2))
    messages = []
    for estimator in (DPKBinsDiscretizer(), KBinsDiscretizer(strategy="uniform")):
        with pytest.raises(ValueError) as error:
            estimator.set_output(transform=container).fit_transform(X)
        messages.append(str(error.value))
    beginning = "The transformer outputs a scipy sparse matrix. "
    assert all(message.startswith(beginning) for message in messages)
