"""Rules: the steps of each composite of scikit-learn.

A rule takes the composite, its number of features if it is known, and whether to look at fitted
attributes or at parameters. The number of fits of any other composite is not known.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.compose import make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn.composites.inside import (
    are_private_anywhere,
    estimators_in_attributes,
    holds_private,
    is_estimator,
    is_private,
)
from dpq_sklearn.composites.searches import halving_search_steps, search_steps
from dpq_sklearn.composites.selectors import (
    NEEDS_N_FEATURES,
    elimination_by_folds_steps,
    elimination_steps,
    sequential_selection_steps,
)
from dpq_sklearn.composites.steps import (
    Reason,
    Step,
    fold_steps,
    is_int,
    kept_steps,
    stops_early,
)

Rule = Callable[[Any, int | None, bool], list[Step]]

CACHED = "a Pipeline with memory= reuses fits of equal parameters and data"


def _frozen(estimator, n_features, is_fitted):
    """A frozen estimator was fitted before: it is kept, and nothing fits it again."""
    return [Step("", estimator.estimator, 0, is_kept=True)]


def pipeline_steps(pipeline: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """A Pipeline fits each step once; its number of columns is known until a step changes it."""
    named = pipeline.steps
    keeps = [isinstance(step, (OneToOneFeatureMixin, str, type(None))) for _, step in named]
    cached = None if getattr(pipeline, "memory", None) is None else CACHED
    return [
        Step(
            name,
            step,
            n_features=n_features if all(keeps[:i]) else None,
            is_kept=is_fitted,
            note=cached,
        )
        for i, (name, step) in enumerate(named)
        if is_estimator(step)
    ]


def union_steps(union: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """A FeatureUnion fits each step once, on all columns."""
    return [
        Step(name, step, n_features=n_features, is_kept=is_fitted)
        for name, step in union.transformer_list
        if is_estimator(step)
    ]


def column_steps(columns: Any, n_features: int | None, is_fitted: bool) -> list[Step]:
    """A ColumnTransformer fits each step once, on its columns."""
    named = [*columns.transformers, ("remainder", columns.remainder, slice(None))]
    if is_fitted:
        named = getattr(columns, "transformers_", named)

    reason = Reason.LEARNS if selects_by_values(columns) else None
    steps = [
        Step(name, step, n_features=_n_columns(selected), is_kept=is_fitted, reason=reason)
        for name, step, selected in named
        if is_estimator(step)
    ]
    return [step for step in steps if step.n_features != 0]  # nothing selected: not fitted


def selects_by_values(columns: Any) -> bool:
    """Return whether a ColumnTransformer selects columns by functions that may look at rows."""
    return any(
        callable(selected) and not isinstance(selected, make_column_selector)
        for _, _, selected in columns.transformers
    )


def _n_columns(selected):
    """Return the number of selected columns, or None if it depends on the table."""
    if isinstance(selected, (str, int, np.integer)):
        return 1
    if callable(selected) or isinstance(selected, slice):
        return None
    return sum(column is not False for column in np.asarray(selected).tolist())


def _voting(voting, n_features, is_fitted):
    named = [(name, step) for name, step in voting.estimators if is_estimator(step)]
    if is_fitted:
        named = [(name, step) for (name, _), step in zip(named, voting.estimators_, strict=True)]
    return [Step(name, step, n_features=n_features, is_kept=is_fitted) for name, step in named]


def _stacking(stacking, n_features, is_fitted):
    """Stacking fits each step once and in the folds, and a last estimator on the predictions."""
    steps = _voting(stacking, n_features, is_fitted)
    final = stacking.final_estimator_ if is_fitted else stacking.final_estimator
    last = [Step("final_estimator", final, is_kept=is_fitted, reason=Reason.PREDICTS)]
    last = last if is_estimator(final) else []
    if isinstance(stacking.cv, str):  # "prefit"
        return [*(steps if is_fitted else []), *last]

    folds = [
        fold
        for name, step in stacking.estimators
        if is_estimator(step)
        for fold in fold_steps(name, step, stacking.cv, n_features)
    ]
    return [*steps, *folds, *last]


def _bagging(bagging, n_features, is_fitted):
    reason = Reason.REPEATS if bagging.bootstrap else None
    if reason is None and not _are_all(bagging.max_samples):
        reason = Reason.SAMPLES
    if is_fitted:
        return kept_steps("estimators_", bagging.estimators_, reason)

    n_columns = n_features if _are_all(bagging.max_features) else None
    inner = _with_other_seeds(bagging.estimator)
    return _parameter(inner, bagging.n_estimators, n_columns, reason=reason)


def _are_all(share):
    return share is None or (isinstance(share, Real) and share == 1 and not is_int(share))


def _parameter(estimator, n_fits, n_features, note=None, reason=None):
    """Return the fits of the parameter `estimator`, if it is set."""
    if not is_estimator(estimator):
        return []
    return [Step("estimator", estimator, n_fits, n_features, note=note, reason=reason)]


def _with_other_seeds(estimator):
    """Return a copy of an estimator without the seeds that an ensemble replaces.

    With another seed, a random search inside the ensemble tries other candidates, which are not
    known. Private transformers keep their seeds: whether they have a seed does not change.
    """
    if not is_estimator(estimator):
        return estimator

    steps = estimator.get_params(deep=True) | {"": estimator}
    owners = {
        name: steps.get(name.rpartition("__")[0])
        for name in steps
        if name.rpartition("__")[2] == "random_state"
    }
    seeds = {name: None for name, owner in owners.items() if not is_private(owner)}
    return clone(estimator).set_params(**seeds)


def _boosting(boosting, n_features, is_fitted):
    """AdaBoost may stop early, and may drop the last estimator if it is worse than chance."""
    inner = _with_other_seeds(boosting.estimator)
    note = stops_early(boosting)
    if not is_fitted:
        return _parameter(inner, boosting.n_estimators, n_features, note)

    kept = kept_steps("estimators_", boosting.estimators_)
    may_drop = len(kept) < boosting.n_estimators
    return [*kept, *(_parameter(inner, 1, n_features, note) if may_drop else [])]


def _gradient_boosting(boosting, n_features, is_fitted):
    """Gradient boosting fits `init` once, if it is an estimator."""
    if not is_estimator(boosting.init):
        return []
    if is_fitted:
        return [Step("init", boosting.init_, is_kept=True)]
    return [Step("init", boosting.init, n_features=n_features)]


def _one_for_each_output(composite, n_features, is_fitted):
    """Rule for composites that fit their estimator once for each class or each output."""
    if is_fitted:
        return kept_steps("estimators_", composite.estimators_)
    note = "the number of classes or outputs decides on it"
    return _parameter(composite.estimator, None, n_features, note)


def _chain(chain, n_features, is_fitted):
    """A chain fits each estimator once, and with `cv` all but the last in the folds as well."""
    inner = _estimator_of(chain)
    if is_fitted:
        once = kept_steps("estimators_", chain.estimators_)
    elif isinstance(chain.order, str) or chain.order is None:
        return _parameter(inner, None, None, "the number of outputs decides on it")
    else:
        n_columns = [_plus(n_features, i) for i in range(len(chain.order))]
        once = [step for n in n_columns for step in _parameter(inner, 1, n)]

    if chain.cv is None or not is_estimator(inner):
        return once
    n_columns = [_plus(n_features, i) for i in range(len(once) - 1)]
    return once + [step for n in n_columns for step in fold_steps("estimator", inner, chain.cv, n)]


def _estimator_of(composite):
    """Return the estimator of a composite, which is base_estimator in older versions."""
    inner = getattr(composite, "estimator", None)
    return inner if is_estimator(inner) else getattr(composite, "base_estimator", None)


def _plus(n_features, more):
    return None if n_features is None else n_features + more


def _target(target, n_features, is_fitted):
    """Return the regressor and the transformer of the target, which are fitted once each."""
    regressor = target.regressor_ if is_fitted else target.regressor
    transformer = target.transformer_ if is_fitted else target.transformer
    steps = [
        Step("regressor", regressor, n_features=n_features, is_kept=is_fitted),
        Step("transformer", transformer, is_kept=is_fitted),
    ]
    return [step for step in steps if is_estimator(step.estimator)]


def _fitted_once(composite, n_features, is_fitted):
    """Rule for composites that fit their estimator once, unless it is fitted already."""
    if is_fitted:
        return [Step("estimator", composite.estimator_, is_kept=True)]
    is_prefit = getattr(composite, "prefit", False)
    return _parameter(composite.estimator, 0 if is_prefit else 1, n_features)


def _threshold_by_folds(tuned, n_features, is_fitted):
    """A threshold is tuned in folds or on a share of the rows. Then the model is fitted again."""
    once = _fitted_once(tuned, n_features, is_fitted)
    if isinstance(tuned.cv, str):  # "prefit"
        return once if is_fitted else []
    if isinstance(tuned.cv, Real) and not is_int(tuned.cv):
        return [*once, *_parameter(tuned.estimator, 1, n_features)]
    return [*once, *fold_steps("estimator", tuned.estimator, tuned.cv, n_features)]


def _calibration(calibrated, n_features, is_fitted):
    """Calibration keeps a model for each fold, or a single model with ``ensemble=False``."""
    inner = calibrated.estimator
    is_prefit = isinstance(calibrated.cv, str)
    kept = []
    if is_fitted:
        models = [each.estimator for each in calibrated.calibrated_classifiers_]
        kept = kept_steps("calibrated_classifiers_", models)
    if is_prefit or not is_estimator(inner):
        return kept

    folds = fold_steps("estimator", inner, calibrated.cv, n_features)
    if calibrated.ensemble and not isinstance(inner, FrozenEstimator):
        return kept or folds
    return [*(kept or _parameter(inner, 1, n_features)), *folds]


def _self_training(training, n_features, is_fitted):
    """Self-training fits once per round, and once more at the end."""
    inner = _estimator_of(training)
    if is_fitted:
        last = Step("estimator", training.estimator_, is_kept=True)
        return [last, *_parameter(inner, training.n_iter_, n_features)]
    if training.max_iter is None:
        return _parameter(inner, None, n_features, "max_iter=None does not limit it")
    return _parameter(inner, training.max_iter + 1, n_features, stops_early(training))


def _ransac(ransac, n_features, is_fitted):
    """RANSAC fits once per trial, and once more at the end."""
    inner = _with_other_seeds(ransac.estimator)
    note = stops_early(ransac)
    if is_fitted:
        last = Step("estimator", ransac.estimator_, is_kept=True)
        return [last, *_parameter(inner, ransac.n_trials_, n_features, note)]
    if ransac.max_trials == np.inf:
        return _parameter(inner, None, n_features, "max_trials=inf does not limit it")
    return _parameter(inner, int(ransac.max_trials) + 1, n_features, note)


def _iterative_imputation(imputer, n_features, is_fitted):
    """Each round fits once for each feature with missing values."""
    if is_fitted:
        models = [triplet.estimator for triplet in getattr(imputer, "imputation_sequence_", [])]
        return kept_steps("imputation_sequence_", models)

    inner = _with_other_seeds(imputer.estimator)
    if n_features is None:
        return _parameter(inner, None, None, NEEDS_N_FEATURES)
    note = "IterativeImputer may stop early and skip features"
    return _parameter(inner, imputer.max_iter * n_features, None, note)


RULES: dict[str, Rule] = {
    "AdaBoostClassifier": _boosting,
    "AdaBoostRegressor": _boosting,
    "BaggingClassifier": _bagging,
    "BaggingRegressor": _bagging,
    "CalibratedClassifierCV": _calibration,
    "ClassifierChain": _chain,
    "ColumnTransformer": column_steps,
    "FeatureUnion": union_steps,
    "FixedThresholdClassifier": _fitted_once,
    "FrozenEstimator": _frozen,
    "GradientBoostingClassifier": _gradient_boosting,
    "GradientBoostingRegressor": _gradient_boosting,
    "GridSearchCV": search_steps,
    "HalvingGridSearchCV": halving_search_steps,
    "HalvingRandomSearchCV": halving_search_steps,
    "IterativeImputer": _iterative_imputation,
    "MultiOutputClassifier": _one_for_each_output,
    "MultiOutputRegressor": _one_for_each_output,
    "OneVsOneClassifier": _one_for_each_output,
    "OneVsRestClassifier": _one_for_each_output,
    "OutputCodeClassifier": _one_for_each_output,
    "Pipeline": pipeline_steps,
    "RANSACRegressor": _ransac,
    "RFE": elimination_steps,
    "RFECV": elimination_by_folds_steps,
    "RandomizedSearchCV": search_steps,
    "RegressorChain": _chain,
    "SelectFromModel": _fitted_once,
    "SelfTrainingClassifier": _self_training,
    "SequentialFeatureSelector": sequential_selection_steps,
    "StackingClassifier": _stacking,
    "StackingRegressor": _stacking,
    "TransformedTargetRegressor": _target,
    "TunedThresholdClassifierCV": _threshold_by_folds,
    "VotingClassifier": _voting,
    "VotingRegressor": _voting,
}


# Composites that pass on other rows or columns than they are given, to all of their steps.
_REASONS = {
    "AdaBoostClassifier": Reason.REPEATS,
    "AdaBoostRegressor": Reason.REPEATS,
    "ClassifierChain": Reason.PREDICTS,
    "IterativeImputer": Reason.LEARNS,
    "RANSACRegressor": Reason.SELECTS,
    "RFE": Reason.SELECTS,
    "RFECV": Reason.SELECTS,
    "RegressorChain": Reason.PREDICTS,
    "SelfTrainingClassifier": Reason.SELECTS,
    "SequentialFeatureSelector": Reason.SELECTS,
}


def rule_of(estimator: object) -> Rule | None:
    """Return the rule for a composite, or None for simple estimators and unknown composites."""
    return RULES.get(_known_name(estimator))


def reason_of(estimator: object) -> Reason | None:
    """Return why a composite invalidates the guarantee of all its steps, or None.

    Its rule may give reasons for some steps.
    """
    if rule_of(estimator) is None:
        return Reason.UNKNOWN
    return _REASONS.get(_known_name(estimator))


def _known_name(estimator):
    """Return the name of the scikit-learn composite that an estimator is an instance of, or "".

    A subclass counts as its parent unless it overrides one of the parent's methods.
    """
    overridden: set[str] = set()
    for cls in type(estimator).__mro__:
        if cls.__module__.startswith("sklearn.") and cls.__name__ in RULES:
            return "" if overridden & _methods_of(cls) else cls.__name__
        overridden |= set(vars(cls))
    return ""


def _methods_of(cls):
    """Return the names of the methods of a class that decide how it fits."""
    names = {name for base in cls.__mro__ for name in vars(base)}
    of_every_class = {"_abc_impl", "_parameter_constraints"}
    return {
        name
        for name in names - of_every_class
        if not name.startswith("__") and not name.endswith("_request")
    }


def steps_of(estimator: Any, n_features: int | None, *, is_fitted: bool) -> list[Step]:
    """Return the steps that one fit of a composite fits; an empty list for a simple estimator.

    `is_fitted` says whether to look at fitted attributes or at parameters.
    """
    rule = rule_of(estimator)
    if rule is not None:
        return rule(estimator, n_features, is_fitted)
    if is_private(estimator):
        return []

    # A composite may keep no fitted estimator. Its parameters are among its attributes, so it is
    # still recognized as a composite.
    found = {id(step): (name, step) for name, step in estimators_in_attributes(estimator)}
    if not are_private_anywhere([step for _, step in found.values()]):
        return []
    return [
        Step(name, step, None, is_kept=is_fitted and _is_fitted(step))
        for name, step in found.values()
    ]


def why_unknown(estimator: Any, steps: list[Step]) -> str | None:
    """Return why the number of fits of private transformers is not known, or None if it is."""
    notes = [step.note for step in steps if step.n_fits is None and holds_private(step.estimator)]
    if rule_of(estimator) is None:
        notes = ["it is not a composite of scikit-learn"] if steps else []
    if not notes:
        return None
    return (
        f"it is not known how often {type(estimator).__name__} fits the private transformer inside "
        f"it, because {notes[0]}"
    )


def _is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError, AttributeError):
        return False
    return True
