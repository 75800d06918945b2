"""The parameter `prior`: public rows, a description, or a transformer that was fitted before.

A prior that was computed from the private rows would leak them, and no code can see how a number
was computed. These mistakes can be seen, and are refused:

- the private rows themselves, as the same object or in the same memory;
- a transformer that scikit-learn has fitted, since its edges are exact quantiles of some rows. The
  transformer that `to_sklearn` returns has a digest of the released numbers, which a later fit
  invalidates.
"""

from hashlib import sha256

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.dates import numbers_of
from dpq_sklearn.mechanisms.prior import Prior
from dpq_sklearn.reading.containers import (
    checked_column,
    checked_table,
    kinds_of_columns,
    read_matrix,
)
from dpq_sklearn.reading.describe_format import read_description
from dpq_sklearn.reading.overlap import share_memory
from dpq_sklearn.releases.request import even_probabilities


def priors_of_features(prior, n_features, names=None):
    """Return a list with the `Prior` of each feature, or with None."""
    if prior is None:
        return [None] * n_features
    if hasattr(prior, "get_params"):
        found = _of_transformer(prior)
        own_names = getattr(prior, "feature_names_in_", None)
        what = "features"
    elif (described := read_description(prior)) is not None:
        own_names = described.names
        found = [_of_quantiles(described.probabilities, values) for values in described.values.T]
        what = "columns"
    else:
        prior = checked_table(prior)
        own_names = getattr(prior, "column_names", None)  # Arrow's `columns` are data
        if own_names is None:
            own_names = getattr(prior, "columns", None)
        found = list(map(Prior.of_numbers, read_matrix(prior).astype(np.float64).T))
        what = "columns"

    if len(found) != n_features:
        raise ValueError(f"prior must have the {n_features} columns of X, got {len(found)} {what}.")
    if names is not None and own_names is not None and list(own_names) != list(names):
        raise ValueError("prior must have the columns of X by the same names in the same order.")
    return found


def prior_of_column(prior, x):
    """Return the `Prior` of one column `x` from public numbers, or None."""
    if prior is None:
        return None
    prior = checked_column(prior)
    refuse_private_rows(prior, x)
    (kind,) = kinds_of_columns(x)
    (kind_of_prior,) = kinds_of_columns(prior)
    if kind_of_prior.of_scalars is not kind.of_scalars:
        raise ValueError(
            f"prior must hold {kind.in_words} as x does, got {kind_of_prior.in_words}."
        )

    return Prior.of_numbers(read_matrix(prior)[:, 0].astype(np.float64))


def mark_as_released(plain):
    """Give a transformer of scikit-learn a digest of its quantiles, if it has quantiles."""
    if _has_quantiles(plain):
        plain._digest_of_release = _digest(plain)


def _has_quantiles(transformer):
    return hasattr(transformer, "bin_edges_") or hasattr(transformer, "quantiles_")


def _is_release(transformer):
    """Return whether a private transformer released the numbers of a fitted transformer."""
    if hasattr(transformer, "privacy_"):
        return True
    return getattr(transformer, "_digest_of_release", None) == _digest(transformer)


def _digest(transformer):
    """Return a digest of the edges or quantiles of a fitted transformer."""
    numbers = getattr(transformer, "bin_edges_", None)
    if numbers is None:
        numbers = getattr(transformer, "quantiles_", ())

    digest = sha256()
    for of_feature in numbers:
        digest.update(np.asarray(of_feature, dtype=np.float64).tobytes())
        digest.update(b"|")
    return digest.hexdigest()


def _of_transformer(transformer):
    """Return the priors of the features of a fitted private transformer, or of its export."""
    check_is_fitted(transformer)
    if isinstance(transformer, Pipeline):  # the export of a transformer of dates has several steps
        transformer = next(
            (step for _, step in transformer.steps if _has_quantiles(step)), transformer
        )

    if _has_quantiles(transformer) and not _is_release(transformer):
        raise ValueError(
            "prior must be public rows or an earlier release, got a "
            f"{type(transformer).__name__} that scikit-learn has fitted: its numbers are exact "
            "and leak private rows. If the rows are public, pass the rows themselves."
        )

    if hasattr(transformer, "bin_edges_"):
        edges = [numbers_of(edges[1:-1]) for edges in transformer.bin_edges_]
        return list(map(_of_edges, edges, _shares_below(transformer, edges)))
    if hasattr(transformer, "quantiles_") and hasattr(transformer, "references_"):
        references = np.asarray(transformer.references_)
        is_inside = (references > 0) & (references < 1)
        quantiles = transformer.quantiles_
        if hasattr(transformer, "_quantiles_in_numbers"):
            quantiles = transformer._quantiles_in_numbers()
        return [Prior.of_release(references[is_inside], knots[is_inside]) for knots in quantiles.T]
    raise ValueError(
        "prior must be public rows, a fitted transformer of this package, or the result of "
        "to_sklearn() of a DPKBinsDiscretizer or DPQuantileTransformer, got "
        f"{shown(transformer)}."
    )


def _shares_below(transformer, inner_edges):
    """Return the share of the rows below the inner edges of each feature; NaN if it is unknown.

    Raise if no edge is a quantile.
    """
    if hasattr(transformer, "_shares_below_edges"):
        shares = transformer._shares_below_edges()
    elif transformer.strategy == "quantile":
        shares = [np.array(even_probabilities(edges.size + 1)) for edges in inner_edges]
    else:
        shares = [np.full(edges.size, np.nan) for edges in inner_edges]

    if not np.isfinite(np.concatenate(shares)).any():
        raise ValueError(
            "prior must have edges at quantiles, got a transformer with "
            f"strategy={transformer.strategy!r}."
        )
    return shares


def _of_edges(edges, shares):
    """Return the prior of a feature from its edges at quantiles; None if no edge is a quantile."""
    known = np.isfinite(shares)
    return Prior.of_release(shares[known], edges[known]) if known.any() else None


def _of_quantiles(probabilities, values):
    """Return the prior of a column of a description; None if the column has no quantiles."""
    known = np.isfinite(values)
    return Prior.of_release(np.array(probabilities)[known], values[known]) if known.any() else None


def refuse_private_rows(prior, X):
    """Raise if a prior is the private table, or shares memory with it."""
    if prior is None or hasattr(prior, "get_params"):
        return
    if prior is X or share_memory(prior, X):
        raise ValueError(
            "prior must be public, got the private rows themselves, or some of them, which would "
            "be used without any noise."
        )
