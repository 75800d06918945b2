"""What every run of the tests relies on: the same noise, no false alarms, no unnoticed skips."""

from types import SimpleNamespace

import pytest

from dpq_sklearn.engine.random import make_randomness
from tests.noise import MOST_FALSE_ALARMS, noise_of, refuse_false_alarms
from tests.skips import unexpected


def a_test(name, false_alarm=None):
    """Return a stand-in for a test, with or without a marked probability of false alarms."""
    mark = None if false_alarm is None else SimpleNamespace(kwargs={"false_alarm": false_alarm})
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: mark)


def words_of(test):
    with noise_of(test):
        return make_randomness(None).words(5).tolist()


def test_noise_depends_on_the_name_of_a_test_alone():
    assert words_of(a_test("one")) == words_of(a_test("one")) != words_of(a_test("another"))


@pytest.mark.fresh_noise(false_alarm=1e-18)
def test_marked_tests_have_fresh_noise():
    marked = a_test("one", false_alarm=1e-9)
    assert words_of(marked) != words_of(marked)


def test_chances_of_false_alarms_add_up():
    refuse_false_alarms([a_test("fine"), a_test("rare", MOST_FALSE_ALARMS / 2)])
    with pytest.raises(pytest.UsageError, match="fail by chance"):
        refuse_false_alarms([a_test("rare", 0.6 * MOST_FALSE_ALARMS)] * 2)


def test_a_skip_is_expected_in_some_runs_only(monkeypatch):
    why = ("a file", 1, "Skipped: could not import 'dask': No module named 'dask'")
    report = SimpleNamespace(nodeid="tests/test_counts.py::test_dask", longrepr=why)
    monkeypatch.delenv("SKIPS", raising=False)
    assert unexpected([report]) == []
    for run, n_unexpected in {"newest": 1, "fast": 0, "oldest": 0, "site": 1}.items():
        monkeypatch.setenv("SKIPS", run)
        assert len(unexpected([report])) == n_unexpected
