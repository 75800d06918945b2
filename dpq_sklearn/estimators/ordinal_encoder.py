"""DPOrdinalEncoder: private categories become numbers."""

from numbers import Integral

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.preprocessing import OrdinalEncoder

from dpq_sklearn.checks import shown
from dpq_sklearn.estimators import compat
from dpq_sklearn.estimators.private_categories import PRIVATE, PrivateEncoder
from dpq_sklearn.reading.containers import checked_table


class DPOrdinalEncoder(OneToOneFeatureMixin, PrivateEncoder):
    """Encode categorical features as numbers of private categories.

    A drop-in replacement for :class:`sklearn.preprocessing.OrdinalEncoder` with
    ``handle_unknown="use_encoded_value"``. The list of categories is differentially private.
    Read more in the :ref:`User Guide <text_columns>`.

    Parameters
    ----------
    unknown_value : int or np.nan, default=-1
        The code of categories that were not released. It must be a negative integer or NaN, because
        the codes of released categories are 0, 1, 2, ...
    encoded_missing_value : int or np.nan, default=np.nan
        The code of missing values if they were released as a category: a negative integer or NaN.
        Missing values that were not released get `unknown_value`.
    dtype : number type, default=np.float64
        The dtype of the output. Integer dtypes have no NaN, so they require negative integers for
        `unknown_value` and `encoded_missing_value`.

    See Also
    --------
    sklearn.preprocessing.OrdinalEncoder : Encode categories without privacy.
    DPOneHotEncoder : Encode categories as indicators instead of numbers.
    DPKBinsDiscretizer : Encode numeric features by private bins.
    to_sklearn : Convert a fitted pipeline to plain scikit-learn.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import DPOrdinalEncoder
    >>> towns = np.array(["Bern"] * 500 + ["Basel"] * 300 + ["Ardez"])[:, None]
    >>> encoder = DPOrdinalEncoder(eps=1.0, random_state=0).fit(towns)
    >>> encoder.categories_
    [array(['Basel', 'Bern'], dtype=object)]
    >>> encoder.transform([["Basel"], ["Bern"], ["Ardez"]]).ravel()
    array([ 0.,  1., -1.])
    """

    _counterpart = OrdinalEncoder
    _counterpart_settings = {"handle_unknown": "use_encoded_value"}  # noqa: RUF012

    _parameter_constraints: dict = {  # noqa: RUF012
        **PrivateEncoder._parameter_constraints,
        "unknown_value": [Integral, type(np.nan)],
        "encoded_missing_value": [Integral, type(np.nan)],
    }

    def __init__(
        self,
        *,
        categories=PRIVATE,
        eps=1.0,
        delta=1e-6,
        privacy_unit="auto",
        unknown_value=-1,
        encoded_missing_value=np.nan,
        dtype=np.float64,
        feature_weights=None,
        random_state=None,
        ledger=None,
    ):
        self.categories = categories
        self.eps = eps
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.unknown_value = unknown_value
        self.encoded_missing_value = encoded_missing_value
        self.dtype = dtype
        self.feature_weights = feature_weights
        self.random_state = random_state
        self.ledger = ledger

    def _draft(self):
        for name in ("unknown_value", "encoded_missing_value"):
            self._check_code(name, getattr(self, name))
        return super()._draft()

    def _check_code(self, name, code):
        is_nan = not isinstance(code, Integral) and code != code
        if not is_nan and not (isinstance(code, Integral) and code < 0):
            raise ValueError(
                f"{name} must be a negative integer or NaN, because the codes of categories are "
                f"0, 1, 2, ..., got {shown(code)}."
            )
        if is_nan and np.dtype(self.dtype).kind != "f":
            raise ValueError(
                f"{name} must be a negative integer for dtype={np.dtype(self.dtype).name}, which "
                "cannot represent NaN, got NaN."
            )

    def _transform_rows(self, X):
        codes = [
            {
                form: self.encoded_missing_value if form is None else number
                for number, form in enumerate(forms)
            }
            for forms in self._forms()
        ]
        return self._encoded(X, codes, unknown=self.unknown_value, dtype=self.dtype)

    def _inverse_transform_rows(self, X):
        X = compat.checked_matrix(
            checked_table(X), self.n_features_in_, ensure_all_finite="allow-nan"
        )

        numbers = np.empty(X.shape, dtype=np.int64)
        for index, forms in enumerate(self._forms()):
            missing = forms.index(None) if None in forms else -1
            codes = X[:, index]
            is_missing = _equal(codes, self.encoded_missing_value) & (missing >= 0)
            is_unknown = _equal(codes, self.unknown_value) & ~is_missing
            others = np.where(is_missing | is_unknown, 0, codes)
            if len(forms) == 0:
                is_wrong = ~(is_missing | is_unknown)
            else:
                is_wrong = ~((others >= 0) & (others < len(forms)) & (others % 1 == 0))
            if is_wrong.any():
                raise ValueError(
                    f"column {index} of X must hold codes of categories, 0 to {len(forms) - 1}, "
                    "or the codes of unknown and missing values."
                )
            numbers[:, index] = np.where(is_unknown, -1, np.where(is_missing, missing, others))

        return self._decoded(numbers)

    def _plain(self):
        return self._fitted_plain(
            OrdinalEncoder(
                **self._counterpart_settings,
                unknown_value=self.unknown_value,
                encoded_missing_value=self.encoded_missing_value,
                dtype=self.dtype,
            )
        )


def _equal(codes, code):
    """Return a mask of the codes that are equal to `code`, where NaN equals NaN."""
    return np.isnan(codes) if code != code else codes == code
