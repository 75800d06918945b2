"""The measured tables of the documentation: each page shows what a script has written."""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "examples" / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import measured  # noqa: E402
from results import Number  # noqa: E402

from dpq_sklearn.estimators.strategies import TIMES_BETTER_WITH_AUTO  # noqa: E402

FILES = sorted(path.stem for path in measured.FOLDER.glob("*.json"))
AGAIN = [name for name in FILES if measured.SOURCES[name].few_trials]
MOST_STANDARD_ERRORS = 4


def test_every_table_is_measured_and_every_file_is_a_table():
    assert sorted(measured.SOURCES) == FILES
    assert sorted(path.stem for path in measured.FOLDER.glob("*.md")) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_page_shows_the_numbers_of_the_data_file(name):
    content = measured.read(name)
    shown = (measured.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert shown == measured.as_markdown(content)
    assert (ROOT / content["script"]).exists()
    assert content["trials"] >= 1 and content["commit"] and content["cpu"] and content["versions"]
    assert measured.SOURCES[name].commit in ("", content["commit"])


def test_every_table_is_on_a_page():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    included = set(re.findall(r"\{include\} measured/(\w+)\.md", pages))
    linked = set(re.findall(r"\(measured/(\w+)\.json\)", pages))
    assert included | linked == set(FILES)


def differences(name, trials):
    """Yield how many standard errors each number is away from that of the documentation."""
    content = measured.read(name)
    documented = measured.cells_of(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = measured.SOURCES[name].measure(trials)
    assert list(table.rows) == list(documented)

    for label, cells in table.rows.items():
        for was, now in zip(documented[label], cells, strict=True):
            if isinstance(was, str) or np.isnan(was.mean):
                continue
            deviation = was.error * np.sqrt(content["trials"])  # of one trial
            error = deviation * np.sqrt(1 / content["trials"] + 1 / trials)
            rounding = 0.5 * 10.0**-was.decimals
            yield label, max(abs(now.mean - was.mean) - rounding, 0.0) / max(error, rounding)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_a_few_trials_give_the_documented_numbers(name):
    far = [
        (label, round(float(times), 1))
        for label, times in differences(name, measured.SOURCES[name].few_trials)
        if times > MOST_STANDARD_ERRORS
    ]
    assert far == []


def test_numbers_show_as_many_decimals_as_they_have():
    assert str(Number.of([1.0, 2.0, 3.0], 2)) == "2.00 ± 0.58"
    assert str(Number(0.25, 0.0, 1)) == "0.2"
    assert str(Number(float("nan"), 0.0, 1)) == "-"


def test_what_auto_gains_is_what_was_measured():
    """If quantiles are more than half a bin off, "auto" makes the loss of AUC smaller."""
    times = []
    for name in ("strategies", "strategies_half"):
        for cells in measured.cells_of(measured.read(name)).values():
            error, quantile, uniform, auto, _, exact = (cell.mean for cell in cells)
            if error > 0.5 and exact > max(quantile, uniform, auto):
                times.append((exact - quantile) / (exact - auto))
    assert len(times) >= 10
    assert round(float(np.exp(np.mean(np.log(times)))), 1) == TIMES_BETTER_WITH_AUTO


def test_the_page_on_the_paper_states_the_measured_ratios():
    page = (ROOT / "docs" / "paper_results.md").read_text(encoding="utf-8")

    def mean_of(name, column):
        rows = measured.cells_of(measured.read(name))
        continuous = ("uniform", "gaussian", "goodreads_rating", "goodreads_pages")
        return np.mean([rows[f"m = 1 .. 120, {dataset}"][column].mean for dataset in continuous])

    eps, rho = (mean_of(name, 0) / mean_of(name, 1) for name in ("paper_eps", "paper_rho"))
    assert f"is {eps:.2f} times the paper's with eps = 1 and {rho:.2f} times" in page

    ours, theirs, _, published_joint_exp, *_ = (
        cell.mean for cell in measured.cells_of(measured.read("paper_times"))["m = 120"]
    )
    assert f"is {published_joint_exp / ours:.0f} times faster than JointExp as published" in page
    assert f"floating point is {ours / theirs:.0f} times faster" in page
