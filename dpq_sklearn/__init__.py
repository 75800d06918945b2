"""Differentially private quantile transformers for scikit-learn."""

from dpq_sklearn._accounting import PrivacyLoss
from dpq_sklearn._quantiles import dp_quantiles, sanitize
from dpq_sklearn._version import __version__  # noqa: F401

__all__ = ["PrivacyLoss", "dp_quantiles", "sanitize"]
