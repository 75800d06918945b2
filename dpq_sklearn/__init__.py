"""Differentially private quantile transformers for scikit-learn."""

from dpq_sklearn._accounting import PrivacyLoss
from dpq_sklearn._bounds import rank_error_bound
from dpq_sklearn._discretizer import DPKBinsDiscretizer
from dpq_sklearn._displays import DPQuantileDisplay
from dpq_sklearn._expected_error import expected_rank_error, suggest_n_bins
from dpq_sklearn._ledger import BudgetExceededError, LedgerError, PrivacyLedger
from dpq_sklearn._planning import plan_search
from dpq_sklearn._quantile_transformer import DPQuantileTransformer
from dpq_sklearn._quantiles import dp_quantiles, sanitize
from dpq_sklearn._version import __version__  # noqa: F401

__all__ = [
    "BudgetExceededError",
    "DPKBinsDiscretizer",
    "DPQuantileDisplay",
    "DPQuantileTransformer",
    "LedgerError",
    "PrivacyLedger",
    "PrivacyLoss",
    "dp_quantiles",
    "expected_rank_error",
    "plan_search",
    "rank_error_bound",
    "sanitize",
    "suggest_n_bins",
]
