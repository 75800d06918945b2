"""to_sklearn: replace the private transformers of a fitted estimator by plain transformers."""

from copy import deepcopy

from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.estimators.base import PrivateTransformer


def to_sklearn(estimator):
    """Return a copy of a fitted estimator with transformers of scikit-learn only.

    The copy can be used without dpq_sklearn. It has the same privacy guarantee as the estimator.
    Read more in the :ref:`User Guide <export>`.

    Parameters
    ----------
    estimator : estimator
        A fitted private transformer, or a fitted Pipeline, ColumnTransformer, FeatureUnion or other
        estimator that contains private transformers. For a fitted search, the best estimator is
        converted.

    Returns
    -------
    plain : estimator
        The copy. Each fitted private transformer becomes the corresponding transformer of
        scikit-learn with the private numbers. Each unfitted private transformer, such as in the
        parameters of a ColumnTransformer, becomes an unfitted transformer with the same settings.

    Notes
    -----
    scikit-learn's KBinsDiscretizer raises an error for missing values, which
    :class:`DPKBinsDiscretizer` accepts. To put them into the first bin, call
    ``DPKBinsDiscretizer.to_sklearn(missing="first_bin")``.

    See Also
    --------
    DPKBinsDiscretizer : Has a method `to_sklearn`, as all transformers of this package do.
    privacy_of : Return the privacy loss of a whole estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from dpq_sklearn import DPKBinsDiscretizer, to_sklearn
    >>> X = np.random.default_rng(0).normal(size=(1000, 1))
    >>> pipeline = make_pipeline(DPKBinsDiscretizer(4), LogisticRegression()).fit(X, X[:, 0] > 0)
    >>> to_sklearn(pipeline)[0]
    KBinsDiscretizer(n_bins=array([4]), subsample=None)
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be a fitted estimator, got {shown(estimator)}.")
    check_is_fitted(estimator)
    estimator = getattr(estimator, "best_estimator_", estimator)

    # `deepcopy` uses the objects in its memo instead of making copies.
    plain_by_id = {id(private): _plain(private) for private in _private_inside(estimator)}
    return deepcopy(estimator, plain_by_id)


def _plain(private):
    if hasattr(private, "privacy_"):
        return private.to_sklearn()
    plain = private._counterpart(**private._counterpart_settings)
    return _with_the_same_settings(plain, private)


def _with_the_same_settings(plain, private):
    """Copy the parameters that both transformers have to the plain transformer."""
    settings = private.get_params(deep=False)
    shared = {name: settings[name] for name in plain.get_params(deep=False) if name in settings}
    shared.pop("random_state", None)
    return plain.set_params(
        **{name: value for name, value in shared.items() if not _is_ours(value)}
    )


def _is_ours(value):
    """Return whether only this package knows this value of a parameter."""
    return isinstance(value, str) and value in ("auto", "private")


def _private_inside(thing, seen=None):
    """Return all private transformers inside an object, without duplicates."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return []
    seen[id(thing)] = thing  # keeps the object alive, so that its id is not used again
    if isinstance(thing, PrivateTransformer):
        return [thing]

    inside = []
    if isinstance(thing, (list, tuple)):
        inside = thing
    elif isinstance(thing, dict):
        inside = thing.values()
    elif hasattr(thing, "get_params") and not isinstance(thing, type):
        inside = vars(thing).values()
    return [private for part in inside for private in _private_inside(part, seen)]
