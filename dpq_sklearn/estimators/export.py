"""to_sklearn: a fitted estimator without a trace of this package, whatever it is made of."""

from copy import deepcopy

from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.estimators.base import PrivateTransformer


def to_sklearn(estimator):
    """Return a copy of a fitted estimator in which all private transformers are plain ones.

    The copy needs no dpq_sklearn where it is used. It is as private as the estimator.

    Parameters
    ----------
    estimator : estimator
        A fitted Pipeline, ColumnTransformer, FeatureUnion or another estimator with private
        transformers inside, or such a transformer. Of a search it is the best estimator.

    Returns
    -------
    plain : estimator
        Transformers that are fitted have the private numbers. Those that are not, such as the
        parameters of a ColumnTransformer, become scikit-learn's with the same settings.

    Notes
    -----
    scikit-learn's KBinsDiscretizer raises on missing values, which :class:`DPKBinsDiscretizer`
    keeps. ``DPKBinsDiscretizer.to_sklearn(missing="first_bin")`` puts them into the first bin.

    See Also
    --------
    DPKBinsDiscretizer : Has a method of this name, as all transformers do.
    privacy_of : What a whole estimator has cost.

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

    # `deepcopy` takes what is in its memo for a copy that is made already.
    plain_by_id = {id(private): _plain(private) for private in _private_inside(estimator)}
    return deepcopy(estimator, plain_by_id)


def _plain(private):
    if hasattr(private, "privacy_"):
        return private.to_sklearn()
    plain = private._counterpart(**private._counterpart_settings)
    return _with_the_same_settings(plain, private)


def _with_the_same_settings(plain, private):
    """Set those parameters of a plain transformer that the private one has, too."""
    settings = private.get_params(deep=False)
    shared = {name: settings[name] for name in plain.get_params(deep=False) if name in settings}
    shared.pop("random_state", None)
    return plain.set_params(
        **{name: value for name, value in shared.items() if not _is_ours(value)}
    )


def _is_ours(value):
    """Return whether scikit-learn gives a value of a parameter another meaning, or none."""
    return isinstance(value, str) and value in ("auto", "private")


def _private_inside(thing, seen=None):
    """Return all private transformers that can be reached, each once."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return []
    seen[id(thing)] = thing  # and keep it: an id may be used again
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
