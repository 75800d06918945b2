"""Base class of all private transformers: budget, ledger, people, containers and export."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import repeat, zip_longest
from numbers import Integral, Real
from os import PathLike

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import neighbours_of
from dpq_sklearn.checks import shown
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.estimators.compat import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    check_names,
    is_seeding_an_ensemble,
    output_container,
)
from dpq_sklearn.estimators.docstrings import inherit_docstring
from dpq_sklearn.estimators.plain_steps import set_output_of_steps
from dpq_sklearn.forecast.enough_data import warn_of_large_delta
from dpq_sklearn.home import DOCUMENTATION, template_of_doc_links
from dpq_sklearn.reading.containers import (
    checked_table,
    library_of,
    no_data_in_frames,
    no_table_in_words,
)
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.priors import mark_as_released
from dpq_sklearn.reading.sources.batches import Batches
from dpq_sklearn.reading.sources.protocol import RowMap
from dpq_sklearn.reading.sources.registry import source_of
from dpq_sklearn.reading.threads import Progress, check_n_jobs
from dpq_sklearn.releases.release import pay, release


def _hiding_unknown_keywords(fit):
    """Remove ``**unknown`` from the signature that `help` and scikit-learn see.

    A wrapper function would add a stack frame that holds the data.
    """
    whole = signature(fit)
    named = [each for each in whole.parameters.values() if each.kind is not each.VAR_KEYWORD]
    fit.__signature__ = whole.replace(parameters=named)
    return fit


class PrivateTransformer(TransformerMixin, BaseEstimator):
    """Base class of all private transformers.

    A subclass implements the plan of a fit (`_plan_fit`), the fitted attributes (`_set_released`),
    the transformation of rows (`_transform_rows`, `_inverse_transform_rows`), its counterpart in
    scikit-learn (`_plain`) and the cost of a fit (`_planned_loss`). Its docstring inherits the
    entries below.

    Parameters
    ----------
    eps : float, default=1.0
        The privacy budget of a fit, which all features share. A smaller eps gives more privacy and
        less accuracy.
    delta : float, default=0.0
        The fit is (eps, delta)-differentially private.
    privacy_unit : {"auto", "row", "person"}, default="auto"
        The unit that the guarantee protects.

        - "auto": people if `groups` are passed to `fit`, and rows otherwise.
        - "person": people, with all of their rows (user-level privacy). `fit` requires `groups`.
        - "row": single rows. `fit` rejects `groups`.

        A search such as GridSearchCV does not pass `groups` to the transformer by default. Set
        "person" if people must be protected.
    feature_weights : array-like, dict or None, default=None
        The weights by which the features share the budget: one positive number per feature, or a
        dict from feature names to numbers. Features that are not in the dict have the weight 1.
        None gives all features equal shares.
    n_jobs : int or None, default=None
        The number of threads. None means 1 unless in a joblib context, and -1 means all cores. The
        result does not depend on it.
    random_state : None, int or RandomState, default=None
        The seed of the noise. Keep None for private data, because anyone who knows the seed can
        remove the noise. With None, the noise comes from the operating system. This is also true
        inside ensembles such as BaggingClassifier, which set the seeds of all other estimators in
        them.
    ledger : PrivacyLedger, str, path or None, default=None
        The ledger that `fit` charges before it reads `X`: a :class:`PrivacyLedger`, the absolute
        path of its file, or the address of a server (``postgresql://user@host/database#name``).
        `fit` raises `BudgetExceededError` if the ledger's budget does not suffice. None charges no
        ledger.

    Attributes
    ----------
    privacy_ : PrivacyLoss
        The privacy loss of the fit.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features seen during `fit`. Defined only if all names are strings.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        inherit_docstring(cls)

    _parameter_constraints: dict = {  # noqa: RUF012
        "eps": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "privacy_unit": [StrOptions({"auto", "row", "person"})],
        "feature_weights": ["array-like", dict, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "ledger": [PathLike, str, HasMethods(["spent", "remaining"]), None],
    }

    def set_params(self, **params):
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Estimator parameters. An ensemble of scikit-learn cannot replace
            ``random_state=None`` by a seed: the seed would have 31 bits and be stored in the fitted
            ensemble, so that the noise could be removed.

        Returns
        -------
        self : estimator
            The estimator itself.
        """
        if "random_state" in params and self.random_state is None and is_seeding_an_ensemble():
            del params["random_state"]
        return super().set_params(**params)

    _doc_link_module = "dpq_sklearn"
    _doc_link_template = template_of_doc_links(DOCUMENTATION)

    #: whether `transform` returns a sparse matrix
    _makes_sparse_rows = False
    #: the equivalent scikit-learn class without privacy, and the settings that it needs
    _counterpart: type
    _counterpart_settings: dict = {}  # noqa: RUF012

    @_fit_context(prefer_skip_nested_validation=True)
    @_hiding_unknown_keywords
    def fit(self, X, y=None, groups=None, **unknown):
        """Fit the transformer to private rows. Every call spends the budget.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            The private rows. Workers count the rows in each partition of a dask or Spark
            collection and return only the counts.
        y : None
            Ignored. Present for compatibility with pipelines.
        groups : array-like of shape (n_samples,), str or None, default=None
            The person each row belongs to, as any hashable label. A missing label counts as a
            separate person. With `groups`, the fit protects all rows of a person together, for the
            same eps. If `X` is a table with column names, you can pass the name of the column that
            holds the labels. This column is not a feature, and tables for `transform` do not have
            it. For dask collections, you can also pass a dask Series or Array with the same
            partitions.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        for name, value in unknown.items():
            if name == "sample_weight" and value is None:
                continue
            why = " A weight would change the cost of a row." if name == "sample_weight" else ""
            method = f"{type(self).__name__}.fit()"
            raise TypeError(f"{method} got an unexpected keyword argument {name!r}.{why}")

        budget = self._total_budget()
        neighbours = self._neighbours(groups)
        randomness = make_randomness(self.random_state)
        check_n_jobs(self.n_jobs)
        draft = self._draft()
        with no_data_in_frames():
            source = source_of(X, groups, self.n_jobs)
            table = draft._checked_table(source.typed_rows(), reset=True)
            draft._check_rows(X)
            plan = draft._plan_fit(table, source, budget, neighbours)
            return self._fit_draft(draft, plan, source, randomness, method="fit")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_batches(
        self, batches, *, groups=None, groups_are_whole=False, verbose=False, callback=None
    ):
        """Fit the transformer to private rows in batches. Every call spends the budget once.

        The batches are read once, in memory that does not grow with the number of rows. For the
        same `random_state`, the result depends neither on the order of the rows nor on their
        division into batches. The ledger is charged as soon as the columns of the first batch are
        known. If a later batch fails, the transformer is unfitted, and nothing is released.

        Parameters
        ----------
        batches : iterable
            The private rows, as arrays, pandas or polars DataFrames, Arrow record batches or Arrow
            tables. All batches have the same columns, and batches may be empty.
        groups : iterable, str or None, default=None
            The person each row belongs to, as in `fit`: a column of labels for each batch, or the
            name of the column that holds the labels in every batch.
        groups_are_whole : bool, default=False
            Set it to True to confirm that all rows of a person are in the same batch, which
            `groups` require. `fit_batches` does not check this, because a check would have to store
            all labels, and its result would depend on them.
        verbose : bool, default=False
            Whether to print the exact number of rows read so far and the speed to standard error.
            Do not publish this output: the exact number of rows is not part of the private release.
        callback : callable or None, default=None
            A function that is called after every batch with the number of batches, rows and seconds
            so far.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        _refuse_what_is_no_batches(batches)
        if groups is not None and groups_are_whole is not True:
            raise ValueError(
                "groups require groups_are_whole=True in fit_batches, because all rows of a person "
                f"must be in the same batch, got groups_are_whole={shown(groups_are_whole)}."
            )

        budget = self._total_budget()
        neighbours = self._neighbours(groups)
        randomness = make_randomness(self.random_state)
        check_n_jobs(self.n_jobs)
        draft = self._draft()

        with no_data_in_frames():
            tables = draft._checked_batches(batches, groups)
            source = Batches.of(tables, self.n_jobs, Progress(verbose, callback))
            if source is None:
                raise ValueError("batches must hold at least one batch, got none.")

            plan = draft._plan_fit(source.typed_rows(), source, budget, neighbours)
            return self._fit_draft(draft, plan, source, randomness, method="fit_batches")

    def _checked_batches(self, batches, groups):
        """Yield each batch as a checked table with its groups, or None."""
        for number, (batch, labels) in enumerate(_with_labels(batches, groups)):
            X = self._checked_table(batch, reset=number == 0, least=0, name="each batch")
            self._check_rows(batch)
            if groups is not None:
                labels = checked_groups(labels, X.shape[0])
            yield X, labels

    def _total_budget(self):
        """Return the checked budget of a fit."""
        return TotalBudget(self.eps, self.delta)

    def _check_rows(self, X):
        """Raise if the private rows must not be passed to a fit with these parameters."""

    def _plan_fit(self, table, source, budget, neighbours):
        """Return the plan of a fit of a checked table that `source` will read."""
        raise NotImplementedError

    def _planned_loss(self, n_features=None):
        """Return an upper bound of the cost of a fit, without data."""
        raise NotImplementedError

    def _neighbours(self, groups):
        """Return the neighbouring relation, or raise if `privacy_unit` contradicts `groups`."""
        if self.privacy_unit == "person" and groups is None:
            raise ValueError(
                'privacy_unit="person" requires groups, the person each row belongs to, got '
                "groups=None. A search or a cross-validation passes its groups to the splitter "
                "only. Pass them to the transformer as well (step__groups), or enable metadata "
                "routing and call set_fit_request(groups=True)."
            )
        if self.privacy_unit == "row" and groups is not None:
            raise ValueError(
                'privacy_unit="row" rejects groups, got groups. To protect people, set '
                'privacy_unit="person".'
            )
        return neighbours_of(groups)

    def _draft(self):
        """Return an unfitted copy, which a fit works on."""
        draft = copy(self)
        draft._forget()
        return draft

    def _with(self, **changes):
        """Return a shallow copy with other parameters."""
        other = copy(self)
        vars(other).update(changes)
        return other

    def __setstate__(self, state):
        super().__setstate__(state)
        # Pickles of earlier versions lack the parameters that came later.
        for name, parameter in signature(type(self)).parameters.items():
            vars(self).setdefault(name, parameter.default)

    def _forget(self):
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _fit_draft(self, draft, plan, source, randomness, *, method):
        """Pay for a plan, read, draw, and take over the fitted attributes of the draft.

        A failure before the price is paid leaves an earlier fit as it was. A failure after that
        leaves nothing fitted.
        """
        paid = pay(
            plan,
            self.ledger,
            randomness,
            what=f"{type(self).__name__}.{method}",
            columns=getattr(draft, "feature_names_in_", draft.n_features_in_),
            detail=self._detail(),
        )

        self._forget()
        released = release(paid, source)

        # From here on, everything depends on released numbers only, including the warnings.
        with np.errstate(all="ignore"):
            draft.privacy_ = paid.loss
            draft._set_released(released)
            vars(self).update(vars(draft))
            self._warn_about(released)
            if getattr(self, "n_rows_", None) is not None:
                warn_of_large_delta(self.privacy_.delta, self.n_rows_)

        return self

    def _detail(self):
        """Return the parameters of a fit in words, for the record in the ledger."""
        raise NotImplementedError

    def _set_released(self, released):
        """Set the fitted attributes from the released numbers or categories."""
        raise NotImplementedError

    def _warn_about(self, released):
        """Warn if the release is likely to be of little use."""

    def _checked_table(self, X, *, reset, least=1, name="X"):
        """Return `X` after checks of its types, shape and names."""
        X = self._checked_types(X, name)

        # scikit-learn raises its own error. It gets zeros, so that it cannot quote a cell.
        if sparse.issparse(X) or len(X.shape) != 2 or 0 in X.shape:
            options = {"ensure_min_samples": least, "ensure_all_finite": False}
            zeros = X if sparse.issparse(X) else np.broadcast_to(0.0, X.shape)
            check_array(zeros, estimator=self, input_name="X", **options)

        check_names(self, X, reset=reset)
        return X

    def _checked_types(self, X, name):
        """Return `X` as a table with a shape and dtypes, or raise if a dtype is not numeric."""
        return checked_table(X, name)

    def transform(self, X):
        """Transform rows. The transformed rows are not private.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            The rows to transform, with the same features as in `fit`.

        Returns
        -------
        Xt : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            The transformed rows. For dask and Spark, a lazy collection of the same kind as `X`.
        """
        check_is_fitted(self)

        return source_of(X).map_rows(self._transforming_map())

    def fit_transform(self, X, y=None, **fit_params):
        """Fit to private rows, then transform them. Every call spends the budget.

        If the rows cannot be transformed to the requested kind of output, the call raises an error
        before it spends any budget.

        Parameters
        ----------
        X : {array-like, dask or Spark DataFrame, dask Array} of shape (n_samples, n_features)
            The private rows.
        y : None
            Ignored. Present for compatibility with pipelines.
        **fit_params : dict
            Other arguments of `fit`, such as `groups`.

        Returns
        -------
        Xt : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            The transformed rows, which are not private. For dask and Spark, a lazy collection of
            the same kind as `X`.
        """
        groups = fit_params.get("groups")
        with no_data_in_frames():
            source_of(X).refuse_output(self._transforming_map())
        if not isinstance(groups, str):
            return super().fit_transform(X, y, **fit_params)

        with no_data_in_frames():
            features = source_of(X, groups).features()  # without the column of labels
        return self.fit(X, y, **fit_params).transform(features)

    def inverse_transform(self, X):
        """Map transformed rows back to values of the features.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask or Spark collection} of shape (n_samples, n_columns)
            Rows as `transform` returns them. The encoders of categories accept only rows in memory.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            A value for each feature of each row. A bin becomes its centre, a probability becomes
            its quantile, and a code becomes its category. Dates are returned as dates. If other
            features are numbers, the result is then an array of objects. For dask and Spark, dates
            are returned as days since 1970-01-01.
        """
        check_is_fitted(self)

        names = partial(_check_feature_names_in, self)
        inverse = self._row_map("_inverse_transform_rows", names)
        return source_of(X).map_rows(replace(inverse, function=self._original_values))

    def _original_values(self, X):
        """Return the original values of transformed rows in memory."""
        return self._inverse_transform_rows(X)

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
        """Return this estimator without parameters that workers do not need."""
        # Partitions may be shared, so they must not be overwritten even if `copy` is False.
        return self._with(ledger=None, n_jobs=None, copy=True)

    def to_sklearn(self):
        """Return the equivalent fitted transformer of scikit-learn.

        The result can be used without dpq_sklearn, and transforms finite data in the same way. It
        has the same privacy guarantee as this transformer.

        Returns
        -------
        transformer : estimator of sklearn.preprocessing or sklearn.pipeline.Pipeline
            The fitted transformer. A `DPRobustScaler` with `clip` becomes a Pipeline with a
            RobustScaler and a MinMaxScaler, which clips. If some features are dates, the result is
            a Pipeline, and its first two steps convert dates to days since 1970-01-01.
        """
        check_is_fitted(self)

        return self._exported(self._plain_steps())

    def _plain_steps(self):
        """Return fitted scikit-learn steps that are together equivalent to this transformer."""
        plain = self._plain()
        mark_as_released(plain)
        return [step for _, step in plain.steps] if isinstance(plain, Pipeline) else [plain]

    def _exported(self, steps):
        """Return the steps as one transformer with the same feature names and output container."""
        if hasattr(self, "feature_names_in_"):
            steps[0].feature_names_in_ = self.feature_names_in_.copy()
        if output_container(self) != "default":
            names = _check_feature_names_in(self)
            for step in steps[1:]:
                if step.n_features_in_ == names.size:  # it sees DataFrames with these names
                    step.feature_names_in_ = names.copy()

        own_output = getattr(self, "_sklearn_output_config", {})
        set_output_of_steps(steps, own_output.get("transform"))
        return make_pipeline(*steps) if len(steps) > 1 else steps[0]


def _refuse_what_is_no_batches(batches):
    """Raise unless `batches` is an iterable that may yield tables. Nothing is read."""
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
    """Yield each batch with its column of labels or None. Raise if their numbers differ."""
    if groups is None:
        yield from zip(batches, repeat(None), strict=False)
        return
    if isinstance(groups, str):  # the name of a column of each batch
        for batch in batches:
            source = source_of(batch, groups)
            yield source.features(), source.groups
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
