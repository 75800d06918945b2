"""Differentially private quantile transformers for scikit-learn."""

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.estimators.discretizer import DPKBinsDiscretizer
from dpq_sklearn.estimators.export import to_sklearn
from dpq_sklearn.estimators.one_hot_encoder import DPOneHotEncoder
from dpq_sklearn.estimators.ordinal_encoder import DPOrdinalEncoder
from dpq_sklearn.estimators.quantile_transformer import DPQuantileTransformer
from dpq_sklearn.estimators.robust_scaler import DPRobustScaler
from dpq_sklearn.forecast.enough_data import PrivacyNoiseWarning
from dpq_sklearn.forecast.expected_error import expected_rank_error, suggest_n_bins
from dpq_sklearn.forecast.search import plan_search
from dpq_sklearn.forecast.worst_cases import rank_error_bound
from dpq_sklearn.ledger.access import BudgetExceededError
from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.ledger import PrivacyLedger
from dpq_sklearn.reporting.description_display import DPDescribeDisplay
from dpq_sklearn.reporting.displays import DPQuantileDisplay
from dpq_sklearn.reporting.privacy_of import privacy_of
from dpq_sklearn.reporting.statement import privacy_statement
from dpq_sklearn.statistics.counts import dp_count, dp_histogram
from dpq_sklearn.statistics.describe import dp_describe
from dpq_sklearn.statistics.quantiles import dp_quantiles, sanitize
from dpq_sklearn.statistics.value_counts import dp_value_counts
from dpq_sklearn.version import __version__  # noqa: F401

__all__ = [
    "BudgetExceededError",
    "DPDescribeDisplay",
    "DPKBinsDiscretizer",
    "DPOneHotEncoder",
    "DPOrdinalEncoder",
    "DPQuantileDisplay",
    "DPQuantileTransformer",
    "DPRobustScaler",
    "LedgerError",
    "PrivacyLedger",
    "PrivacyLoss",
    "PrivacyNoiseWarning",
    "dp_count",
    "dp_describe",
    "dp_histogram",
    "dp_quantiles",
    "dp_value_counts",
    "expected_rank_error",
    "plan_search",
    "privacy_of",
    "privacy_statement",
    "rank_error_bound",
    "sanitize",
    "suggest_n_bins",
    "to_sklearn",
]

# Pickles name the public path of a class, so that they outlast a change of the layout.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
