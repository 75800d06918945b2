"""Differentially private quantile transformers for scikit-learn."""

from dpq_sklearn._accounting import PrivacyLoss
from dpq_sklearn._discretizer import DPKBinsDiscretizer
from dpq_sklearn._quantile_transformer import DPQuantileTransformer
from dpq_sklearn._quantiles import dp_quantiles, sanitize
from dpq_sklearn._version import __version__  # noqa: F401

__all__ = [
    "DPKBinsDiscretizer",
    "DPQuantileTransformer",
    "PrivacyLoss",
    "dp_quantiles",
    "sanitize",
]
