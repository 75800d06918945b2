"""Steps of feature selectors, which fit an estimator with various numbers of features."""

from dataclasses import replace
from typing import Any

import numpy as np

from dpq_sklearn.composites.steps import Step, fold_steps, is_int, stops_early

NEEDS_N_FEATURES = "the number of features decides on it: pass n_features"


def elimination_steps(rfe: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """Recursive feature elimination fits once for each number of features."""
    inner = rfe.estimator
    last = [Step("estimator", rfe.estimator_, is_kept=True)] if is_fitted else []
    if n_features is None:
        return [*last, Step("estimator", inner, None, note=NEEDS_N_FEATURES)]

    numbers = _numbers_of_features(rfe, n_features, _n_to_select(rfe, n_features))
    lost = numbers[:-1] if is_fitted else numbers
    return [*(Step("estimator", inner, 1, n) for n in lost), *last]


def _n_to_select(rfe, n_features):
    n = rfe.n_features_to_select
    if n is None:
        return n_features // 2
    return n if is_int(n) else int(n_features * n)


def _numbers_of_features(rfe, n_features, n_to_select):
    """Return the number of features in each fit of an elimination, from all to the last."""
    step = rfe.step
    step = int(max(1, step * n_features)) if 0 < step < 1 else int(step)
    numbers = [n_features]
    while numbers[-1] > n_to_select:
        numbers.append(max(numbers[-1] - step, n_to_select))
    return numbers


def elimination_by_folds_steps(rfecv: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """Return the eliminations in all folds, then on all rows down to the best number of features.

    The estimator is fitted twice to the best features.
    """
    inner = rfecv.estimator
    last = [Step("estimator", rfecv.estimator_, is_kept=True)] if is_fitted else []
    if n_features is None:
        return [*last, Step("estimator", inner, None, note=NEEDS_N_FEATURES)]

    least = min(rfecv.min_features_to_select, n_features)
    numbers = _numbers_of_features(rfecv, n_features, least)
    folds = [step for n in numbers for step in fold_steps("estimator", inner, rfecv.cv, n)]
    if is_fitted:
        again = [n for n in numbers if n >= rfecv.n_features_]
        return [*folds, *(Step("estimator", inner, 1, n) for n in again), *last]

    note = "RFECV may keep more features than min_features_to_select"
    again = [*numbers, None]
    return [*folds, *(Step("estimator", inner, 1, n, note=note) for n in again)]


def sequential_selection_steps(
    selector: Any, n_features: int | None, is_fitted: bool
) -> list[Step]:
    """Each round fits in all folds with each of the features that are left."""
    inner = selector.estimator
    if n_features is None:
        return [Step("estimator", inner, None, note=NEEDS_N_FEATURES)]

    n_rounds = _n_rounds(selector, n_features)
    note = None
    if isinstance(selector.n_features_to_select, str) and selector.tol is not None:
        if is_fitted:
            n_rounds = min(_n_accepted(selector, n_features) + 1, n_rounds)
        else:
            note = stops_early(selector)

    is_forward = selector.direction == "forward"
    folds = [
        (fold, n_features - i)
        for i in range(n_rounds)
        for fold in fold_steps(
            "estimator", inner, selector.cv, i + 1 if is_forward else n_features - i - 1
        )
    ]
    return [
        fold if fold.n_fits is None else replace(fold, n_fits=fold.n_fits * n_left, note=note)
        for fold, n_left in folds
    ]


def _n_rounds(selector, n_features):
    n = selector.n_features_to_select
    if isinstance(n, str):  # "auto"
        return n_features // 2 if selector.tol is None else n_features - 1
    n_selected = n if is_int(n) else int(n_features * n)
    return n_selected if selector.direction == "forward" else n_features - n_selected


def _n_accepted(selector, n_features):
    n_selected = int(np.sum(selector.support_))
    return n_selected if selector.direction == "forward" else n_features - n_selected
