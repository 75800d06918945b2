"""privacy_of: the cost of all private transformers inside an estimator, and what voids it."""

import html
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.checks import shown
from dpq_sklearn.composites import learns, parts_of, void_in_words
from dpq_sklearn.forecast.search import plan_search


@dataclass(frozen=True, repr=False)
class PrivacyInside:
    """What the private transformers inside an estimator cost, and what they do not cover.

    Parameters
    ----------
    total : PrivacyLoss
        The cost of all of them together.
    parts : dict
        The cost of each, by the names of the steps that lead to it.
    not_private : tuple of str
        The other steps: what they learn is not private.
    voided : dict
        For each private part whose promise does not hold for the rows of the user: the steps in
        front of it that learn from these rows.
    """

    total: PrivacyLoss
    parts: dict
    not_private: tuple
    voided: dict

    @property
    def holds(self):
        """Whether no step in front of a private one voids its promise."""
        return not self.voided

    def sentences(self):
        """Return what is known, as sentences."""
        return [*self.about_voids(), *self._about_parts(), *self._about_the_rest()]

    def about_voids(self):
        """Return a sentence for each private part whose promise is void."""
        return [void_in_words(name, steps) for name, steps in self.voided.items()]

    def _about_parts(self):
        return [
            f"{name!r} costs eps={loss.eps:g}"
            + (f", delta={loss.delta:g}" if loss.delta else "")
            + "."
            for name, loss in self.parts.items()
        ]

    def _about_the_rest(self):
        if not self.not_private:
            return []
        names = ", ".join(map(repr, self.not_private))
        return [f"Not private: what {names} learns from the rows."]

    def __repr__(self):
        total = self.total
        line = f"eps={total.eps:g}, delta={total.delta:g} in all ({total.neighbours.in_words})"
        return "\n".join((line, *self.sentences()))

    def _repr_html_(self):
        items = "".join(f"<li>{html.escape(text)}</li>" for text in self.sentences())
        return f"{self.total._repr_html_()}<ul>{items}</ul>"

    def to_dict(self):
        """Return the total as :meth:`PrivacyLoss.to_dict` has it, and the parts; ready for JSON."""
        entry = self.total.to_dict()
        entry["dpq_sklearn"] |= {
            "parts": {name: loss.to_dict()["dpq_sklearn"] for name, loss in self.parts.items()},
            "not_private": list(self.not_private),
            "voided": {name: list(steps) for name, steps in self.voided.items()},
        }
        return entry


def privacy_of(estimator):
    """Say what all private transformers inside a fitted estimator cost together.

    Parameters
    ----------
    estimator : estimator
        A fitted Pipeline, ColumnTransformer, FeatureUnion, search or private transformer, or
        another estimator that keeps what it has fitted in its attributes.

    Returns
    -------
    privacy : PrivacyInside
        The `total`, the `parts`, the steps that are `not_private`, and the private ones whose
        promise is `voided` by a step in front that learns from the private rows.

    See Also
    --------
    plan_search : What a fit or a search will cost.
    privacy_statement : One page about it.

    Notes
    -----
    A search has fitted its candidates as well: they count at what :func:`plan_search` says. Of a
    step that is not known it is assumed that it learns from the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpq_sklearn import DPKBinsDiscretizer, privacy_of
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> privacy_of(make_pipeline(DPKBinsDiscretizer(4)).fit(X)).holds
    True
    >>> privacy_of(make_pipeline(MinMaxScaler(), DPKBinsDiscretizer(4)).fit(X)).voided
    {'dpkbinsdiscretizer': ('minmaxscaler',)}
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be a fitted estimator, got {shown(estimator)}.")
    check_is_fitted(estimator)

    found = list(parts_of(estimator))
    # Some composites keep an unfitted copy beside what they have fitted.
    private = [part for part in found if hasattr(part.estimator, "privacy_")]
    if not private:
        raise ValueError(
            f"there is no private transformer inside this {type(estimator).__name__}: nothing of "
            "it is private."
        )

    parts = {part.name: part.estimator.privacy_ for part in private}
    if hasattr(estimator, "best_estimator_"):
        neighbours = private[0].estimator.privacy_.neighbours
        of_candidates = replace(_loss_of_candidates(estimator), neighbours=neighbours)
        parts["candidates in the folds of the search"] = of_candidates
    return PrivacyInside(
        total=reduce(add, parts.values()),
        parts=parts,
        not_private=tuple(part.name for part in found if _has_learned(part.estimator)),
        voided={part.name: part.in_front for part in private if part.in_front},
    )


def _has_learned(estimator):
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return learns(estimator)


def _loss_of_candidates(search):
    """Return what a search has spent before it fitted its best estimator."""
    without_refit = type(search)(**(search.get_params(deep=False) | {"refit": False}))
    return plan_search(without_refit, n_features=search.n_features_in_).total
