"""Base class of the quantile transformers: from a request to the released quantiles."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.dates import (
    ColumnKind,
    numbers_in_table,
    table_with_dates,
    values_with_dates,
)
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.estimators.base import PrivateTransformer
from dpq_sklearn.estimators.compat import HasMethods, Interval, StrOptions
from dpq_sklearn.estimators.noise_warning import (
    advice,
    count_in_words,
    ends_in_words,
    warn_if_noisy,
)
from dpq_sklearn.estimators.parameters import (
    per_feature_bounds,
    per_feature_lattices,
    per_feature_weights,
)
from dpq_sklearn.estimators.plain_steps import steps_from_dates
from dpq_sklearn.estimators.planned import planned_loss
from dpq_sklearn.estimators.report import (
    counts_of_values,
    errors_with_counts,
    make_report,
    missing_in_words,
)
from dpq_sklearn.forecast.enough_data import (
    TOO_FAR_OFF,
    cautious_count,
    chosen_plan,
    errors_if_narrow,
    errors_in_bins,
)
from dpq_sklearn.mechanisms.registry import MECHANISMS
from dpq_sklearn.reading.containers import dtypes_of, kinds_of_columns
from dpq_sklearn.reading.priors import priors_of_features, refuse_private_rows
from dpq_sklearn.releases.plans import PlanChoice, plan_choice, plan_quantiles
from dpq_sklearn.releases.request import Column, CountRole, Request


def _role_of_count(candidates):
    """Return the role of the count of rows. There is no count if nothing is drawn."""
    if len(candidates) > 1:
        return CountRole.CHOOSES
    is_drawn = any(column.probabilities for column in candidates[0])
    return CountRole.BESIDE if is_drawn else CountRole.NONE


# An Arrow dtype of each kind.
_DTYPES_OF_KINDS = {
    ColumnKind.NUMBER: "int64",
    ColumnKind.DATE: "date32",
    ColumnKind.INSTANT: "timestamp",
    ColumnKind.DURATION: "duration",
}


class PrivateQuantileTransformer(PrivateTransformer):
    """Base class of the transformers that are fitted by private quantiles.

    A subclass implements the choice of quantiles (`_candidate_probabilities`), the fitted
    attributes (`_set_values`, `_private_values`), the transformation of rows (`_transform_rows`,
    `_inverse_transform_rows`) and its counterpart in scikit-learn (`_plain`).

    Parameters
    ----------
    eps : float or None, default=1.0
        The privacy budget of a fit, which all features share. A smaller eps gives more privacy and
        less accuracy. Set it to None if you set `rho`.
    delta : float, default=0.0
        With ``delta > 0``, the fit is (eps, delta)-differentially private, which is more accurate
        if there are many features. Choose it well below 1 / number of rows. With 0, the fit is
        eps-differentially private.
    rho : float or None, default=None
        The privacy budget in zero-concentrated differential privacy (zCDP), instead of `eps` and
        `delta`. It requires ``eps=None`` and ``delta=0``.
    bounds : None, pair, list of pairs or dict, default=None
        Public bounds of the values. Pass a pair ``(low, high)`` for all features, a list with a
        pair for each feature, or a dict from feature names to pairs. None stands for a missing
        bound, as in ``(0, None)``, or for a feature without bounds. `fit` clips values outside the
        bounds. Features that are not in the dict have no bounds, and names that `X` does not have
        raise an error. The bounds of dates are dates. Never compute bounds from the private rows.
    decimals : None, int, array-like, dict or "schema", default=None
        The publicly known number of decimals of the values: 0 for whole numbers, 2 for cents, -3
        for thousands. Pass a number for all features, one number per feature, or a dict from
        feature names to numbers. `fit` rounds the values to this precision. None means that the
        precision is unknown. "schema" derives it from integer, boolean and date dtypes. Use
        "schema" only if the dtypes were declared, and not inferred from the values as by
        ``read_csv``. The decimals of dates and durations refer to days.
    prior : array-like, fitted transformer or None, default=None
        Public rows with the same columns, or an earlier release: a fitted transformer of this
        package, the result of its `to_sklearn`, or a table of :func:`dp_describe`. The mechanism
        then starts its search at the quantiles of the prior. This costs no budget, and a wrong
        prior costs little accuracy. Never pass a part of the private rows, or anything that was
        computed from them without privacy. A transformer that was fitted by scikit-learn is
        rejected. If its rows were public, pass the rows.
    mechanism : {"aq", "agg_tree", "auto"}, default="aq"
        The mechanism that finds the quantiles.

        - "aq": ApproximateQuantiles, for any column.
        - "agg_tree": a tree of noisy counts, for columns in which `decimals` and `bounds` leave few
          possible values. It does not accept a `prior`.
        - "auto": "agg_tree" for features in which its expected error is clearly smaller, and "aq"
          for all others. The choice depends on public facts only.
    resolution : int or None, default=None
        The public grid of each feature has about ``2**resolution`` cells, and the fit does not
        distinguish values in the same cell. None means 40, or 24 for batches, dask and Spark, for
        which a larger resolution needs more memory.

    Attributes
    ----------
    n_rows_ : int or None
        The noisy number of rows or, with `groups`, of people. None if the fit drew nothing from
        the data.
    error_in_bins_ : ndarray of shape (n_features,)
        The expected error of the private quantiles of each feature, in bins between them: 0.5 means
        half a bin. See :meth:`quality_report`.

    Notes
    -----
    **Privacy.** Neighbouring datasets differ by one added or removed row or, with `groups`, by one
    person. Each of the k rows of a person has the weight 1/k. The fitted attributes are an
    (eps, delta)-DP (or rho-zCDP) function of the rows given to `fit`. The output of `transform` is
    *not* private: it shows the bin, the rank or the scaled value of each row. Every fit spends its
    budget again.
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateTransformer._parameter_constraints,
        "eps": [Interval(Real, 0, None, closed="neither"), None],
        "rho": [Interval(Real, 0, None, closed="neither"), None],
        "bounds": ["array-like", dict, None],
        "decimals": [Integral, "array-like", dict, StrOptions({"schema"}), None],
        "prior": ["array-like", HasMethods(["get_params"]), None],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "resolution": [Interval(Integral, 1, FULL_RESOLUTION, closed="both"), None],
    }

    #: the parameter that determines the quantiles of a feature
    _quantiles_parameter: str
    #: the parameters that may have an entry for each feature and change the cost of a fit
    _parameters_with_a_cost = ("feature_weights",)
    #: the candidates of "auto" in ascending order: from the number that a user could set instead to
    #: the probabilities; empty for transformers without such a number
    _probabilities_by_number: dict = {}  # noqa: RUF012

    def _total_budget(self):
        return TotalBudget(self.eps, self.delta, self.rho)

    def _check_rows(self, X):
        refuse_private_rows(self.prior, X)

    def _checked_table(self, X, *, reset, **options):
        table = super()._checked_table(X, reset=reset, **options)
        if not reset:
            self._check_kinds(table)
        return table

    def _check_kinds(self, table):
        """Raise if a feature holds dates where `fit` saw numbers, or the other way round."""
        for position, (fitted, given) in enumerate(
            zip(self._kinds(), kinds_of_columns(table), strict=True)
        ):
            if fitted.of_scalars is not given.of_scalars:
                name = _check_feature_names_in(self)[position]
                raise ValueError(
                    f"feature {name!r} must hold {fitted.in_words} as in fit, got {given.in_words}."
                )

    def _kinds(self):
        """Return the kind of each feature: numbers, unless `fit` saw a dtype of dates."""
        return getattr(self, "_kinds_", None) or [ColumnKind.NUMBER] * self.n_features_in_

    def _shown_values(self):
        """Return the private values of each feature, with dates as dates."""
        return list(map(values_with_dates, self._private_values(), self._kinds()))

    def _with_dates(self, values):
        """Return released numbers, (n_values, n_features), with dates in the features of dates."""
        # A quantile of whole days is not always a whole day.
        return table_with_dates(values, [kind.of_scalars for kind in self._kinds()])

    def _quantiles_in_numbers(self):
        """Return `quantiles_` as floats, dates as days since 1970-01-01."""
        return numbers_in_table(self.quantiles_, self._kinds())

    def _original_values(self, X):
        return table_with_dates(self._inverse_transform_rows(X), self._kinds())

    def _plain_steps(self):
        return [*steps_from_dates(self._kinds()), *super()._plain_steps()]

    def _plan_fit(self, table, source, budget, neighbours):
        kinds = kinds_of_columns(table)
        if any(kind is not ColumnKind.NUMBER for kind in kinds):
            self._kinds_ = kinds

        return self._plan(
            table.shape[1],
            budget,
            source.default_resolution,
            neighbours,
            dtypes_of(table),
        )

    def _planned_loss(self, n_features=None):
        return planned_loss(self, n_features)

    def _with_equal_features(self):
        """Return a copy for each possible kind of feature, in which all features are alike."""
        return [self._with(feature_weights=None)]

    def _plan(
        self,
        n_features,
        budget,
        resolution=FULL_RESOLUTION,
        neighbours=Neighbours.ROWS,
        dtypes=None,
    ):
        """Return the plan of a fit. `resolution` is used if the parameter is None.

        The `dtypes` of the columns are used for ``decimals="schema"`` and for the bounds of dates.
        """
        names = getattr(self, "feature_names_in_", None)
        bounds, decimals = per_feature_lattices(
            self.bounds, self.decimals, n_features, names, dtypes
        )
        priors = priors_of_features(self.prior, n_features, names)
        weights = per_feature_weights(self.feature_weights, n_features, names)
        known = list(zip(bounds, decimals, priors, strict=True))
        candidates, choose = self._candidates(known, names)

        requests = [
            Request(
                columns=columns,
                budget=budget,
                mechanism_name=self.mechanism,
                weights=weights,
                resolution=resolution if self.resolution is None else self.resolution,
                neighbours=neighbours,
                count=_role_of_count(candidates),
                has_ledger=self.ledger is not None,
            )
            for columns in candidates
        ]

        if len(requests) > 1:
            return plan_choice(requests, choose)
        return plan_quantiles(*requests)

    def _candidates(self, known, names):
        """Return the candidates of a fit, each a list of columns, and the rule to choose from them.

        `known` has the public facts of each feature: bounds, decimals and prior.
        """
        candidates = [
            [Column(each, *facts) for each, facts in zip(probabilities, known, strict=True)]
            for probabilities in self._candidate_probabilities(len(known), names)
        ]
        return candidates, chosen_plan

    def _candidate_probabilities(self, n_features, names):
        """Return the candidates of a fit, each with the probabilities of every feature.

        Candidates come in ascending order of their number of quantiles. If there are several, the
        released count chooses one of them.
        """
        raise NotImplementedError

    def _detail(self):
        return f"{self._quantiles_parameter}={getattr(self, self._quantiles_parameter)}"

    def _set_released(self, released):
        self._set_values(released)
        self.n_rows_ = released.n_rows
        self.error_in_bins_ = np.zeros(len(released.values))
        if released.n_rows is not None:  # None if nothing was drawn
            n_low = cautious_count(released.n_rows, released.plan.count_budget)
            self.error_in_bins_ = errors_in_bins(released.plan, n_low)

    def _warn_about(self, released):
        if released.n_rows is None:
            return
        warn_if_noisy(
            released,
            self.error_in_bins_,
            self._fewer_quantiles(),
            self._other_steps(released.plan),
        )

    def _other_steps(self, plan):
        """Return remedies of this transformer as a dict from words to factors of improvement."""
        return {}

    def _fewer_quantiles(self):
        """Return the settings that a warning may suggest, as a dict from words to probabilities."""
        noun = self._quantiles_parameter.removeprefix("n_")
        return {f"{n} {noun}": found for n, found in self._probabilities_by_number.items()}

    def quality_report(self, description=None):
        """Return a table with the expected quality of the private quantiles of each feature.

        The report is computed from released numbers and public facts. You can show it to everyone
        who may see the fitted transformer. A fit releases the number of rows, but not the number
        of values that are missing in each feature. Without `description`, the report assumes that
        few values are missing.

        Parameters
        ----------
        description : table of :func:`dp_describe` or None, default=None
            A description of the same rows. Its released counts show which features are mostly
            missing, and correct the expected errors of all other features.

        Returns
        -------
        report : pandas.DataFrame, or SmallTable if pandas is not installed
            A table with a row for each feature and these columns:

            - "feature": the name of the feature.
            - "bins": the number of bins between the private quantiles.
            - "edges": the private quantiles.
            - "error_in_bins": the expected error of a private quantile, in bins.
            - "verdict": the quality in words. If some edges are equal, it includes the number of
              bins that can hold rows.
            - "caveat": the released count and the assumptions of the verdict.
            - "advice": the steps that would help, if the feature is mostly noise.
        """
        check_is_fitted(self)

        names = _check_feature_names_in(self)
        own_names = getattr(self, "feature_names_in_", None)
        bounds = per_feature_bounds(self.bounds, self.n_features_in_, own_names)
        plan = self._plan_of_fit()
        values = self._private_values()

        counts = None
        errors = self.error_in_bins_
        if description is not None and self.n_rows_ is not None:
            counts = counts_of_values(description, self.n_features_in_, own_names)
            errors = errors_with_counts(plan, counts)

        return make_report(
            names,
            values,
            self._shown_values(),
            bounds,
            errors,
            n_exact=self._numbers_of_exact_edges(),
            problems=self._problems(values, plan, counts),
            caveats=self._caveats(plan, errors, counts),
            advice=self._advice(plan) if (errors > TOO_FAR_OFF).any() else "",
        )

    def _problems(self, values, plan, counts):
        """Return the reason why the edges of each feature are useless, or an empty text."""
        problems = ends_in_words(values, plan.grid)
        if counts is None:
            return problems

        missing = missing_in_words(counts, self.n_rows_, self.privacy_.neighbours.value)
        return [of_feature or end for of_feature, end in zip(missing, problems, strict=True)]

    def _caveats(self, plan, errors, counts):
        """Return the assumptions of the verdict on each feature."""
        n_features = self.n_features_in_
        if self.n_rows_ is None:
            return ["no rows were read"] * n_features

        rows = count_in_words(self.n_rows_, plan.count_budget, self.privacy_.neighbours.value)
        if counts is None:
            rows += ", if few values are missing"
        n_low = cautious_count(self.n_rows_, plan.count_budget)
        is_noise_if_narrow = errors_if_narrow(plan, n_low) > TOO_FAR_OFF
        needs_bounds = is_noise_if_narrow & (errors <= TOO_FAR_OFF)
        narrow = "; narrow values far from zero, such as years, need bounds"
        return [rows + narrow * needs for needs in needs_bounds.tolist()]

    def _advice(self, plan):
        return advice(plan, self.n_rows_, self._fewer_quantiles(), self._other_steps(plan))

    def _numbers_of_exact_edges(self):
        """Return the number of public edges of each feature."""
        return [0] * self.n_features_in_

    def _plan_of_fit(self):
        """Return the plan that the fit followed, from public facts and the released count.

        The forecasts do not depend on the resolution. The dtypes of the rows are not kept, so with
        ``decimals="schema"`` all features other than dates count as whole numbers.
        """
        plan = self._plan(
            self.n_features_in_,
            self._total_budget(),
            neighbours=self.privacy_.neighbours,
            dtypes=[_DTYPES_OF_KINDS[kind] for kind in self._kinds()],
        )
        return plan.choose(plan.candidates, self.n_rows_) if isinstance(plan, PlanChoice) else plan

    def __sklearn_clone__(self):
        # A clone of a fitted prior would be unfitted.
        clone = BaseEstimator.__sklearn_clone__(self._with(prior=None))
        clone.prior = self.prior
        return clone

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
