"""DPKBinsDiscretizer: private quantiles become bin edges."""

from numbers import Integral

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.dates import ColumnKind, exported_days, numbers_of, values_with_dates
from dpq_sklearn.estimators import binning, compat
from dpq_sklearn.estimators.bin_labels import labels_of_bins
from dpq_sklearn.estimators.compat import Interval, Options, StrOptions
from dpq_sklearn.estimators.parameters import DEFAULT_BINS, kinds_of_bounds, per_feature_bins
from dpq_sklearn.estimators.plain_steps import can_be_named, step_with_names
from dpq_sklearn.estimators.private_quantiles import PrivateQuantileTransformer
from dpq_sklearn.estimators.strategies import (
    FEWEST_GOOD_BINS,
    MIXED_BINS,
    TIMES_BETTER_WITH_AUTO,
    UNIFORM_BINS,
    edges_of_column,
    has_two_bounds,
    mixed_column,
    most_useful_bins,
    quantile_column,
    shares_below_edges,
    uniform_column,
)
from dpq_sklearn.forecast.enough_data import (
    AUTO_BINS,
    chosen_plan,
    chosen_strategy,
    rank_deviations,
)
from dpq_sklearn.reading.containers import checked_table
from dpq_sklearn.releases.request import even_probabilities


class DPKBinsDiscretizer(PrivateQuantileTransformer):
    """Bin continuous features into intervals with private edges.

    A drop-in replacement for :class:`sklearn.preprocessing.KBinsDiscretizer` with differentially
    private bin edges. `eps` is the privacy cost of the whole `fit`, over all features and all
    edges. Read more in the :ref:`User Guide <private_pipeline>`.

    Parameters
    ----------
    n_bins : int, "auto", array-like or dict, default=5
        The number of bins of each feature, at least 2. To give features different numbers of
        bins, pass an array-like with one number per feature, or a dict from feature names to
        numbers. Features that are not in the dict get 5 bins. "auto" chooses the number from the
        released number of rows. With ``strategy="uniform"``, "auto" means 10 bins, or fewer if
        `decimals` and `bounds` leave fewer possible values.
    encode : {"onehot", "onehot-dense", "ordinal"}, default="onehot"
        How to encode the bins.

        - "onehot": a sparse matrix with one indicator column per bin.
        - "onehot-dense": a dense array with one indicator column per bin.
        - "ordinal": the number of the bin, starting at 0.
    strategy : {"quantile", "uniform", "auto"}, default="quantile"
        How to place the edges.

        - "quantile": at private quantiles, so that all bins hold about the same number of rows.
        - "uniform": in bins of equal width between the bounds of the feature. Such edges cost
          nothing: if all features have two bounds, `fit` reads no row and spends no budget. If a
          bound is missing, a private quantile (15% or 85%) replaces it.
        - "auto": the released number of rows decides. If quantiles are expected to be more than
          half a bin off, features with two bounds get edges of both kinds, or only edges of equal
          width if a quantile would be hardly better than a guess. See
          :ref:`Private models <private_models>`.
    dtype : {np.float32, np.float64} or None, default=None
        The dtype of the output. None keeps float32, and returns float64 for all other inputs.
    feature_name_combiner : {"concat", "interval"} or callable, default="concat"
        How to name the one-hot columns.

        - "concat": by the number of the bin as in scikit-learn, such as ``income_1.0``.
        - "interval": by the values in the bin, such as ``income_[20000, 26000)``.
        - callable: by the string that it returns for the name of the feature and the number of
          the bin.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_features,) of arrays
        The private edges of each feature, in ascending order. Bins between equal edges are empty.
        The last of several equal edges is moved to the next larger number, so that the repeated
        value has a bin of its own. The two outermost edges do not affect `transform`: they are the
        bounds or, without bounds, lie one bin width beyond the inner edges. A single inner edge
        without bounds has its outer edges ``abs(edge)`` away. The edges of dates are `datetime64`,
        in UTC if the column has a time zone, and the edges of durations are `timedelta64`.
    n_bins_ : ndarray of shape (n_features,)
        The number of bins of each feature: `n_bins`, or the number that "auto" chose.
    rank_error_ : ndarray of shape (n_features,) of arrays
        The standard deviation of the number of rows below each inner edge, which is computed from
        public facts. It is 0 for edges of equal width between two bounds. It is NaN if it depends
        on the data: for edges of equal width without two bounds, and for
        ``mechanism="agg_tree"`` unless `decimals` and `bounds` leave few possible values.

    Notes
    -----
    **Missing values.** `fit` ignores NaN. `transform` returns NaN for them (ordinal), or zeros in
    all columns of the feature (one-hot). Infinite values fall into the outermost bins.

    See Also
    --------
    sklearn.preprocessing.KBinsDiscretizer : Bin features without privacy.
    DPQuantileTransformer : Map features to a uniform or normal distribution instead of bins.
    DPOneHotEncoder : Encode categorical features.
    suggest_n_bins : Suggest a number of bins for a number of rows and a budget.
    to_sklearn : Convert a fitted pipeline to plain scikit-learn.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPKBinsDiscretizer
    >>> X = np.random.default_rng(0).lognormal(size=(10_000, 1))
    >>> est = DPKBinsDiscretizer(n_bins=4, eps=1.0, encode="ordinal", random_state=0).fit(X)
    >>> est.bin_edges_[0].round(1)
    array([0. , 0.5, 1. , 2. , 3. ])
    >>> est.transform([[0.1], [0.8], [1.2], [9.0], [np.nan]]).ravel()
    array([ 0.,  1.,  2.,  3., nan])
    >>> est.privacy_.eps
    1.0
    """

    _counterpart = KBinsDiscretizer
    _quantiles_parameter = "n_bins"
    _probabilities_by_number = {n: even_probabilities(n) for n in AUTO_BINS}  # noqa: RUF012

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateQuantileTransformer._parameter_constraints,
        "n_bins": [
            Interval(Integral, 2, None, closed="left"),
            StrOptions({"auto"}),
            "array-like",
            dict,
        ],
        "encode": [StrOptions({"onehot", "onehot-dense", "ordinal"})],
        "strategy": [StrOptions({"quantile", "uniform", "auto"})],
        "dtype": [Options(type, {np.float64, np.float32}), None],
        "feature_name_combiner": [StrOptions({"concat", "interval"}), callable],
    }

    def __init__(
        self,
        n_bins=DEFAULT_BINS,
        *,
        eps=1.0,
        delta=0.0,
        rho=None,
        privacy_unit="auto",
        encode="onehot",
        strategy="quantile",
        bounds=None,
        decimals=None,
        prior=None,
        feature_weights=None,
        mechanism="aq",
        dtype=None,
        feature_name_combiner="concat",
        resolution=None,
        n_jobs=None,
        random_state=None,
        ledger=None,
    ):
        self.n_bins = n_bins
        self.eps = eps
        self.delta = delta
        self.rho = rho
        self.privacy_unit = privacy_unit
        self.encode = encode
        self.strategy = strategy
        self.bounds = bounds
        self.decimals = decimals
        self.prior = prior
        self.feature_weights = feature_weights
        self.mechanism = mechanism
        self.dtype = dtype
        self.feature_name_combiner = feature_name_combiner
        self.resolution = resolution
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger

    @property
    def _makes_sparse_rows(self):
        return self.encode == "onehot"

    def _draft(self):
        output = compat.output_container(self)
        if self.encode == "onehot" and output != "default":
            # scikit-learn raises this error in `transform`, but by then the budget is spent.
            raise ValueError(
                "The transformer outputs a scipy sparse matrix. encode must be 'onehot-dense' or "
                f"'ordinal' for transform_output={output!r}, got 'onehot'."
            )
        return super()._draft()

    def _candidates(self, known, names):
        if self.strategy == "uniform":
            n_bins = self._numbers_of_uniform_bins(known, names)
            return [list(map(uniform_column, n_bins, known))], None

        numbers = self._candidate_numbers(len(known), names)
        of_quantiles = [list(map(quantile_column, n_bins, known)) for n_bins in numbers]
        if self.strategy == "quantile":
            return of_quantiles, chosen_plan

        if not any(map(has_two_bounds, known)):
            return of_quantiles, chosen_plan
        if isinstance(self.n_bins, str):  # "auto"
            of_quantiles = of_quantiles[AUTO_BINS.index(FEWEST_GOOD_BINS) :]
            numbers = [[MIXED_BINS] * len(known)]

        mixed = list(map(mixed_column, numbers[0], known))
        widths = self._numbers_of_uniform_bins(known, names)
        uniform = [
            uniform_column(n_bins, facts) if has_two_bounds(facts) else column
            for n_bins, facts, column in zip(widths, known, mixed, strict=True)
        ]
        return [uniform, mixed, *of_quantiles], chosen_strategy

    def _candidate_numbers(self, n_features, names):
        """Return the numbers of quantile bins of all features, for each candidate."""
        if isinstance(self.n_bins, str):  # "auto"
            return [[n] * n_features for n in AUTO_BINS]
        return [per_feature_bins(self.n_bins, n_features, names)]

    def _numbers_of_uniform_bins(self, known, names):
        if isinstance(self.n_bins, str):  # "auto"
            return [most_useful_bins(UNIFORM_BINS, facts) for facts in known]
        return per_feature_bins(self.n_bins, len(known), names)

    @property
    def _parameters_with_a_cost(self):
        # The bounds decide which quantiles a strategy other than "quantile" needs.
        of_strategy = () if self.strategy == "quantile" else ("bounds",)
        return ("n_bins", "feature_weights", *of_strategy)

    def _with_equal_features(self):
        (draft,) = super()._with_equal_features()
        numbers = [self.n_bins]
        if isinstance(self.n_bins, dict):
            numbers = dict.fromkeys([*self.n_bins.values(), DEFAULT_BINS])
        return [
            draft._with(n_bins=n_bins, bounds=bounds)
            for n_bins in numbers
            for bounds in kinds_of_bounds(self.bounds)
        ]

    def _set_values(self, released):
        columns = released.plan.request.columns
        deviations = rank_deviations(released.plan)
        edges, errors = zip(
            *map(edges_of_column, released.values, deviations, columns), strict=True
        )
        edges = map(values_with_dates, edges, self._kinds())

        self.n_bins_ = np.array([column.n_bins for column in columns])
        self.bin_edges_ = np.fromiter(edges, dtype=object)
        self.rank_error_ = np.fromiter(errors, dtype=object)

    def _shares_below_edges(self):
        """Return the share of the rows below each inner edge, NaN for edges of equal width."""
        if getattr(self, "strategy", "quantile") == "uniform":  # old pickles have no strategy
            return [np.full(n_bins - 1, np.nan) for n_bins in self.n_bins_]
        return list(map(shares_below_edges, self.rank_error_))

    def _other_steps(self, plan):
        columns = plan.request.columns
        may_help = any(column.n_open_ends == 0 and column.prior is None for column in columns)
        if self.strategy != "quantile" or not may_help:
            return {}
        return {'strategy="auto"': TIMES_BETTER_WITH_AUTO}

    def _fewer_quantiles(self):
        return super()._fewer_quantiles() if self.strategy == "quantile" else {}

    def _detail(self):
        detail = super()._detail()
        return detail if self.strategy == "quantile" else f"{detail}, strategy={self.strategy}"

    def _numbers_of_exact_edges(self):
        return [np.count_nonzero(errors == 0) for errors in self.rank_error_]

    def _private_values(self):
        return [edges[1:-1] for edges in self._edges_in_numbers()]

    def _edges_in_numbers(self):
        """Return the edges of each feature as floats, dates as days since 1970-01-01."""
        return [numbers_of(edges) for edges in self.bin_edges_]

    def _transform_rows(self, X):
        dtype = (np.float64, np.float32) if self.dtype is None else self.dtype
        X = compat.checked_matrix(self._checked_table(X, reset=False), dtype=dtype)
        edges = self._private_values()
        offsets = self._indicator_offsets()

        if self.encode == "ordinal":
            return binning.bin_numbers(
                X, edges, 0 * offsets[:-1], missing=np.nan, dtype=X.dtype, n_jobs=self.n_jobs
            )

        numbers = binning.bin_numbers(
            X, edges, offsets[:-1], missing=-1, dtype=np.int32, n_jobs=self.n_jobs
        )
        indicators = binning.sparse_indicators(numbers, offsets[-1], X.dtype)
        if self.encode == "onehot-dense":
            return indicators.toarray()
        return compat.as_configured_sparse(indicators)

    def _indicator_offsets(self):
        """Return the first indicator column of each feature, and the number of all columns."""
        return np.concatenate(([0], np.cumsum(self.n_bins_)))

    def _inverse_transform_rows(self, X):
        table = checked_table(X)
        options = {"ensure_all_finite": "allow-nan"}

        if self.encode == "ordinal":
            X = bins = compat.checked_matrix(table, self.n_features_in_, **options)
        else:
            offsets = self._indicator_offsets()
            X = compat.checked_matrix(table, offsets[-1], accept_sparse="csr", **options)
            bins = binning.bins_of_indicators(X, offsets)

        centres = binning.bin_centres(bins, self._edges_in_numbers(), X.dtype)
        are_days = [kind is ColumnKind.DATE for kind in self._kinds()]
        centres[:, are_days] = np.floor(centres[:, are_days])  # the bin ends before its upper edge
        return centres

    def get_feature_names_out(self, input_features=None):
        """Return the names of the output columns, by default the same as in scikit-learn.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            The names of the input features. None uses the names seen during `fit`, or x0, x1, ...

        Returns
        -------
        feature_names_out : ndarray of str objects
            The names of the features if ``encode="ordinal"``. Otherwise a name for each bin of
            each feature, made by `feature_name_combiner`.
        """
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        if self.encode == "ordinal":
            return names

        return np.array(
            [each for index, name in enumerate(names) for each in self._names_of_bins(index, name)],
            dtype=object,
        )

    def _names_of_bins(self, index, name):
        """Return the names of the columns of one feature."""
        if self.feature_name_combiner == "concat":
            return [f"{name}_{k}.0" for k in range(self.n_bins_[index])]
        if self.feature_name_combiner == "interval":
            labels = labels_of_bins(self.bin_edges_[index][1:-1])
            return [f"{name}_{label}" for label in labels]

        combined = [self.feature_name_combiner(name, k) for k in range(self.n_bins_[index])]
        wrong = [type(each).__name__ for each in combined if not isinstance(each, str)]
        if wrong:
            raise TypeError(f"feature_name_combiner must return a str, got {wrong[0]}.")
        return combined

    def bin_labels(self):
        """Return the interval of each bin as a label such as "[20000, 26000)".

        Returns
        -------
        labels : list of lists of str
            The labels of the bins of each feature. The labels of a feature are distinct. The first
            bin begins at -inf and the last bin ends at inf, even if the feature has bounds, because
            `transform` puts values beyond the bounds into these bins. The label of an empty bin
            between equal edges ends with the number of the bin.

        Notes
        -----
        A column of bin numbers (``encode="ordinal"``), which may have missing values, is converted
        to ordered categories in pandas by ::

            categories = pd.CategoricalDtype(labels, ordered=True)
            column.map(dict(enumerate(labels))).astype(categories)

        and in polars by ::

            options = {"default": None, "return_dtype": pl.Enum(labels)}
            column.replace_strict(range(len(labels)), labels, **options)

        where `labels` is the list of labels of this feature.
        """
        check_is_fitted(self)

        return [labels_of_bins(edges[1:-1]) for edges in self.bin_edges_]

    def to_sklearn(self, missing="raise"):
        """Return a fitted KBinsDiscretizer of scikit-learn with the private edges.

        The result can be used without dpq_sklearn, and transforms finite data in the same way. It
        has the same privacy guarantee as this transformer.

        Parameters
        ----------
        missing : {"raise", "first_bin"}, default="raise"
            How the result handles missing values, which scikit-learn's KBinsDiscretizer does not
            accept. "raise" leaves the error to scikit-learn. "first_bin" adds a constant imputer
            before the KBinsDiscretizer, which puts missing values into the first bin.

        Returns
        -------
        transformer : sklearn.preprocessing.KBinsDiscretizer or sklearn.pipeline.Pipeline
            The fitted transformer. It is a Pipeline in these cases:

            - With ``missing="first_bin"``, an imputer comes before the KBinsDiscretizer.
            - If some features are dates, the first two steps convert dates to days since
              1970-01-01.
            - If `feature_name_combiner` is not "concat", the last step of a one-hot encoding is a
              ColumnTransformer that sets the names of the columns. It takes some time for each
              column. If a name contains "__" or is not unique, there is no such step, and the
              columns have scikit-learn's names.
        """
        if missing not in ("raise", "first_bin"):
            raise ValueError(f'missing must be "raise" or "first_bin", got {shown(missing)}.')

        check_is_fitted(self)

        steps = self._plain_steps()
        if missing == "first_bin":
            steps.insert(-1, self._imputer_below_all_edges())
        if self.encode != "ordinal" and self.feature_name_combiner != "concat":
            names = self.get_feature_names_out()
            if can_be_named(names):
                steps.append(step_with_names(names, self._makes_sparse_rows))
        return self._exported(steps)

    def _imputer_below_all_edges(self):
        """Return a fitted imputer that puts missing values into the first bin."""
        imputer = SimpleImputer(strategy="constant", fill_value=float(np.finfo(np.float32).min))
        return imputer.fit(np.zeros((1, self.n_features_in_)))

    def _plain(self):
        plain = KBinsDiscretizer(
            n_bins=self.n_bins_.copy(),
            encode=self.encode,
            strategy="uniform",
            dtype=np.float64,  # the encoder would keep a numpy.dtype, which skops does not trust
            subsample=None,
        )
        # A fit to rows of the right shape sets all attributes, and the edges are replaced below.
        plain.fit(np.stack((np.zeros(self.n_features_in_), self.n_bins_.astype(np.float64))))

        plain.set_params(strategy=self._plain_strategy(), dtype=self.dtype)
        edges = (exported_days(edges).copy() for edges in self.bin_edges_)
        plain.bin_edges_ = np.fromiter(edges, dtype=object)
        return plain

    def _plain_strategy(self):
        """Return "quantile" if all edges are quantiles, and "uniform" otherwise."""
        is_quantile = all(np.isfinite(each).all() for each in self._shares_below_edges())
        return "quantile" if is_quantile else "uniform"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.dtype in (np.float64, np.float32):
            tags.transformer_tags.preserves_dtype = [np.dtype(self.dtype).name]
        return tags
