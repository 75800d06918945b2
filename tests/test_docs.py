"""The documentation says what the code does: names, defaults, commands, links, examples."""

import ast
import inspect
import math
import re
import runpy
import sys
import textwrap
import warnings
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import dpq_sklearn
from dpq_sklearn.accounting.budgets import Budget, Unit
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PAGE_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
PUBLIC = [getattr(dpq_sklearn, name) for name in dpq_sklearn.__all__]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
RAISED = {"BudgetExceededError", "LedgerError", "PrivacyNoiseWarning"}
SETUP = runpy.run_path(str(ROOT / "setup.py"))
every_page = pytest.mark.parametrize("page", PAGES, ids=PAGE_NAMES)
every_public_object = pytest.mark.parametrize("thing", PUBLIC, ids=dpq_sklearn.__all__)


def extra(name):
    """Return the requirements of an extra, as one text."""
    return re.search(rf"^{name} = \[(.*?)\]\n", PYPROJECT, re.S | re.M)[1]


def public_functions(thing):
    """Yield a function, or what belongs to a class and is written in this package."""
    if inspect.isfunction(thing):
        yield thing.__name__, thing, thing
        return
    if not issubclass(thing, Exception):
        yield thing.__name__, thing, thing.__init__
    for name, method in inspect.getmembers(thing, inspect.isroutine):
        ours = str(getattr(method, "__module__", "")).startswith("dpq_sklearn")
        if ours and not name.startswith("_"):
            yield f"{thing.__name__}.{name}", method, method


def documented_parameters(docstring):
    """Return {name: what follows the colon} of a numpydoc Parameters section."""
    section = re.search(r"\nParameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n-+\n|\Z)", docstring, re.S)
    lines = section[1].splitlines() if section else []
    documented = {}
    for line in lines:
        if line and not line.startswith(" "):
            names, _, description = line.partition(" : ")
            documented |= {name.strip(" *"): description for name in names.split(",")}
    return documented


def test_api_page_lists_the_catalogue():
    text = (ROOT / "docs" / "api.md").read_text()
    blocks = re.findall(r"\.\. autosummary::\n(.*?)```", text, re.S)
    listed = re.findall(r"^   (\w+)$", "\n".join(blocks), re.M)
    assert sorted(listed) == dpq_sklearn.__all__


def check_defaults(thing):
    for where, owner, function in public_functions(thing):
        documented = documented_parameters(inspect.getdoc(owner) or "")
        if not documented and owner is not thing:
            continue  # a method of one line, without a list of parameters
        for name, parameter in inspect.signature(function).parameters.items():
            if name == "self":
                continue
            assert name in documented, f"{where} does not document {name}"
            stated = re.search(r"default=(.+)$", documented[name])
            if stated and stated[1].startswith("np."):
                default = getattr(np, stated[1].removeprefix("np."))
                assert repr(default) == repr(parameter.default), f"{where}: {name}"  # NaN too
            elif stated:
                assert ast.literal_eval(stated[1]) == parameter.default, f"{where}: {name}"
            elif documented[name] not in ("", "None") and not is_dataclass(thing):
                assert parameter.default is parameter.empty, f"{where}: {name}"


@every_public_object
def test_documented_defaults_are_the_real_ones(thing):
    check_defaults(thing)


def test_the_test_of_defaults_has_power():
    def wrong(a=1):
        """Do nothing.

        Parameters
        ----------
        a : int, default=2
            A number.
        """

    with pytest.raises(AssertionError, match="wrong: a"):
        check_defaults(wrong)


@every_public_object
def test_parameters_are_documented_in_the_order_of_the_signature(thing):
    for where, owner, function in public_functions(thing):
        documented = list(documented_parameters(inspect.getdoc(owner) or ""))
        in_signature = [name for name in inspect.signature(function).parameters if name != "self"]
        assert not documented or documented == in_signature, where


@every_public_object
def test_public_objects_have_words_and_an_example(thing):
    docstring = inspect.getdoc(thing)
    assert docstring and not docstring.startswith(thing.__name__)
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert "\nExamples\n" in docstring and ">>> " in docstring
    assert "\nSee Also\n" in docstring
    for where, owner, _ in public_functions(thing):
        assert inspect.getdoc(owner), where


@every_public_object
def test_public_functions_list_their_parameters_and_returns(thing):
    for where, owner, function in public_functions(thing):
        docstring = inspect.getdoc(owner)
        if set(inspect.signature(function).parameters) - {"self"}:
            assert "\nParameters\n---" in docstring, where
        if not inspect.isclass(owner) and where != "PrivacyLedger.spend":  # which returns None
            assert "\nReturns\n---" in docstring, where


@pytest.mark.parametrize(
    "name",
    [
        "DPKBinsDiscretizer",
        "DPQuantileTransformer",
        "DPRobustScaler",
        "dp_quantiles",
        "sanitize",
        "dp_describe",
    ],
)
def test_releases_state_their_privacy(name):
    assert "**Privacy.**" in inspect.getdoc(getattr(dpq_sklearn, name))


@pytest.mark.parametrize(
    "name",
    [
        "DPKBinsDiscretizer",
        "DPQuantileTransformer",
        "DPRobustScaler",
        "DPOneHotEncoder",
        "DPOrdinalEncoder",
    ],
)
def test_transformers_link_to_scikit_learns_class(name):
    transformer = getattr(dpq_sklearn, name)
    docstring = inspect.getdoc(transformer)
    see_also = docstring.partition("See Also\n---")[2]
    assert f"sklearn.preprocessing.{transformer._counterpart.__name__} : " in see_also


@pytest.mark.parametrize("name", [name for name in dpq_sklearn.__all__ if name not in RAISED])
def test_docstrings_link_to_a_section_of_the_pages(name):
    docstring = inspect.getdoc(getattr(dpq_sklearn, name))
    labels = {
        label
        for page in (ROOT / "docs").glob("*.md")
        for label in re.findall(r"^\((\w+)\)=\n\n## ", page.read_text(), re.M)
    }
    read_more = re.search(r"Read\s+more\s+in\s.*?:ref:`[^<]*<(\w+)>`", docstring, re.S)
    assert read_more[1] in labels


@every_public_object
def test_examples_with_a_seed_say_that_private_data_must_not_have_one(thing):
    example = inspect.getdoc(thing).partition("Examples\n---")[2]
    assert "random_state=" not in example or "Leave `random_state` out" in example


def test_api_pages_describe_the_methods_that_scikit_learn_adds():
    template = (ROOT / "docs/_templates/autosummary/class.rst").read_text()
    added = {"set_output", "set_fit_request", "get_metadata_routing"}
    assert set(re.findall(r"^   \.\. method:: (\w+)\(", template, re.M)) == added
    assert all(hasattr(dpq_sklearn.DPKBinsDiscretizer, method) for method in added)


def slugs(page):
    """Return the anchors of a page: its headings as repository browsers spell them."""
    text = re.sub(
        r"```{include} (\S+)\n```",
        lambda included: (page.parent / included[1]).read_text(),
        page.read_text(),
    )
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def file_behind(link, page):
    """Return the file of this project that a link leads to, or None if it leads elsewhere."""
    if link.startswith(("http://", "https://")):
        return None
    return page.parent / link if link else page


@every_page
def test_no_line_inside_a_paragraph_begins_like_a_list(page):
    """Markdown would make a list of it: "changes by\\n1. With eps" loses its number."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    lines = text.splitlines()
    for before, line in pairwise(lines):
        is_item = re.match(r"\s*(\d+[.)]|[-*+])\s", line)
        is_in_text = re.match(r"[A-Za-z`$(*]", before) and not before.rstrip().endswith(":")
        assert not (is_item and is_in_text), line


@every_page
def test_internal_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = file_behind(path, page)
        if file is None:
            continue
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in slugs(file), f"{page.name} links to {target}"


def links_of(markdown):
    return re.findall(r"\]\(([^)\s]+)\)", markdown)


def test_pages_name_no_address_of_the_project_that_may_not_exist():
    """The address is set in one place, and all other links are relative."""
    for path in [*PAGES, ROOT / "pyproject.toml", ROOT / "docs" / "conf.py"]:
        hosted = re.findall(r"https?://\S*dpq[-_]sklearn\S*", path.read_text())
        assert hosted == [], path
    assert all(not link.startswith("http") for link in links_of((ROOT / "README.md").read_text()))


def test_readme_for_an_index_links_to_the_site_or_nowhere():
    readme = (ROOT / "README.md").read_text()
    assert len(links_of(readme)) > 10

    on_the_site = links_of(SETUP["for_an_index"](readme, "https://example.org/site"))
    assert len(on_the_site) == len(links_of(readme))
    for link in on_the_site:
        page = link.removeprefix("https://example.org/site/").partition("#")[0]
        assert page.endswith((".html", ".png")), link
        assert (ROOT / "docs" / page.replace(".html", ".md")).exists(), link

    alone = SETUP["for_an_index"](readme, "")
    assert links_of(alone) == [] and "![" not in alone
    assert "Which eps?" in alone


def test_an_index_gets_the_links_that_are_set():
    assert SETUP["addresses"]("", "") == {}
    assert SETUP["addresses"]("https://a.org", "") == {"Documentation": "https://a.org"}


@every_page
def test_files_and_tests_that_are_named_exist(page):
    text = page.read_text()
    for name in re.findall(r"(?<![/\w])((?:examples|tests|docs|dpq_sklearn)/[\w/.]+\.\w+)", text):
        assert (ROOT / name).exists(), name
    for file, test in re.findall(r"(tests/\w+\.py)::(\w+)", text):
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


@every_page
def test_long_output_is_folded(page):
    """A reader sees a small table, and opens what a script printed."""
    text = re.sub(r"<details>.*?</details>", "", page.read_text(), flags=re.S)
    for block in re.findall(r"^```text\n(.*?)^```", text, re.S | re.M):
        assert len(block.splitlines()) <= 20, block


@every_page
def test_options_of_commands_exist(page):
    for script, rest in re.findall(r"python (examples/\S+\.py)([^\n`]*)", page.read_text()):
        source = (ROOT / script).read_text()
        for option in re.findall(r"--[\w-]+", rest.split("&&")[0]):
            assert f'"{option}"' in source, f"{script} {option}"


# Libraries that the tests do not install, and a server.
ELSEWHERE = re.compile(
    r"diffprivlib|interpret|mlflow|BudgetAccountant|opendp|pyspark|postgresql://"
)
CODE = re.compile(
    r"^ *```py(?:thon)?\n(.*?)^ *```\n(?:\n([^\n]*yours will differ[^\n]*\n\n)?```text\n(.*?)```)?",
    re.S | re.M,
)


@every_page
def test_python_in_the_pages_runs(page, capsys):
    """All blocks of a page in their order; what is printed is checked where the page shows it.

    Of results that differ each time, the words are checked and the numbers are not.
    """
    namespace = {}
    for code, differs, shown in CODE.findall(page.read_text()):
        if ELSEWHERE.search(code):
            continue
        if "import dask" in code:
            pytest.importorskip("dask", reason="an extra of its own")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dpq_sklearn.PrivacyNoiseWarning)
            if "# a warning" in code:
                warnings.simplefilter("always", UserWarning)
            exec(compile(textwrap.dedent(code), page.name, "exec"), namespace)
        assert caught or "# a warning" not in code
        noisy = [w for w in caught if issubclass(w.category, dpq_sklearn.PrivacyNoiseWarning)]
        assert len(noisy) >= code.count("# warns") and (not noisy or "# warns" in code)
        printed = capsys.readouterr().out
        if shown.startswith("PrivacyNoiseWarning: "):
            continue
        if differs:
            assert words_of(printed) == words_of(shown)
        elif shown:
            assert printed.split() == shown.split()


def test_blocks_for_readers_who_come_from_elsewhere_run_alone():
    page = (ROOT / "docs" / "coming_from.md").read_text()
    blocks = [code for code, _, _ in CODE.findall(page) if not ELSEWHERE.search(code)]
    assert len(blocks) >= 10
    for code in blocks:
        exec(compile(code, "coming_from.md", "exec"), {})


def words_of(text):
    return [word for word in text.split() if not re.search(r"\d|^[\[\]]+$", word)]


def test_all_code_of_the_pages_is_python_that_is_run():
    """Only a few blocks need other libraries or servers and are not run here."""
    left_out = {}
    for page in PAGES:
        for code, _, _ in CODE.findall(page.read_text()):
            assert code.strip(), page
            if ELSEWHERE.search(code):
                left_out[page.name] = left_out.get(page.name, 0) + 1
    pages = {"coming_from.md", "large_data.md", "private_models.md", "recipes.md", "team_budget.md"}
    assert set(left_out) <= pages, left_out


def gallery_scripts():
    return sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", gallery_scripts(), ids=lambda script: script.stem)
def test_gallery_scripts_ask_a_question_and_are_listed(script):
    source = script.read_text()
    title, line, empty = ast.get_docstring(ast.parse(source)).splitlines()[:3]
    assert line == "=" * len(title) and empty == ""
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    assert f":::{{grid-item-card}} {title}\n:img-top: auto_examples/images/thumb/" in gallery
    assert gallery.count(f"auto_examples/{script.stem}\n") == 2  # the card and the list of pages
    if script.stem.startswith("plot_"):
        assert title.endswith("?") and source.endswith("plt.show()\n")


@pytest.mark.parametrize("script", gallery_scripts(), ids=lambda script: script.stem)
def test_gallery_scripts_leave_nothing_out(script):
    """They import what the extra "docs" installs, and have no second way if it is not there."""
    nodes = list(ast.walk(ast.parse(script.read_text())))
    caught = {ast.unparse(node.type) for node in nodes if isinstance(node, ast.ExceptHandler)}
    assert not caught & {"ImportError", "ModuleNotFoundError", "Exception"}
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    extras = extra("dask") + extra("examples")
    assert packages <= {"dpq_sklearn", "sklearn", "numpy"} | set(re.findall(r"\w+", extras))


def test_table_of_guesses_is_what_eps_implies():
    text = (ROOT / "docs" / "which_eps.md").read_text()
    rows = re.findall(r"^\| \**([\d.]+)\** \| (.*%)\** \|$", text, re.M)
    assert len(rows) == 7
    for eps, cells in rows:
        for prior, cell in zip((0.5, 0.1, 0.01), re.findall(r"[\d.]+(?=%)", cells), strict=True):
            odds = math.exp(float(eps)) * prior / (1 - prior)
            digits = len(cell.partition(".")[2])
            assert float(cell) == round(100 * odds / (1 + odds), digits), (eps, prior)


def test_shares_of_eps_on_the_page_of_how_it_works_are_those_of_the_tree():
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    fifths = (0.2, 0.4, 0.6, 0.8)
    nodes, eps = ApproximateQuantiles().nodes_and_eps(fifths, Budget(1.0, Unit.EPS))
    assert [node.indices for node in nodes] == [(2, 3), (1,), (4,)]
    assert f"**Root, {eps[0]:.0%} of eps.**" in text
    assert f"**Leaves, {eps[1]:.0%} of eps.**" in text


def test_install_page_lists_extras_and_oldest_versions():
    page = (ROOT / "docs" / "install.md").read_text()
    extras = re.search(r"optional-dependencies\]\n(.*?)\n\[tool", PYPROJECT, re.S)[1]
    assert re.findall(r"^(\w+) = \[", extras, re.M) == re.findall(r"^\| `(\w+)` \|", page, re.M)
    oldest = dict(re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| [\d.]+ \|$", page, re.M))
    assert f'requires-python = ">={oldest.pop("Python")}"' in PYPROJECT
    claimed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    assert f"| Python | {claimed[0]} | {claimed[-1]} |" in page
    assert len(oldest) == 3
    for package, version in oldest.items():
        assert f'"{package.lower()}>={version}"' in PYPROJECT


def test_site_uses_what_the_docs_extra_installs():
    pytest.importorskip("sphinx", reason="the site is built with the extra 'docs'")
    conf = (ROOT / "docs" / "conf.py").read_text()
    extensions = ast.literal_eval(re.search(r"extensions = (\[.*?\])", conf, re.S)[1])
    extensions.remove("source_pages")  # lies beside conf.py
    for extension in extensions:
        package = extension.partition(".")[0].replace("_", "-")
        assert f'"{package}>=' in extra("docs"), package


@pytest.mark.parametrize("name", ["README.md", "docs/privacy.md", "docs/user_guide.md"])
def test_pages_say_that_an_earlier_step_invalidates_the_guarantee(name):
    text = (ROOT / name).read_text()
    for word in ("MinMaxScaler", "StandardScaler", "imputer", "PCA", "sampl"):
        assert word in text
    assert re.search("(?i)in front|earlier step", text)
    assert re.search("(?i)void|invalidates|no longer holds", text)


def test_a_scaler_in_front_tells_about_a_single_row():
    """The privacy page says so. Without the scaler, the same row changes little."""
    some = np.linspace(0, 1, 500)[:, None]
    more = np.vstack((some, [[1e6]]))
    binner = dpq_sklearn.DPKBinsDiscretizer(2, eps=1.0)
    medians = {}
    for name, model in {"alone": binner, "scaled": make_pipeline(MinMaxScaler(), binner)}.items():
        fits = [clone(model).fit(X) for X in (some, more) for _ in range(20)]
        last = [fitted[-1] if name == "scaled" else fitted for fitted in fits]
        medians[name] = np.array([fitted.bin_edges_[0][1] for fitted in last]).reshape(2, 20)
    assert medians["scaled"][1].max() < 1e-3 < 0.1 < medians["scaled"][0].min()
    assert medians["alone"].min() > 0.1 and medians["alone"].max() < 0.9


@every_page
def test_pages_do_not_promise_to_several_rows_what_a_delta_breaks(page):
    """A paragraph that mentions k times eps must also say how delta changes."""
    for paragraph in re.split(r"\n\n|\n- |\n#", page.read_text()):
        of_rows = re.search(
            r"(k\$?|\d+) times (that |the )?eps|[Tt]wice the\s+eps|-fold eps", paragraph
        )
        assert not of_rows or "delta" in paragraph, paragraph
