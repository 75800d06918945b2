"""The audit of examples/benchmarks notices a release that overspends, and no other one."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpq_sklearn.engine.exponential import Scores
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.counted_selection import CountedSelection
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.partition_selection import PartitionSelection
from dpq_sklearn.reading import segments

PATH = Path(__file__).parents[1] / "examples" / "benchmarks" / "audit.py"
if not PATH.exists():  # an installed package has no examples
    pytest.skip("examples are not here", allow_module_level=True)
spec = importlib.util.spec_from_file_location("audit", PATH)
audit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(audit)


def only(name, unit):
    return [one for one in audit.all_audits() if (one.name, one.unit) == (name, unit)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["aq, 1 quantile", "aq, people", "batches, aq, people", "dask, aq"]
)
def test_exit_code_says_whether_a_mechanism_overspends(name, monkeypatch, capsys):
    n_samples = 4000 * audit.SLOWNESS.get(name.split(",")[0], 1)
    if "dask" in name:
        pytest.importorskip("dask")
    audits = only(name, "rho")
    monkeypatch.setattr(audit, "all_audits", lambda: audits)
    assert audit.main(["--samples", str(n_samples), "--seed", "0"]) == 0
    assert "No claim is exceeded" in capsys.readouterr().out
    honest = Scores.of
    monkeypatch.setattr(
        Scores,
        "of",
        lambda *arguments: replace(honest(*arguments), eta=1.5 * honest(*arguments).eta),
    )
    assert audit.main(["--samples", str(n_samples), "--seed", "0"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp_describe", "dp_describe, 2 columns", "dp_describe, people"])
def test_counts_with_too_little_noise_are_noticed(name, monkeypatch, capsys):
    audits = only(name, "rho")
    monkeypatch.setattr(audit, "all_audits", lambda: audits)
    assert audit.main(["--samples", "2000", "--seed", "0"]) == 0
    honest = CountNoise.draw
    monkeypatch.setattr(
        CountNoise, "draw", lambda noise, randomness: honest(noise, randomness) // 6
    )
    assert audit.main(["--samples", "2000", "--seed", "0"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("DPOneHotEncoder", PartitionSelection),
        ("DPOrdinalEncoder, people", PartitionSelection),
        ("dp_value_counts", CountedSelection),
        ("dp_value_counts, people", CountedSelection),
    ],
)
def test_categories_that_are_found_too_easily_are_noticed(name, mechanism, monkeypatch, capsys):
    audits = only(name, "eps")
    monkeypatch.setattr(audit, "all_audits", lambda: audits)
    assert audit.main(["--samples", "8000", "--seed", "0"]) == 0
    honest = mechanism.__init__
    monkeypatch.setattr(
        mechanism, "__init__", lambda self, eps, delta: honest(self, 1.5 * eps, delta)
    )
    assert audit.main(["--samples", "8000", "--seed", "0"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


@pytest.mark.slow
def test_a_person_who_weighs_a_record_in_each_segment_is_noticed(monkeypatch, capsys):
    pytest.importorskip("pandas")
    audits = only("segments, people", "rho")
    monkeypatch.setattr(audit, "all_audits", lambda: audits)
    assert audit.main(["--samples", "4000", "--seed", "0"]) == 0
    honest = segments.weights_and_number
    monkeypatch.setattr(
        segments,
        "weights_and_number",
        lambda n_rows, groups: (np.full(n_rows, RECORD_WEIGHT), honest(n_rows, groups)[1]),
    )
    assert audit.main(["--samples", "4000", "--seed", "0"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


@pytest.mark.slow
def test_no_claim_of_the_package_is_exceeded(capsys):
    assert audit.main(["--samples", "400", "--seed", "0"]) == 0
    printed = capsys.readouterr().out
    names = {one.name.split(",")[0] for one in audit.all_audits()}
    assert names >= {
        "aq",
        "agg_tree",
        "auto",
        "batches",
        "dp_count",
        "dp_describe",
        "DPRobustScaler",
        "segments",
        "DPOneHotEncoder",
        "DPOrdinalEncoder",
        "dp_value_counts",
    }
    for name in names:
        assert printed.count(f"\n{name}") >= 2  # for eps and for rho, or for rows and for people


@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_bounds_approach_the_truth_from_below(unit, rng):
    """One of two numbers is randomised response with eps = 1, and the other is noise."""
    p = math.e / (1 + math.e)
    truth = 1.0 if unit == "eps" else audit.least_loss("rho", np.array(p), np.array(1 - p))
    bounds = {}
    for n in (400, 40_000):
        one, other = (
            np.column_stack((rng.random(n) < chance, rng.random(n))) for chance in (p, 1 - p)
        )
        bounds[n] = audit.lower_bound(unit, one, other, 1e-3)
    assert 0 < bounds[400] < bounds[40_000] <= truth
    assert bounds[40_000] > 0.85 * truth


def test_equal_distributions_have_no_loss(rng):
    for unit in ("eps", "rho"):
        outcomes = rng.normal(size=(2, 3000, 1))
        assert audit.lower_bound(unit, *outcomes, 1e-3) < 0.01


def test_losses_of_an_event_are_those_of_two_bernoulli_distributions():
    p, q = np.array([0.5, 0.2, 0.1]), np.array([0.1, 0.2, 0.4])
    np.testing.assert_allclose(audit.least_loss("eps", p, q), [math.log(5), 0, 0])
    rho = audit.least_loss("rho", p, q)
    kl = 0.5 * math.log(5) + 0.5 * math.log(5 / 9)
    assert rho[0] == pytest.approx(kl, rel=0.05)
    assert rho[1] == rho[2] == 0
    with_delta = audit.least_loss("eps", p, q, delta=0.05)
    np.testing.assert_allclose(with_delta, [math.log(4.5), 0, 0])


def test_bounds_of_chances_hold_as_often_as_they_should(rng):
    n_hits = rng.binomial(200, 0.3, size=4000)
    low, high = audit.bounds_of_chances(n_hits, n_hits, 200, 0.1)
    assert 0.02 < np.mean(low > 0.3) <= 0.055
    assert 0.02 < np.mean(high < 0.3) <= 0.055
    assert audit.bounds_of_chances(np.array(0), np.array(200), 200, 0.1) == (0.0, 1.0)
