"""Steps of searches: the candidates in all folds, and the best candidate."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from dpq_sklearn.composites.inside import holds_private
from dpq_sklearn.composites.steps import Reason, Step


def search_steps(search: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """Return the candidates in all folds, and the best candidate, which is fitted to all rows.

    Before a fit, the candidates only show their settings: `forecast.search` counts the fits.
    """
    if is_fitted:
        settings = search.cv_results_["params"]
        best = getattr(search, "best_estimator_", None)
        candidates = [
            Step("estimator", each, search.n_splits_, n_features)
            for each in with_settings(search.estimator, settings)
        ]
    else:
        settings = list(_single_settings(search))
        best = search.estimator if search.refit else None
        alone = [search.estimator, *_with_single_settings(search.estimator, settings)]
        candidates = [Step("estimator", each, n_features=n_features) for each in alone]

    if best is None:
        return candidates
    is_choice = len(settings) > 1 and _concern_private_steps(search.estimator, settings)
    reason = Reason.CHOOSES if is_choice else None
    return [Step("best_estimator_", best, 1, n_features, is_fitted, reason=reason), *candidates]


def halving_search_steps(search: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """Return the candidates of a halving search, which are known only after its fit."""
    steps = search_steps(search, n_features, is_fitted)
    if is_fitted:
        return steps
    note = "the number of rows decides on the number of its candidates"
    return [replace(step, n_fits=None, note=note) for step in steps]


def with_settings(estimator: Any, settings: Any) -> Iterator[Any]:
    """Yield a copy of an estimator with each of several settings, as a search makes them."""
    for chosen in settings:
        yield clone(estimator).set_params(**clone(chosen, safe=False))


def _single_settings(search):
    """Yield settings of one parameter each, for all values that a search lists.

    They show which values invalidate a guarantee, because no other value can restore it.
    """
    for space in spaces_of(search):
        for name, values in space.items():
            listed = [None] if hasattr(values, "rvs") else values
            yield from ({name: value} for value in listed)


def _with_single_settings(estimator, settings):
    for setting in settings:
        try:
            yield next(with_settings(estimator, [setting]))
        except ValueError:  # a parameter of a step that another setting brings in
            continue


def spaces_of(search: Any) -> list[dict]:
    """Return the parameter grids or distributions of a search."""
    spaces = getattr(search, "param_grid", None) or getattr(search, "param_distributions", None)
    return [spaces] if isinstance(spaces, dict) else list(spaces or [])


def _concern_private_steps(estimator, settings):
    """Return whether settings change private steps or their upstream steps, or bring them in."""
    steps = estimator.get_params(deep=True) | {"": estimator}
    names = {name for setting in settings for name in setting}
    return any(map(holds_private, settings)) or any(_concerns_private(steps, n) for n in names)


def _concerns_private(steps, name):
    names = name.split("__")
    owners = ["__".join(names[:i]) for i in range(len(names))]
    if any(_is_before_private(steps.get(at), step) for at, step in zip(owners, names, strict=True)):
        return True

    owner = steps.get(owners[-1])
    is_step = isinstance(owner, Pipeline) and names[-1] in owner.named_steps
    return owner is None or holds_private(steps.get(name) if is_step else owner)


def _is_before_private(pipeline, name):
    """Return whether a step of a Pipeline is upstream of a private step."""
    if not isinstance(pipeline, Pipeline) or name not in pipeline.named_steps:
        return False
    names = [each for each, _ in pipeline.steps]
    return holds_private([step for _, step in pipeline.steps[names.index(name) + 1 :]])
