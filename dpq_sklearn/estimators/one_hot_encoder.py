"""DPOneHotEncoder: private categories become indicators."""

import numpy as np
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dpq_sklearn.checks import shown
from dpq_sklearn.estimators import binning, compat
from dpq_sklearn.estimators.compat import StrOptions
from dpq_sklearn.estimators.private_categories import PRIVATE, PrivateEncoder
from dpq_sklearn.reading.categories import public_form
from dpq_sklearn.reading.containers import checked_table


class DPOneHotEncoder(PrivateEncoder):
    """Encode categorical features as indicators of private categories.

    A drop-in replacement for :class:`sklearn.preprocessing.OneHotEncoder` with
    ``handle_unknown="ignore"``. The list of categories is differentially private: a rare
    diagnosis, town or job title does not become a column. Read more in the
    :ref:`User Guide <text_columns>`.

    Parameters
    ----------
    drop : {"first", "if_binary"}, array-like of shape (n_features,) or None, default=None
        The category of each feature that gets no column.

        - None: all categories get a column.
        - "first": the first category gets no column.
        - "if_binary": the first category gets no column if the feature has two categories.
        - array-like: ``drop[i]`` is the category of feature i that gets no column. If it is None or
          was not released, all categories of the feature get a column.
    sparse_output : bool, default=True
        Whether `transform` returns a sparse matrix. Set it to False for a dense array, or for
        DataFrames with `set_output`.
    dtype : number type, default=np.float64
        The dtype of the output.
    feature_name_combiner : "concat" or callable, default="concat"
        How to name the output columns. "concat" joins the name of the feature and the category, as
        in ``town_Bern``. A callable gets both and returns the name.

    Attributes
    ----------
    drop_idx_ : ndarray of shape (n_features,) or None
        The position in `categories_` of the dropped category of each feature, or None for a feature
        without a dropped category. None if `drop` is None.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : Encode categories without privacy.
    DPOrdinalEncoder : Encode categories as numbers instead of indicators.
    DPKBinsDiscretizer : Encode numeric features by private bins.
    dp_value_counts : Release categories together with their noisy counts.
    to_sklearn : Convert a fitted pipeline to plain scikit-learn.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPOneHotEncoder
    >>> towns = np.array(["Bern"] * 500 + ["Basel"] * 300 + ["Ardez"])[:, None]
    >>> encoder = DPOneHotEncoder(eps=1.0, sparse_output=False, random_state=0).fit(towns)
    >>> encoder.categories_
    [array(['Basel', 'Bern'], dtype=object)]
    >>> encoder.transform([["Bern"], ["Ardez"]])
    array([[0., 1.],
           [0., 0.]])
    >>> encoder.get_feature_names_out()
    array(['x0_Basel', 'x0_Bern'], dtype=object)
    """

    _counterpart = OneHotEncoder
    _counterpart_settings = {"handle_unknown": "ignore"}  # noqa: RUF012

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateEncoder._parameter_constraints,
        "drop": [StrOptions({"first", "if_binary"}), "array-like", None],
        "sparse_output": ["boolean"],
        "feature_name_combiner": [StrOptions({"concat"}), callable],
    }

    def __init__(
        self,
        *,
        categories=PRIVATE,
        eps=1.0,
        delta=1e-6,
        privacy_unit="auto",
        drop=None,
        sparse_output=True,
        dtype=np.float64,
        feature_name_combiner="concat",
        feature_weights=None,
        random_state=None,
        ledger=None,
    ):
        self.categories = categories
        self.eps = eps
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.drop = drop
        self.sparse_output = sparse_output
        self.dtype = dtype
        self.feature_name_combiner = feature_name_combiner
        self.feature_weights = feature_weights
        self.random_state = random_state
        self.ledger = ledger

    @property
    def _makes_sparse_rows(self):
        return self.sparse_output

    def _draft(self):
        # scikit-learn raises this error in `transform`, but by then the budget is spent.
        output = compat.output_container(self)
        if self.sparse_output and output != "default":
            raise ValueError(
                f"{output.capitalize()} output does not support sparse data. Set "
                f"sparse_output=False to output {output} dataframes."
            )

        self._name_combiner()
        return super()._draft()

    def _plan_fit(self, table, source, budget, neighbours):
        n_features = table.shape[1]
        is_list = self.drop is not None and not isinstance(self.drop, str)
        if is_list and len(self.drop) != n_features:
            raise ValueError(
                f"`drop` should have length equal to the number of features ({n_features}), got "
                f"{len(self.drop)}."
            )
        return super()._plan_fit(table, source, budget, neighbours)

    def _set_released(self, released):
        super()._set_released(released)

        dropped = self._dropped_positions()
        self.drop_idx_ = None if dropped is None else np.array(dropped, dtype=object)

    def _dropped_positions(self):
        """Return the position of the dropped category of each feature, or None."""
        if self.drop is None:
            return None

        sizes = [categories.size for categories in self.categories_]
        if isinstance(self.drop, str):
            is_first = self.drop == "first"
            return [0 if size == 2 or (is_first and size) else None for size in sizes]

        given = [None if label is None else public_form(label) for label in self.drop]
        is_asked = [label is not None for label in self.drop]
        return [
            forms.index(form) if asked and form in forms else None
            for forms, form, asked in zip(self._forms(), given, is_asked, strict=True)
        ]

    def _kept_categories(self):
        """Return the positions of the categories of each feature that have a column."""
        dropped = [None] * len(self.categories_) if self.drop_idx_ is None else self.drop_idx_
        return [
            [position for position in range(categories.size) if position != without]
            for categories, without in zip(self.categories_, dropped, strict=True)
        ]

    def _transform_rows(self, X):
        columns_of_features = []
        n_columns = 0
        for forms, kept in zip(self._forms(), self._kept_categories(), strict=True):
            columns = range(n_columns, n_columns + len(kept))
            columns_of_features.append(
                {forms[position]: column for position, column in zip(kept, columns, strict=True)}
            )
            n_columns += len(kept)

        columns = self._encoded(X, columns_of_features, unknown=-1, dtype=np.int32)
        indicators = binning.sparse_indicators(columns, n_columns, self.dtype)
        if self.sparse_output:
            return compat.as_configured_sparse(indicators)
        return indicators.toarray()

    def _inverse_transform_rows(self, X):
        kept = self._kept_categories()
        ends = np.cumsum([0, *map(len, kept)])
        X = compat.checked_matrix(
            checked_table(X),
            ends[-1],
            accept_sparse="csr",
            ensure_all_finite=True,
            ensure_min_features=0,
        )

        numbers = np.empty((X.shape[0], len(kept)), dtype=np.int64)
        for index, positions in enumerate(kept):
            without = None if self.drop_idx_ is None else self.drop_idx_[index]
            of_columns = np.array([*positions, -1 if without is None else without])
            indicators = X[:, ends[index] : ends[index + 1]]
            indicators = indicators if isinstance(X, np.ndarray) else indicators.toarray()
            # The last column marks rows without an indicator.
            is_none = ~indicators.any(axis=1)
            numbers[:, index] = of_columns[np.column_stack((indicators, is_none)).argmax(axis=1)]

        return self._decoded(numbers)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the output columns, the same as in scikit-learn.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            The names of the input features. None uses the names seen during `fit`, or x0, x1, ...

        Returns
        -------
        feature_names_out : ndarray of str objects
            A name for each category that has a column, made by `feature_name_combiner`.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        combine = self._name_combiner()

        features = zip(names, self.categories_, self._kept_categories(), strict=True)
        found = [
            combine(name, category)
            for name, categories, kept in features
            for category in categories[kept]
        ]
        return np.array(found, dtype=object)

    def _name_combiner(self):
        if not callable(self.feature_name_combiner):
            return lambda feature, category: f"{feature}_{category}"

        name = self.feature_name_combiner("feature", "category")
        if not isinstance(name, str):
            raise TypeError(
                "When `feature_name_combiner` is a callable, it should return a Python string. Got "
                f"{shown(type(name).__name__)} instead."
            )
        return self.feature_name_combiner

    def _plain(self):
        plain = self._fitted_plain(
            OneHotEncoder(
                **self._counterpart_settings,
                sparse_output=self.sparse_output,
                dtype=self.dtype,
                feature_name_combiner=self.feature_name_combiner,
            )
        )

        dropped = [None] * len(self.categories_) if self.drop_idx_ is None else self.drop_idx_
        dropped = [
            position if categories.size else 0
            for position, categories in zip(dropped, self.categories_, strict=True)
        ]
        if any(position is not None for position in dropped):
            compat.drop_categories(plain, dropped)
        return plain
