"""scikit-learn's own tests of its two transformers, run against ours with next to no noise.

The tests are those of the installed scikit-learn. In their modules its classes are replaced by
ours, with a huge eps and the extremes of each test's data as public bounds, since scikit-learn's
outermost edges and quantiles are these. What is left out is left out by name, with the reason;
everything else has to pass.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing.tests import test_data, test_discretization

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer

# Any number between 2 and 3 is a median of 1, 2, 3, 4, and scikit-learn's tests want some of them.
# With this seed ours are among these.
SEED = 1
NO_WEIGHTS = "no sample_weight: a weight of 2 would be cut to 1"
NO_SUBSAMPLE = "no subsample: all rows are read"
NO_SPARSE = "no sparse input: implicit zeros would be read as data"
BINS_STAY = "the number of bins, and whether it warns, must not depend on the data"
TAILS = "beyond the outermost private quantiles there are knots for the tails"
LEFT_OUT = {
    "test_KBD_inverse_transform_Xt_deprecation": "no argument Xt, which was deprecated",
    "test_invalid_n_bins_array": "n_bins is refused in words of our own",
    "test_invalid_quantile_method_with_sample_weight": NO_WEIGHTS,
    "test_kbinsdiscretizer_effect_sample_weight": NO_WEIGHTS,
    "test_kbinsdiscretizer_no_mutating_sample_weight": NO_WEIGHTS,
    "test_kbinsdiscretizer_wrong_strategy_with_weights": NO_WEIGHTS,
    "test_kbinsdiscretizer_subsample": NO_SUBSAMPLE,
    "test_kbinsdiscretizer_subsample_default": NO_SUBSAMPLE,
    "test_percentile_numeric_stability": BINS_STAY,
    "test_redundant_bins": BINS_STAY,
    "test_same_min_max": BINS_STAY,
    "test_quantile_transform_axis1": "of a function that uses scikit-learn's own class",
    "test_quantile_transform_bounds": TAILS,
    "test_quantile_transform_check_error": NO_SPARSE,
    "test_quantile_transform_nan": "that a feature is all NaN must not be told",
    "test_quantile_transform_sparse_ignore_zeros": NO_SPARSE,
    "test_quantile_transform_subsampling": NO_SUBSAMPLE,
    "test_quantile_transform_subsampling_disabled": TAILS,
    "test_quantile_transformer_sorted_quantiles": TAILS,
    "test_quantile_transformer_sparse_subsampling": NO_SPARSE,
}


PASSED = {
    "test_32_equal_64",
    "test_consistent_dtype",
    "test_encode_options",
    "test_fit_transform",
    "test_fit_transform_n_bins_array",
    "test_inverse_transform",
    "test_kbinsdiscrtizer_get_feature_names_out",
    "test_nonuniform_strategies",
    "test_numeric_stability",
    "test_overwrite",
    "test_quantile_transform_and_inverse",
    "test_quantile_transform_dense_toy",
    "test_quantile_transform_iris",
    "test_quantile_transform_sparse_toy",
    "test_transform_1d_behavior",
    "test_transform_outside_fit_range",
    "test_valid_n_bins",
}


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def like(X, transformed):
    return type(X)(transformed) if sparse.issparse(X) else transformed


def extremes(X):
    """The extremes of each column, which a test of ours may take for public bounds."""
    X = np.asarray(dense(X), dtype=float)
    if X.ndim != 2:
        return None
    pairs = zip(X.min(axis=0), X.max(axis=0), strict=True)
    return [(low, high) if low < high else None for low, high in pairs]


class OurDiscretizer(DPKBinsDiscretizer):
    def fit(self, X, y=None, sample_weight=None):
        assert sample_weight is None
        self.bounds = extremes(X)
        return super().fit(X)


class OurTransformer(DPQuantileTransformer):
    """Takes sparse matrices too, for their numbers: ours does not."""

    def fit(self, X, y=None):
        self.bounds = extremes(X)
        return super().fit(dense(X))

    def transform(self, X):
        return like(X, super().transform(dense(X)))

    def inverse_transform(self, X):
        return like(X, super().inverse_transform(dense(X)))


def our_discretizer(n_bins=5, *, strategy="quantile", quantile_method=None, **parameters):
    assert strategy == "quantile"
    return OurDiscretizer(n_bins, **{"eps": 1e6, "random_state": SEED, **parameters})


def our_transformer(n_quantiles=1000, **parameters):
    # scikit-learn counts the extremes as quantiles.
    return OurTransformer(n_quantiles - 2, **{"eps": 1e6, "random_state": SEED, **parameters})


@pytest.fixture(autouse=True)
def ours_for_theirs(request, monkeypatch):
    """Replace scikit-learn's classes by ours, and check that the test uses them."""
    uses = []

    def counted(make):
        return lambda *args, **kwargs: uses.append(make) or make(*args, **kwargs)

    monkeypatch.setattr(test_discretization, "KBinsDiscretizer", counted(our_discretizer))
    monkeypatch.setattr(test_data, "QuantileTransformer", counted(our_transformer))
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    if request.node.originalname in LEFT_OUT:
        pytest.skip(LEFT_OUT[request.node.originalname])
    if parameters.get("strategy", "quantile") != "quantile":
        pytest.skip(
            "other strategies take no range from the data, and ours are not centred by k-means"
        )
    if parameters.get("sample_weight") is not None:
        pytest.skip(NO_WEIGHTS)
    yield
    assert uses or request.node.originalname.startswith("test_our")


@pytest.fixture
def global_random_seed():
    """The fixture of scikit-learn's own conftest."""
    return 0


THEIRS = {
    name: test
    for module in (test_discretization, test_data)
    for name, test in vars(module).items()
    if name.startswith("test_")
    and (module is test_discretization or name.startswith("test_quantile_transform"))
}
globals().update(THEIRS)


def test_our_classes_take_part_in_all_that_is_known_to_pass():
    """So that tests which are renamed, or are not found any more, do not go unnoticed."""
    known = PASSED & THEIRS.keys()
    assert not known & LEFT_OUT.keys()
    assert len(known) > 12
