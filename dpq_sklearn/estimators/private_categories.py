"""Base class of the encoders: from a table of labels to the released categories."""

import warnings
from collections.abc import Hashable
from dataclasses import replace
from numbers import Real

import numpy as np

from dpq_sklearn.checks import shown
from dpq_sklearn.estimators.base import PrivateTransformer
from dpq_sklearn.estimators.compat import Interval, StrOptions
from dpq_sklearn.estimators.parameters import per_feature_weights
from dpq_sklearn.forecast.enough_data import PrivacyNoiseWarning
from dpq_sklearn.reading.categories import (
    NO_CATEGORY,
    array_of_categories,
    categories_of,
    columns_of_labels,
    order_of,
    public_form,
    table_of_categories,
)
from dpq_sklearn.reading.containers import are_numbers, dtypes_of
from dpq_sklearn.releases.categories import plan_categories, public_categories

PRIVATE = "private"
# scikit-learn's encoders need a category in every feature. This text, which no label has, is the
# placeholder for a feature without categories.
_NO_TEXT = "\0no category was released"


class PrivateEncoder(PrivateTransformer):
    """Base class of the encoders that are fitted by private categories.

    A subclass implements the encoding (`_transform_rows`, `_inverse_transform_rows`) and its
    counterpart in scikit-learn (`_plain`).

    Parameters
    ----------
    categories : "private" or list of array-like, default="private"
        "private" finds the categories of each feature privately. Alternatively, pass a list with
        the public categories of each feature: they cost nothing, and `fit` reads no row. In each
        array, numbers must be sorted, and a missing value must come last. Never compute the list
        from the private rows.
    eps : float, default=1.0
        The privacy budget of a fit, which all features share. With a smaller eps, a category needs
        more records to be found. Public categories do not use it.
    delta : float, default=1e-6
        The fit is (eps, delta)-differentially private, and the features share delta as well. It
        must be larger than 0 for private categories. Choose it well below 1 / number of records.

    Attributes
    ----------
    categories_ : list of ndarray
        The released categories of each feature: numbers, then text, both in ascending order, then
        NaN for missing values. The order does not depend on the frequencies.
    n_records_needed_ : ndarray of shape (n_features,)
        The number of records that a category of each feature needs to be found with a probability
        of at least 99%, computed from public facts. It is 0 for public categories.

    Notes
    -----
    **Privacy.** Neighbouring datasets differ by one added or removed row or, with `groups`, by one
    person. A person counts once in each feature, with the most frequent category of their rows.
    `categories_` is an (eps, delta)-DP function of the rows given to `fit`, by optimal partition
    selection (Desfontaines, Voss, Gipson, Mandayam 2022). There is no finite rho. The output of
    `transform` is *not* private: it shows the category of each row. Every fit spends its budget
    again.

    **Categories.** Text, numbers and booleans can be categories. 1, 1.0 and True are the same
    category, and "1" is another. All missing values together are one category, which has to be
    found like any other. A category that was not released is unknown, even in the rows given to
    `fit`. The encoder ignores categories that a dtype declares.
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **{
            name: allowed
            for name, allowed in PrivateTransformer._parameter_constraints.items()
            if name != "n_jobs"
        },
        "categories": [StrOptions({PRIVATE}), list],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "dtype": "no_validation",
    }

    # Reading labels holds Python's lock, so threads would not help.
    n_jobs = None

    @property
    def _is_public(self):
        return not isinstance(self.categories, str)

    def _checked_types(self, X, name):
        return table_of_categories(X, name)

    def _plan_fit(self, table, source, budget, neighbours):
        n_features = table.shape[1]
        names = getattr(self, "feature_names_in_", None)
        weights = per_feature_weights(self.feature_weights, n_features, names)
        self._stand_ins_ = list(map(_stand_in, dtypes_of(table)))

        if self._is_public:
            self.n_records_needed_ = np.zeros(n_features, dtype=np.int64)
            return public_categories(_checked_categories(self.categories, n_features), neighbours)

        plan = plan_categories(n_features, budget, weights=weights, neighbours=neighbours)
        self.n_records_needed_ = np.array([each.n_records_needed() for each in plan.selections])
        return plan

    def _planned_loss(self, n_features=None):
        if self._is_public:
            return public_categories([]).loss
        return plan_categories(n_features or 1, self._total_budget()).loss

    def _detail(self):
        return "private categories"

    def _set_released(self, released):
        self.categories_ = list(map(array_of_categories, released))

    def _warn_about(self, released):
        n_empty = sum(not categories for categories in released)
        if n_empty:
            warnings.warn(
                f"no category was released for {n_empty} of {len(released)} features, so all of "
                "their values are unknown. n_records_needed_ has the number of records that a "
                "category needs. Use a larger eps or delta, encode fewer features, or pass public "
                "categories.",
                PrivacyNoiseWarning,
                stacklevel=3,
            )

    def _private_values(self):
        return self.categories_

    def _row_map(self, method, names):
        row_map = super()._row_map(method, names)
        if method == "_inverse_transform_rows":
            return replace(row_map, function_on_workers=_refuse_partitions)
        return row_map

    def _encoded(self, X, codes_of_features, unknown, dtype):
        """Return the code of each cell, with `unknown` for labels that have no code.

        `codes_of_features` has a dict from categories to codes for each feature. The result has the
        shape (n_rows, n_features).
        """
        table = self._checked_table(X, reset=False)
        encoded = np.empty(table.shape, dtype=dtype)

        columns = zip(columns_of_labels(table), codes_of_features, strict=True)
        for index, (column, codes) in enumerate(columns):
            numbers, found = categories_of(column)
            of_found = [codes.get(category, unknown) for category in found]
            encoded[:, index] = np.array([*of_found, unknown], dtype=dtype)[numbers]
        return encoded

    def _forms(self):
        """Return the categories of each feature in their public form (`public_form`)."""
        return [list(map(public_form, categories.tolist())) for categories in self.categories_]

    def _decoded(self, numbers):
        """Return the category of each number, or None for negative numbers.

        `numbers` and the result have the shape (n_rows, n_features).
        """
        dtype = np.result_type(*(categories.dtype for categories in self.categories_))
        decoded = np.empty(numbers.shape, dtype=object if (numbers < 0).any() else dtype)

        for index, categories in enumerate(self.categories_):
            cells = np.append(categories.astype(object), [None])
            decoded[:, index] = cells[numbers[:, index]]
        return decoded

    def _plain_categories(self):
        """Return categories for scikit-learn's encoders, which need at least one per feature."""
        pairs = zip(self.categories_, self._stand_ins_, strict=True)
        return [
            categories.copy() if categories.size else stand_in for categories, stand_in in pairs
        ]

    def _fitted_plain(self, plain):
        """Return an encoder of scikit-learn with the released categories."""
        categories = self._plain_categories()
        plain.set_params(categories=[each.tolist() for each in categories])

        first = np.empty((1, len(categories)), dtype=object)
        first[0] = [each.tolist()[0] for each in categories]
        plain.fit(first)

        plain.categories_ = categories  # `fit` has converted numbers to objects
        return plain

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def _refuse_partitions(X):
    """Raise an error, because the types of decoded columns could differ between partitions."""
    raise TypeError(
        "inverse_transform of categories needs rows in memory, got a dask or Spark collection: "
        "call compute() or toPandas() first."
    )


def _checked_categories(given, n_features) -> list[list[Hashable]]:
    """Return public categories in their public form (`public_form`), or raise."""
    if len(given) != n_features:
        raise ValueError(
            "Shape mismatch: categories must have one list for each of the "
            f"{n_features} features, got {len(given)}."
        )
    return list(map(_checked_list, given))


def _checked_list(given):
    is_list = hasattr(given, "__len__") and not isinstance(given, (str, bytes, dict))
    labels = list(given) if is_list else []
    forms = [public_form(label) for label in labels]
    is_known = bool(forms) and NO_CATEGORY not in forms and len(set(forms)) == len(forms)
    if not is_known or None in forms[:-1]:
        raise ValueError(
            "each list of categories must hold distinct texts or numbers, and at most one missing "
            f"value at the end, got {shown(given)}."
        )

    present = [form for form in forms if form is not None]
    if not any(isinstance(form, str) for form in present) and present != sorted(
        present, key=order_of
    ):
        raise ValueError(
            f"Unsorted categories are not supported for numerical categories, got {shown(given)}."
        )
    return forms


def _stand_in(dtype):
    """Return an array with a placeholder for the categories of a column without any."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.max if dtype.kind == "u" else limits.min])
    if isinstance(dtype, np.dtype) and dtype.kind == "b":
        return np.array([False])
    if are_numbers(dtype):
        return np.array([float(np.finfo(np.float32).min)])
    return np.array([_NO_TEXT], dtype=object)
