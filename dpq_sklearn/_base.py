"""What the two transformers share: from `fit(X)` to the released quantiles of every feature."""

from dataclasses import replace
from numbers import Integral, Real
from os import PathLike

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from dpq_sklearn._accounting import budgets_for, checked_positive
from dpq_sklearn._columns import as_float_matrix, fresh_columns
from dpq_sklearn._compat import HasMethods, Interval, StrOptions
from dpq_sklearn._grid import checked_bounds
from dpq_sklearn._quantiles import MECHANISMS, charge_ledger, plan_release, release_values
from dpq_sklearn._random import make_randomness


class PrivateQuantileTransformer(TransformerMixin, BaseEstimator):
    """Base of the transformers whose fitted state is a set of private quantiles a feature."""

    _parameter_constraints: dict = {  # noqa: RUF012
        "eps": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "rho": [Interval(Real, 0, None, closed="neither"), None],
        "bounds": ["array-like", dict, None],
        "feature_weights": ["array-like", None],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "random_state": ["random_state"],
        "ledger": [PathLike, str, HasMethods(["spent", "remaining"]), None],
    }

    _doc_link_module = "dpq_sklearn"
    _doc_link_template = (
        "https://dpq-sklearn.readthedocs.io/en/latest/generated/dpq_sklearn.{estimator_name}.html"
    )

    def _doc_link_url_param_generator(self):
        return {"estimator_name": type(self).__name__}

    def _quantiles_of_features(self, n_features):
        """Return the list of ascending quantiles that each feature needs."""
        raise NotImplementedError

    def _fit_quantiles(self, X):
        """Release the private quantiles of every column of `X`, and set what fitting sets.

        The order matters: parameters first, then the container (its shape, its types), then the
        price, and only then the numbers.
        """
        budgets_for(self.eps, self.delta, self.rho)
        randomness = make_randomness(self.random_state)
        X = self._validated(X, reset=True)
        plan = self._plan(X.shape[1], getattr(self, "feature_names_in_", None))
        loss = replace(plan.loss, os_randomness=randomness.from_os)
        charge_ledger(
            self.ledger,
            loss,
            what=f"{type(self).__name__}.fit",
            columns=getattr(self, "feature_names_in_", X.shape[1]),
            detail=self._detail(),
        )
        released = release_values(plan, fresh_columns(X), randomness)
        self.privacy_ = loss
        return released

    def _detail(self):
        """Return in words what a fit releases a feature, for the ledger."""
        raise NotImplementedError

    def _planned_loss(self, n_features=None):
        """Return what a fit will cost, without data."""
        if n_features is None:
            lists = (getattr(self, "n_bins", None), self.feature_weights)
            n_features = next((len(some) for some in lists if hasattr(some, "__len__")), 1)
        unbounded = clone(self).set_params(bounds=None)
        return unbounded._plan(n_features).loss

    def _plan(self, n_features, feature_names=None):
        return plan_release(
            self._quantiles_of_features(n_features),
            eps=self.eps,
            delta=self.delta,
            rho=self.rho,
            bounds=bounds_of_features(self.bounds, n_features, feature_names),
            mechanism=self.mechanism,
            weights=checked_weights(self.feature_weights, n_features),
        )

    def _plan_bounds(self):
        names = getattr(self, "feature_names_in_", None)
        return bounds_of_features(self.bounds, self.n_features_in_, names)

    def _validated(self, X, *, reset, dtype=(np.float64, np.float32), **options):
        """Return `X` as an array of floats after scikit-learn's checks of names and shapes.

        NaN and infinities pass, and a cell that is not a number is reported by its column and
        type only.
        """
        options |= {"dtype": dtype, "ensure_all_finite": False}
        converted = as_float_matrix(X)
        if converted is None:
            return validate_data(self, X, reset=reset, **options)
        converted = check_array(converted, estimator=self, input_name="X", **options)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return converted

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def bounds_of_features(bounds, n_features, feature_names=None):
    """Return a checked pair of bounds or None for each feature.

    `bounds` is None, one pair for all, one pair (or None) a feature, or a dict from feature name
    to pair.
    """
    if bounds is None:
        return [None] * n_features
    if isinstance(bounds, dict):
        known = [] if feature_names is None else list(feature_names)
        unknown = [name for name in bounds if name not in known]
        if unknown:
            raise ValueError(
                f"bounds as a dict must have feature names of X as keys, got {unknown!r}; the "
                f"names are {known!r}."
            )
        pairs = [bounds.get(name) for name in known]
    elif len(bounds) == 2 and all(isinstance(bound, Real) for bound in bounds):
        pairs = [bounds] * n_features
    else:
        pairs = list(bounds)
        if len(pairs) != n_features:
            raise ValueError(
                f"bounds must be None, one pair, or one pair for each of the {n_features} "
                f"features, got {bounds!r}."
            )
    return [None if pair is None else checked_bounds(pair) for pair in pairs]


def checked_weights(weights, n_features):
    """Return `feature_weights` as positive floats, one a feature, or None."""
    if weights is None:
        return None
    weights = list(weights)
    if len(weights) != n_features:
        raise ValueError(
            f"feature_weights must have one entry for each of the {n_features} features, got "
            f"{len(weights)}."
        )
    return [checked_positive(weight, "each of feature_weights") for weight in weights]


def counts_of_features(counts, n_features, name, least):
    """Return a number of bins or the like for each feature, from an int or one int a feature."""
    entries = [counts] * n_features if isinstance(counts, Integral) else list(counts)
    if len(entries) != n_features:
        raise ValueError(f"{name} must be a scalar or array of shape (n_features,).")
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in entries)
    if not whole or min(entries, default=least) < least:
        raise ValueError(f"{name} must be integers >= {least}, got {counts!r}.")
    return np.array(entries, dtype=np.int64)
