"""What the transformers share: from `fit(X)` to the released quantiles of every feature."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import getdoc, signature
from itertools import chain, repeat, zip_longest
from numbers import Integral, Real
from os import PathLike

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import shown
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.estimators.compat import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    check_names,
    output_container,
)
from dpq_sklearn.estimators.noise_warning import warn_if_noisy
from dpq_sklearn.estimators.parameters import (
    bounds_of_features,
    lattices_of_features,
    weights_of_features,
)
from dpq_sklearn.estimators.planned import planned_loss
from dpq_sklearn.estimators.report import make_report
from dpq_sklearn.forecast.enough_data import cautious_count, chosen_plan, errors_in_bins
from dpq_sklearn.home import DOCUMENTATION, template_of_doc_links
from dpq_sklearn.mechanisms.registry import MECHANISMS
from dpq_sklearn.reading.containers import (
    checked_table,
    library_of,
    no_data_in_frames,
    no_table_in_words,
)
from dpq_sklearn.reading.engines.protocol import RowMap
from dpq_sklearn.reading.engines.registry import collection_of
from dpq_sklearn.reading.groups import checked_groups, neighbours_of
from dpq_sklearn.reading.priors import priors_of_features, refuse_private_rows
from dpq_sklearn.reading.schema import dtypes_of
from dpq_sklearn.reading.sources import Batches
from dpq_sklearn.reading.threads import Progress
from dpq_sklearn.releases.plans import plan_choice, plan_quantiles
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Column, CountRole, Request


def _hiding_unknown_keywords(fit):
    """Take ``**unknown`` out of the signature that `help` and scikit-learn see.

    A wrapper would do as well, but it would be one frame more that holds the data.
    """
    whole = signature(fit)
    named = [each for each in whole.parameters.values() if each.kind is not each.VAR_KEYWORD]
    fit.__signature__ = whole.replace(parameters=named)
    return fit


class PrivateQuantileTransformer(TransformerMixin, BaseEstimator):
    """Base of the transformers whose fitted state is a set of private quantiles per feature.

    A subclass says which quantiles it wants (`_candidate_probabilities`), what it makes of them
    (`_set_values`, `_private_values`), how it transforms rows (`_transform_rows`,
    `_inverse_transform_rows`), and its counterpart in scikit-learn (`_plain`). Its docstring
    gets what is the same for all transformers:

    Parameters
    ----------
    eps : float or None, default=1.0
        Privacy budget of a fit: less is more private and less accurate. None if `rho` is given.
    delta : float, default=0.0
        With ``delta > 0`` the fit is (eps, delta)-DP, which helps with many features.
    rho : float or None, default=None
        Budget in zero-concentrated DP instead, with ``eps=None``.
    privacy_unit : {"auto", "row", "person"}, default="auto"
        What the budget protects: a row, or with `groups` a person with all rows. "person" refuses a
        fit without `groups`, which a search does not hand on by itself, "row" one with them. "auto"
        takes either.
    bounds : None, pair, list of pairs or dict, default=None
        Public bounds, never taken from the data: one pair ``(low, high)`` for all features, or
        one for each, by position or name. None is an open end. Values outside are clipped. A dict
        may leave features out, but an entry for one that `X` has not is an error, as in all
        parameters: else a misspelt name would pass for no bounds.
    decimals : None, int, array-like, dict or "schema", default=None
        What is publicly known of the numbers: how many decimals they have, 0 for whole numbers, -3
        for thousands; one for all features, or one for each by position or name. Values are rounded
        to it. None is unknown. "schema" takes integers and booleans at their word: only for types
        that were declared, and not guessed from the values as by ``read_csv``.
    prior : array-like, fitted transformer or None, default=None
        Public rows with the same columns, or an earlier release: a fitted transformer of this
        package, what its `to_sklearn` returned, or a table of :func:`dp_describe`. The quantiles
        are looked for where the prior has them, at no cost; a wrong prior costs little accuracy.
        Never a part of the private rows.
    feature_weights : array-like, dict or None, default=None
        Weights by which the features share the budget. None is equal shares.
    mechanism : {"aq", "joint_exp", "ind_exp", "agg_tree", "auto"}, default="aq"
        What finds the quantiles; "auto" takes AQ, or counts of the few points that `decimals` and
        `bounds` may leave, by public facts.
    resolution : int or None, default=None
        The public grid has ``2**resolution`` cells. None is 40, and 24 for batches,
        Dask and Spark.
    n_jobs : int or None, default=None
        Number of threads, as in joblib. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None for real data: anyone who knows a seed can remove the noise.
    ledger : PrivacyLedger, absolute path or None, default=None
        Where each fit is charged before `X` is read; one beyond the budget raises.

    Attributes
    ----------
    n_rows_ : int
        The number of rows, or of people with `groups`, released with noise.
    error_in_bins_ : ndarray of shape (n_features,)
        The expected error of an edge of each feature, in bins; see :meth:`quality_report`.
    privacy_ : PrivacyLoss
        What the fit cost.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features,)
        Number and names of the features seen during `fit`; names only if all are strings.

    Notes
    -----
    **Privacy.** Neighbours: datasets that differ by adding or removing one row. The fitted state
    is an (eps, delta)-DP (or rho-zCDP) function of the rows given to `fit`. What `transform`
    returns for a row is *not* private: it tells the bin or the rank of that row. Every refit
    spends anew.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if cls.__doc__:  # else it is a user's subclass, or Python runs without docstrings
            _, parameters, the_rest = getdoc(PrivateQuantileTransformer).split("----------\n")
            parameters = parameters.removesuffix("\nAttributes\n").rstrip()

            text = getdoc(cls).replace("{shared parameters}", parameters)
            cls.__doc__ = text.replace("{shared attributes and notes}", the_rest)

    _parameter_constraints: dict = {  # noqa: RUF012
        "eps": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "rho": [Interval(Real, 0, None, closed="neither"), None],
        "privacy_unit": [StrOptions({"auto", "row", "person"})],
        "bounds": ["array-like", dict, None],
        "decimals": [Integral, "array-like", dict, StrOptions({"schema"}), None],
        "prior": ["array-like", HasMethods(["get_params"]), None],
        "feature_weights": ["array-like", dict, None],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "resolution": [Interval(Integral, 1, FULL_RESOLUTION, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "ledger": [PathLike, str, HasMethods(["spent", "remaining"]), None],
    }

    _doc_link_module = "dpq_sklearn"
    _doc_link_template = template_of_doc_links(DOCUMENTATION)

    #: whether `transform` returns a sparse matrix
    _makes_sparse_rows = False
    #: the class of scikit-learn that does the same, but for privacy
    _counterpart: type
    #: the parameter that says which quantiles a feature gets
    _quantiles_parameter: str
    #: those that have one entry for each feature and change what a fit costs
    _parameters_with_a_cost = ("feature_weights",)
    #: the probabilities that "auto" tries, each finer than the one before, by the number that a
    #: user would set instead; empty if there is no such number
    _probabilities_by_number: dict = {}  # noqa: RUF012

    @_fit_context(prefer_skip_nested_validation=True)
    @_hiding_unknown_keywords
    def fit(self, X, y=None, groups=None, **unknown):
        """Find the private quantiles of every feature; spends the budget.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            The private rows. Of a dask collection or a Spark DataFrame every partition is counted
            where it is, and only the counts travel.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), str or None, default=None
            Whose row each one is: any hashable labels; a missing one is a person of its own. Of a
            dask or Spark DataFrame, the name of the column that holds them, which is no feature
            then; of dask collections also a dask Series or Array with the same partitions. Each
            of a person's k rows weighs 1/k, so the fit protects all rows of a person together at
            no extra eps. "joint_exp" takes no groups.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        for name, value in unknown.items():
            if name == "sample_weight" and value is None:
                continue
            why = " A weight would change what a row costs." if name == "sample_weight" else ""
            method = f"{type(self).__name__}.fit()"
            raise TypeError(f"{method} got an unexpected keyword argument {name!r}.{why}")

        budget = self._total_budget()
        neighbours = self._neighbours(groups)
        randomness = make_randomness(self.random_state)
        draft = self._draft()
        with no_data_in_frames():
            collection = collection_of(X, groups)
            table = draft._checked_table(collection.typed_rows(), reset=True)
            refuse_private_rows(self.prior, X)
            source = collection.source(table, self.n_jobs)
            plan = draft._plan(
                table.shape[1],
                budget,
                source.default_resolution,
                neighbours,
                dtypes_of(table),
            )
            return self._fit_draft(draft, plan, source, randomness, method="fit")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_batches(
        self, batches, *, groups=None, groups_are_whole=False, verbose=False, callback=None
    ):
        """Find the private quantiles of rows that come in batches; spends the budget once.

        One pass, in memory that is bounded by the `resolution` and not by the number of rows. The
        same rows give the same result, however they are divided and ordered, for the same
        `random_state`; and the result of `fit` with the same `resolution`. The ledger is charged
        when the columns of the first batch are known. Whatever stops the reading after that leaves
        the transformer unfitted, with nothing released.

        Parameters
        ----------
        batches : iterable
            Of arrays, pandas or polars DataFrames, or Arrow record batches or tables: each a part
            of the private rows, with the same columns. Empty ones are fine.
        groups : iterable or None, default=None
            The labels of the rows of each batch, as in `fit`: one column of labels per batch.
        groups_are_whole : bool, default=False
            Whether all rows of a person are in one batch. `groups` need that, and nobody checks it:
            a check would have to keep all labels, and its result would tell about them.
        verbose : bool, default=False
            Whether to print a line with the rows read and the rate to standard error. It is meant
            for those who hold the data: the number of rows is not part of the private release.
        callback : callable or None, default=None
            Called after every batch with the batches, the rows and the seconds so far.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        _refuse_what_is_no_batches(batches)
        if groups is not None and groups_are_whole is not True:
            raise ValueError(
                "groups need groups_are_whole=True in fit_batches: all rows of a person must be in "
                f"one batch, got groups_are_whole={shown(groups_are_whole)}."
            )

        budget = self._total_budget()
        neighbours = self._neighbours(groups)
        randomness = make_randomness(self.random_state)
        draft = self._draft()

        with no_data_in_frames():
            tables = draft._checked_batches(batches, groups)
            first = next(tables, None)
            if first is None:
                raise ValueError("batches must hold at least one batch, got none.")

            source = Batches(chain([first], tables), self.n_jobs, Progress(verbose, callback))
            plan = draft._plan(
                first[0].shape[1],
                budget,
                source.default_resolution,
                neighbours,
                dtypes_of(first[0]),
            )
            return self._fit_draft(draft, plan, source, randomness, method="fit_batches")

    def _checked_batches(self, batches, groups):
        """Yield each batch as a checked table with its groups, or None."""
        for number, (batch, labels) in enumerate(_with_labels(batches, groups)):
            X = self._checked_table(batch, reset=number == 0, least=0, name="each batch")
            refuse_private_rows(self.prior, batch)
            if groups is not None:
                labels = checked_groups(labels, X.shape[0])
            yield X, labels

    def _total_budget(self):
        """Return what a fit may cost, checked: a fit begins with this."""
        return TotalBudget(self.eps, self.delta, self.rho)

    def _neighbours(self, groups):
        """Return which datasets are neighbours; raise if `privacy_unit` wants the others."""
        if self.privacy_unit == "person" and groups is None:
            raise ValueError(
                'privacy_unit="person" must be fitted with groups, which say whose row each one '
                "is, got groups=None. A search or a cross-validation gives its groups to the "
                "splitter only: pass them by the name of the step too (step__groups), or request "
                "them by set_fit_request(groups=True) with metadata routing enabled."
            )
        if self.privacy_unit == "row" and groups is not None:
            raise ValueError(
                'privacy_unit="row" must be fitted without groups, got groups. With them the fit '
                'protects people: set privacy_unit="person".'
            )
        return neighbours_of(groups)

    def _draft(self):
        """Return an unfitted copy, on which a fit works."""
        draft = copy(self)
        draft._forget()
        return draft

    def _with(self, **changes):
        """Return a shallow copy with other parameters."""
        other = copy(self)
        vars(other).update(changes)
        return other

    def _forget(self):
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _fit_draft(self, draft, plan, source, randomness, *, method):
        """Pay for a plan, read and draw; then take over what the draft has become.

        A failure before the price is paid leaves an earlier fit as it was. A failure after that
        leaves nothing fitted.
        """
        paid = pay(
            plan,
            self.ledger,
            randomness,
            what=f"{type(self).__name__}.{method}",
            columns=getattr(draft, "feature_names_in_", draft.n_features_in_),
            detail=f"{self._quantiles_parameter}={getattr(self, self._quantiles_parameter)}",
        )

        self._forget()
        released = release(paid, source)

        # From here on released numbers and public facts decide, about the warning, too.
        with np.errstate(all="ignore"):
            draft._set_released(released, paid.loss)
            vars(self).update(vars(draft))
            warn_if_noisy(released, self.error_in_bins_.mean(), self._fewer_quantiles())

        return self

    def _set_released(self, released, loss):
        """Set all fitted attributes."""
        n_low = cautious_count(released.n_rows, released.plan.count_budget)

        self._set_values(released)
        self.n_rows_ = released.n_rows
        self.privacy_ = loss
        self.error_in_bins_ = errors_in_bins(released.plan, n_low)

    def _fewer_quantiles(self):
        """Return what a user may ask for, in words, and the probabilities that this means."""
        noun = self._quantiles_parameter.removeprefix("n_")
        return {f"{n} {noun}": found for n, found in self._probabilities_by_number.items()}

    def quality_report(self):
        """Say how good the private quantiles of each feature are expected to be.

        A table from released numbers and public facts: it may be shown to anyone who may see the
        fitted transformer. It does not look at the columns, of which one with many missing
        values can be worse than it says.

        Returns
        -------
        report : pandas.DataFrame, or dict of arrays if pandas is not installed
            For each feature its name, its number of bins, the private edges between them, the
            expected error of an edge in bins, a verdict in words, and on what it rests. Equal
            edges make bins that can hold no rows: the verdict counts the others.
        """
        check_is_fitted(self)

        names = _check_feature_names_in(self)
        own_names = getattr(self, "feature_names_in_", None)
        bounds = bounds_of_features(self.bounds, self.n_features_in_, own_names)
        return make_report(names, self._private_values(), bounds, self.error_in_bins_)

    def _planned_loss(self, n_features=None):
        """Return what a fit will cost at most, without data."""
        return planned_loss(self, n_features)

    def _with_equal_features(self):
        """Return copies with equal features, one for each kind of feature that there may be."""
        return [self._with(feature_weights=None)]

    def _plan(
        self,
        n_features,
        budget,
        resolution=FULL_RESOLUTION,
        neighbours=Neighbours.ROWS,
        dtypes=None,
    ):
        """Return the plan of a fit; `resolution` is what the parameter means if it is None.

        The `dtypes` of the columns are looked at only if a user vouches for them.
        """
        names = getattr(self, "feature_names_in_", None)
        candidates = self._candidate_probabilities(n_features, names)
        bounds, decimals = lattices_of_features(
            self.bounds, self.decimals, n_features, names, dtypes
        )
        priors = priors_of_features(self.prior, n_features, names)
        weights = weights_of_features(self.feature_weights, n_features, names)
        is_choice = len(candidates) > 1

        requests = [
            Request(
                columns=map(Column, probabilities, bounds, decimals, priors),
                budget=budget,
                mechanism_name=self.mechanism,
                weights=weights,
                resolution=resolution if self.resolution is None else self.resolution,
                neighbours=neighbours,
                count=CountRole.CHOOSES if is_choice else CountRole.BESIDE,
                is_added_up=self.ledger is not None,
            )
            for probabilities in candidates
        ]

        if is_choice:
            return plan_choice(requests, choose=chosen_plan)
        return plan_quantiles(*requests)

    def _candidate_probabilities(self, n_features, names):
        """Return what a fit may choose from: lists of the probabilities of all features.

        Each candidate is finer than the one before. The released count chooses if there are
        several.
        """
        raise NotImplementedError

    def _checked_table(self, X, *, reset, least=1, name="X"):
        """Return `X` after checks of its types, shape and names, for `read_matrix`."""
        X = checked_table(X, name)

        # scikit-learn refuses in its own words. It gets zeros, so it can quote no cell.
        if sparse.issparse(X) or len(X.shape) != 2 or 0 in X.shape:
            options = {"ensure_min_samples": least, "ensure_all_finite": False}
            zeros = X if sparse.issparse(X) else np.broadcast_to(0.0, X.shape)
            check_array(zeros, estimator=self, input_name="X", **options)

        check_names(self, X, reset=reset)
        return X

    def transform(self, X):
        """Transform rows by the private quantiles.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            Rows to be transformed. The result is as private as they are: not at all.

        Returns
        -------
        Xt : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            The transformed rows; of dask and Spark lazily, in the same kind of container.
        """
        check_is_fitted(self)

        return collection_of(X).map_rows(self._transforming_map())

    def fit_transform(self, X, y=None, **fit_params):
        """Fit to `X`, then transform it; what `transform` would refuse is refused before the fit.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            The private rows.
        y : None
            Ignored.
        **fit_params : dict
            What else `fit` takes: `groups`.

        Returns
        -------
        Xt : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            The transformed rows; of dask and Spark lazily, in the same kind of container.
        """
        collection_of(X).refuse_output(self._transforming_map())
        return super().fit_transform(X, y, **fit_params)

    def inverse_transform(self, X):
        """Map transformed rows back, to a value in each bin or at each share.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask or Spark DataFrame, dask Array} of shape \
                (n_samples, n_features_out)
            Rows as `transform` returns them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The centres of the bins, or the values at the shares; NaN where they are missing.
        """
        check_is_fitted(self)

        names = partial(_check_feature_names_in, self)
        return collection_of(X).map_rows(self._row_map("_inverse_transform_rows", names))

    def _transforming_map(self):
        return replace(
            self._row_map("_transform_rows", self.get_feature_names_out),
            output=output_container(self),
            is_sparse=self._makes_sparse_rows,
        )

    def _row_map(self, method, names):
        """Return a method of this estimator as a map of rows."""
        return RowMap(getattr(self, method), getattr(self._for_workers(), method), names)

    def _for_workers(self):
        """Return this estimator without what a worker has no use for."""
        # Partitions may be shared: they must not be overwritten, whatever `copy` says.
        return self._with(ledger=None, n_jobs=None, copy=True)

    def to_sklearn(self):
        """Return a plain fitted transformer of scikit-learn with the private quantiles.

        It needs no dpq_sklearn where it is used, and its `transform` equals this one's on finite
        data. It is as private as this object.

        Returns
        -------
        transformer : {KBinsDiscretizer, QuantileTransformer, RobustScaler} of \
sklearn.preprocessing, or a Pipeline of such
            The fitted transformer. A `DPRobustScaler` with `clip` is a Pipeline that ends in a
            MinMaxScaler, which clips.
        """
        check_is_fitted(self)

        plain = self._plain()
        if hasattr(self, "feature_names_in_"):
            first = plain[0] if isinstance(plain, Pipeline) else plain
            first.feature_names_in_ = self.feature_names_in_.copy()

        own_output = getattr(self, "_sklearn_output_config", {})
        return plain.set_output(transform=own_output.get("transform"))

    def __sklearn_clone__(self):
        # A clone of the prior would be unfitted: it would have forgotten what it knows.
        clone = BaseEstimator.__sklearn_clone__(self._with(prior=None))
        clone.prior = self.prior
        return clone

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse_what_is_no_batches(batches):
    """Raise for a single table, and for what holds no tables; reads nothing."""
    kind = type(batches).__name__
    if kind == "LazyFrame":
        what = "a single LazyFrame: pass its collect_batches(), or fit its collect()"
    elif hasattr(batches, "shape") or library_of(batches) == "pyspark":
        what = f"a single {kind}: use fit, or put it into a list"
    elif isinstance(batches, (str, bytes, Mapping)) or not hasattr(batches, "__iter__"):
        what = no_table_in_words(batches)
    else:
        return
    raise TypeError(f"batches must be an iterable of tables, got {what}.")


def _with_labels(batches, groups):
    """Yield each batch with its column of labels, None without groups; raise if some are left."""
    if groups is None:
        yield from zip(batches, repeat(None), strict=False)
        return

    unpaired = "groups must have one column of labels for each batch."
    lengths = {len(each) for each in (batches, groups) if hasattr(each, "__len__")}
    if len(lengths) == 2:
        raise ValueError(unpaired)

    no_more = object()
    for batch, labels in zip_longest(batches, groups, fillvalue=no_more):
        if batch is no_more or labels is no_more:
            raise ValueError(unpaired)
        yield batch, labels
