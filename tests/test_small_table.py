"""The table for users without pandas, and the pages whose code must run without it."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpq_sklearn.small_table import SmallTable

ROOT = Path(__file__).parent.parent
# Hides what the installation command of these pages does not install.
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars", "pyarrow", "matplotlib"):
            raise ImportError(name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def table():
    return SmallTable({"name": ["a", "b"], "value": np.array([1.0, 2.5])}, labels=["one", "two"])


def test_a_table_indexes_by_name_and_by_names(table):
    assert table["name"] == ["a", "b"]
    assert table[["value"]].columns == ["value"] and table[["value"]].labels == ["one", "two"]
    with pytest.raises(KeyError):
        table[["other"]]


def test_a_table_prints_its_rows(table):
    assert repr(table).splitlines() == ["     name  value", "one     a      1", "two     b    2.5"]
    assert table.to_string(index=False).splitlines() == [
        "name  value",
        "   a      1",
        "   b    2.5",
    ]
    assert SmallTable({"<b>": [1]})._repr_html_().count("&lt;b&gt;") == 1


def test_a_table_converts_to_pandas(table):
    expected = pd.DataFrame({"name": ["a", "b"], "value": [1.0, 2.5]}, index=["one", "two"])
    assert table.to_pandas().equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md"])
def test_the_first_pages_run_with_what_they_install(page):
    code = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    assert len(code) > 1
    script = HIDDEN + "\n".join(code)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
