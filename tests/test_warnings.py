"""Which warnings fail a test: ours do, deprecations of others do not, `-W error` is for all."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAMPLE = """
import warnings
import pytest

CATEGORIES = [UserWarning, RuntimeWarning, DeprecationWarning, FutureWarning]
MODULES = ["dpq_sklearn", "dpq_sklearn.engine.grid", "tests.test_grid", "numpy"]

@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("module", MODULES)
def test_warning(category, module):
    warnings.warn_explicit("words", category, "a_file.py", 1, module=module)

def test_noise():
    from dpq_sklearn import PrivacyNoiseWarning
    warnings.warn("words", PrivacyNoiseWarning)
"""
pytestmark = pytest.mark.slow


def failed_tests(folder, *options):
    """Return the names of the tests of the sample that fail under the settings of this project."""
    (folder / "tests").mkdir()
    (folder / "tests" / "test_sample.py").write_text(SAMPLE)
    shutil.copy(ROOT / "pyproject.toml", folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    environment.pop("PYTHONWARNINGS", None)
    command = [sys.executable, "-m", "pytest", "-n0", "-pno:cacheprovider", *options, "tests"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert " passed" in run.stdout, run.stdout + run.stderr
    return set(re.findall(r"^FAILED .*::(\S+)", run.stdout, re.M))


def test_ours_fail_and_deprecations_of_others_do_not(tmp_path):
    ours = ("dpq_sklearn", "dpq_sklearn.engine.grid", "tests.test_grid")
    categories = ("UserWarning", "RuntimeWarning")
    assert failed_tests(tmp_path) == {
        f"test_warning[{module}-{category}]" for module in ours for category in categories
    }


def test_all_fail_where_every_warning_is_an_error(tmp_path):
    options = ("-W", "error", "-W", "ignore::dpq_sklearn.PrivacyNoiseWarning")
    assert len(failed_tests(tmp_path, *options)) == 16
