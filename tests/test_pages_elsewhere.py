"""Code of the pages that needs what other tests do without: Spark, a server, other libraries."""

import re
import textwrap
from pathlib import Path

import pytest

from tests.marks import WITHOUT_JAVA, has_java
from tests.test_docs import CODE, ELSEWHERE

DOCS = Path(__file__).parents[1] / "docs"
pytestmark = pytest.mark.slow


def run(name, wanted, **namespace):
    """Run all blocks of a page but those that need something else than `wanted`."""
    n_wanted = 0
    for code, _, _ in CODE.findall((DOCS / name).read_text()):
        needs = set(ELSEWHERE.findall(code))
        if needs <= wanted:
            n_wanted += bool(needs)
            exec(compile(textwrap.dedent(code), name, "exec"), namespace)
    assert n_wanted
    return namespace


@pytest.mark.skipif(not has_java, reason=WITHOUT_JAVA)
def test_spark_on_the_page_of_large_data():
    pytest.importorskip("pyspark", reason="the extra 'spark'")
    pytest.importorskip("dask", reason="the extra 'dask'")
    found = run("large_data.md", {"pyspark"})
    assert found["people"].privacy_.eps == 1.0
    found["spark"].stop()


@pytest.mark.parametrize("library", ["diffprivlib", "opendp"])
def test_other_libraries_on_the_page_for_those_who_come_from_them(library):
    names = {library}
    namespace = {}
    if library == "diffprivlib":
        try:
            from diffprivlib import BudgetAccountant
            from diffprivlib.models import GaussianNB
        except ImportError:
            pytest.skip("diffprivlib is not installed, or not for this scikit-learn")
        names.add("BudgetAccountant")
        namespace = {"GaussianNB": GaussianNB, "BudgetAccountant": BudgetAccountant}
    pytest.importorskip(library, reason="another library")
    run("coming_from.md", names, **namespace)


def test_server_on_the_page_of_a_team(tmp_path, monkeypatch):
    """The page names a server that does not exist: files take its place, by the same code."""
    text = (DOCS / "team_budget.md").read_text()
    (code, _, _), *others = CODE.findall(text)
    assert not others and "postgresql://" in code
    in_a_file = re.sub(
        r'"postgresql://\w+@[\w./]+(#salaries)?"', f'r"{tmp_path / "budget.sqlite"}"', code
    )
    namespace = {"X": [[float(row)] for row in range(1000)]}
    exec(in_a_file.replace(', name="salaries"', ""), namespace)
