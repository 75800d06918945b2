"""What the two transformers share: from `fit(X)` to the released quantiles of every feature."""

from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import chain
from numbers import Integral, Real
from os import PathLike
from threading import Lock
from traceback import clear_frames

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from dpq_sklearn.accounting import budgets_for, checked_positive
from dpq_sklearn.data.columns import (
    checked_table,
    fresh_columns,
    ignore_float_errors,
    read_matrix,
    readable_columns,
    stand_in,
)
from dpq_sklearn.data.threads import Progress, blocks_of_columns, in_threads
from dpq_sklearn.engine.grid import checked_bounds
from dpq_sklearn.engine.random import checked_random_state, make_randomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.engine.summaries import (
    FULL_RESOLUTION,
    SUMMARY_RESOLUTION,
    SummaryBuilder,
    ranks_of_summary,
    with_resolution,
)
from dpq_sklearn.estimators.compat import HasMethods, Interval, StrOptions, _fit_context
from dpq_sklearn.quantiles import MECHANISMS, charge_ledger, plan_release, release_values


class PrivateQuantileTransformer(TransformerMixin, BaseEstimator):
    """Base of the transformers whose fitted state is a set of private quantiles a feature."""

    _parameter_constraints: dict = {  # noqa: RUF012
        "eps": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "rho": [Interval(Real, 0, None, closed="neither"), None],
        "bounds": ["array-like", dict, None],
        "feature_weights": ["array-like", None],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "resolution": [Interval(Integral, 1, FULL_RESOLUTION, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "ledger": [PathLike, str, HasMethods(["spent", "remaining"]), None],
    }

    _doc_link_module = "dpq_sklearn"
    _doc_link_template = (
        "https://dpq-sklearn.readthedocs.io/en/latest/generated/dpq_sklearn.{estimator_name}.html"
    )

    def _doc_link_url_param_generator(self):
        return {"estimator_name": type(self).__name__}

    def _quantiles_of_features(self, n_features):
        """Return the list of ascending quantiles that each feature needs."""
        raise NotImplementedError

    def _set_quantiles(self, released):
        """Set the fitted attributes from the released quantiles of every feature."""
        raise NotImplementedError

    def _set_rank_errors(self, plan):
        """Set the expected errors of the ranks: public facts, where the mechanism knows them."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, **unknown):
        """Find the private quantiles of every feature; spends the budget.

        Parameters
        ----------
        X : {array-like, dask DataFrame, dask Array} of shape (n_samples, n_features)
            The private rows. Of a dask collection every partition is counted where it is, and
            only the counts travel.
        y : None
            Ignored.
        **unknown : dict
            Must be empty: there is no `sample_weight`.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        refuse_unknown(unknown, f"{type(self).__name__}.fit")
        # The order matters: parameters first, then the container (its shape, its types), then
        # the price, and only then the numbers.
        with self._all_or_nothing() as former:
            self._check_request()
            if is_dask(X):
                self._fit_dask(X, former)
            else:
                self._fit_rows(X, former)
        return self

    def _check_request(self):
        """Raise for a budget or a random state that cannot be, before anything is looked at."""
        budgets_for(self.eps, self.delta, self.rho)
        checked_random_state(self.random_state)

    def _fit_rows(self, X, former):
        X = self._checked_table(X, reset=True)
        plan, streams = self._paid_plan("fit", FULL_RESOLUTION, former)
        X = read_matrix(X)

        self._release(plan, streams, lambda some: fresh_columns(X[:, some]), SortedColumn)

    def _fit_dask(self, X, former):
        from dpq_sklearn.data.dask import meta_of, summaries_of

        self._validated(meta_of(X), reset=True)
        plan, streams = self._paid_plan("fit", SUMMARY_RESOLUTION, former)
        n_rows, summaries = summaries_of(X, plan.grids)
        self._release_summaries(plan, summaries, streams, n_rows)

    def _transform_dask(self, X):
        """Return the lazy transform of a dask collection, in the same kind of container."""
        from dpq_sklearn.data.dask import is_frame, map_rows, meta_of

        global_output = get_config()["transform_output"]
        output = getattr(self, "_sklearn_output_config", {}).get("transform", global_output)
        if output != "default":
            raise ValueError(
                "dask collections keep their container: transform_output must be 'default' for "
                f"them, got {output!r}."
            )
        meta = self._transform_rows(meta_of(X))
        if is_frame(X) and sparse.issparse(meta):
            raise ValueError(
                'a dask DataFrame cannot hold the sparse rows of encode="onehot": set '
                'encode="onehot-dense" or "ordinal", or transform a dask Array.'
            )
        names = self.get_feature_names_out() if is_frame(X) else None
        return map_rows(X, self._for_workers()._transform_rows, meta, names)

    def _inverse_transform_dask(self, X):
        """Return the lazy inverse transform of a dask collection."""
        from dpq_sklearn.data.dask import map_rows, meta_of

        meta = self._inverse_transform_rows(0 * meta_of(X))
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{index}" for index in range(self.n_features_in_)]
        return map_rows(X, self._for_workers()._inverse_transform_rows, meta, names)

    def _for_workers(self):
        """Return this estimator without what a worker has no use for."""
        twin = copy(self)
        twin.ledger, twin.n_jobs = None, None
        if hasattr(twin, "copy"):
            twin.copy = True  # partitions may be shared: they must not be overwritten
        return twin

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches, *, verbose=False, callback=None):
        """Find the private quantiles of rows that come in batches; spends the budget once.

        One pass, in memory that is bounded by the `resolution` and not by the number of rows. The
        same rows give the same result, however they are divided and ordered, for the same
        `random_state`; and the result of `fit` with the same `resolution`.

        Parameters
        ----------
        batches : iterable
            Of arrays, pandas or polars DataFrames, or Arrow record batches or tables: each a part
            of the private rows, with the same columns. Empty ones are fine.
        verbose : bool, default=False
            Whether to print a line with the rows read and the rate to standard error. It is meant
            for those who hold the data: the number of rows is not part of the private release.
        callback : callable or None, default=None
            Called after every batch with the batches, the rows and the seconds so far.

        Returns
        -------
        self : object
            The fitted transformer.

        Notes
        -----
        The ledger is charged when the columns of the first batch are known. Whatever stops the
        reading after that leaves the transformer unfitted, with nothing released and the budget
        spent.
        """
        is_lazy = type(batches).__name__ == "LazyFrame"
        if is_lazy or hasattr(batches, "shape") or isinstance(batches, (str, bytes, dict)):
            raise TypeError(
                "batches must be an iterable of tables, got a single "
                f"{type(batches).__name__}: use fit, or put it into a list."
            )
        with self._all_or_nothing() as former:
            self._check_request()
            self._fit_batches(batches, Progress(verbose, callback), former)
        return self

    def _fit_batches(self, batches, progress, former):
        builders = None
        with progress:
            for batch in batches:
                first = builders is None
                table = self._checked_table(batch, reset=first, ensure_min_samples=0)
                if first:
                    plan, streams = self._paid_plan("fit_batches", SUMMARY_RESOLUTION, former)
                    builders = [SummaryBuilder(grid) for grid in plan.grids]
                X = read_matrix(table)
                self._count(X, builders)
                progress.advance(X.shape[0])
            if builders is None:
                raise ValueError("batches must hold at least one batch, got none.")
        summaries = [builder.summary() for builder in builders]
        self._release_summaries(plan, summaries, streams, progress.n_rows)

    def _count(self, X, builders):
        """Count the rows of a batch."""

        def count(some):
            for builder, column in zip(builders[some], readable_columns(X[:, some]), strict=True):
                builder.add(column)

        in_threads(count, blocks_of_columns(X.shape[1], self.n_jobs), self.n_jobs)

    def _release_summaries(self, plan, summaries, streams, n_rows):
        if n_rows == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {self.n_features_in_})) while a minimum "
                f"of 1 is required by {type(self).__name__}."
            )

        self._release(plan, streams, lambda some: summaries[some], ranks_of_summary)

    def _release(self, plan, streams, columns_of, ranks_of):
        """Release all columns, blocks of them in threads, and set what fitting sets."""
        turn = Lock()

        def release(some):
            columns = columns_of(some)
            return release_values(plan.of_columns(some), columns, streams[some], ranks_of, turn)

        blocks = blocks_of_columns(self.n_features_in_, self.n_jobs)
        released = chain.from_iterable(in_threads(release, blocks, self.n_jobs))
        self._set_quantiles(list(released))
        self._set_rank_errors(plan)
        self.privacy_ = plan.loss

    def _paid_plan(self, method, default_resolution, former):
        """Return the plan and a stream of randomness a feature, once the price is paid."""
        names = getattr(self, "feature_names_in_", None)
        plan = self._plan(self.n_features_in_, names)
        resolution = default_resolution if self.resolution is None else self.resolution
        randomness = make_randomness(self.random_state)
        plan = replace(
            plan,
            grids=tuple(with_resolution(grid, resolution) for grid in plan.grids),
            loss=replace(plan.loss, os_randomness=randomness.from_os),
        )
        charge_ledger(
            self.ledger,
            plan.loss,
            what=f"{type(self).__name__}.{method}",
            columns=self.n_features_in_ if names is None else names,
            detail=self._detail(),
        )
        former.clear()
        return plan, randomness.spawn(self.n_features_in_)

    @contextmanager
    def _all_or_nothing(self):
        """Leave nothing half fitted when a fit fails.

        Yields the former fit. It comes back if the failure comes before the price is paid, when
        it is to be cleared: after that, nothing is fitted.
        """
        former = self._fitted()
        try:
            yield former
        except BaseException as error:
            # Error reporters store local variables. Those of all that was called are forgotten.
            clear_frames(error.__traceback__)
            for name in self._fitted():
                delattr(self, name)
            vars(self).update(former)
            raise

    def _fitted(self):
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def _detail(self):
        """Return in words what a fit releases a feature, for the ledger."""
        raise NotImplementedError

    def _planned_loss(self, n_features=None):
        """Return what a fit will cost, without data."""
        if n_features is None:
            lists = (getattr(self, "n_bins", None), self.feature_weights)
            n_features = next((len(some) for some in lists if hasattr(some, "__len__")), 1)
        unbounded = clone(self).set_params(bounds=None)
        return unbounded._plan(n_features).loss

    def _plan(self, n_features, feature_names=None):
        return plan_release(
            self._quantiles_of_features(n_features),
            eps=self.eps,
            delta=self.delta,
            rho=self.rho,
            bounds=bounds_of_features(self.bounds, n_features, feature_names),
            mechanism=self.mechanism,
            weights=checked_weights(self.feature_weights, n_features),
        )

    def _plan_bounds(self):
        names = getattr(self, "feature_names_in_", None)
        return bounds_of_features(self.bounds, self.n_features_in_, names)

    def _validated(self, X, *, reset, dtype=(np.float64, np.float32), **options):
        """Return `X` as an array of floats after scikit-learn's checks of names and shapes."""
        X = read_matrix(self._checked_table(X, reset=reset))
        with ignore_float_errors():
            return check_array(X, dtype=dtype, ensure_all_finite=False, **options)

    def _checked_table(self, X, *, reset, ensure_min_samples=1):
        """Return `X` after checks of its types, shape and names, for `read_matrix`."""
        X = checked_table(X)
        if sparse.issparse(X) or len(X.shape) != 2 or 0 in X.shape:  # scikit-learn has a say
            options = {"ensure_min_samples": ensure_min_samples, "input_name": "X"}
            check_array(stand_in(X), estimator=self, **options)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def refuse_unknown(arguments, method):
    """Raise for arguments that a method does not take, in the name of the public class."""
    for name in arguments:
        why = " A weight would change what a row costs." if name == "sample_weight" else ""
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}.{why}")


def is_dask(X):
    """Return whether `X` is a dask collection, without importing dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def bounds_of_features(bounds, n_features, feature_names=None):
    """Return a checked pair of bounds or None for each feature.

    `bounds` is None, one pair for all, one pair (or None) a feature, or a dict from feature name
    to pair.
    """
    if bounds is None:
        return [None] * n_features
    if isinstance(bounds, dict):
        known = [] if feature_names is None else list(feature_names)
        unknown = [name for name in bounds if name not in known]
        if unknown:
            raise ValueError(
                f"bounds as a dict must have feature names of X as keys, got {unknown!r}; the "
                f"names are {known!r}."
            )
        pairs = [bounds.get(name) for name in known]
    elif len(bounds) == 2 and all(isinstance(bound, Real) for bound in bounds):
        pairs = [bounds] * n_features
    else:
        pairs = list(bounds)
        if len(pairs) != n_features:
            raise ValueError(
                f"bounds must be None, one pair, or one pair for each of the {n_features} "
                f"features, got {bounds!r}."
            )
    return [None if pair is None else checked_bounds(pair) for pair in pairs]


def checked_weights(weights, n_features):
    """Return `feature_weights` as positive floats, one a feature, or None."""
    if weights is None:
        return None
    weights = list(weights)
    if len(weights) != n_features:
        raise ValueError(
            f"feature_weights must have one entry for each of the {n_features} features, got "
            f"{len(weights)}."
        )
    return [checked_positive(weight, "each of feature_weights") for weight in weights]


def counts_of_features(counts, n_features, name, least):
    """Return a number of bins or the like for each feature, from an int or one int a feature."""
    entries = [counts] * n_features if isinstance(counts, Integral) else list(counts)
    if len(entries) != n_features:
        raise ValueError(f"{name} must be a scalar or array of shape (n_features,).")
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in entries)
    if not whole or min(entries, default=least) < least:
        raise ValueError(f"{name} must be integers >= {least}, got {counts!r}.")
    return np.array(entries, dtype=np.int64)
