"""The documentation site: python -m sphinx -W -q -b html docs docs/_build/html."""

import re
from html import escape
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from sys import path as import_path
from textwrap import shorten

from docutils import nodes
from pygments.lexers import PostgresLexer

import dpq_sklearn
from dpq_sklearn.home import SOURCE

HERE = Path(__file__).parent
import_path.insert(0, str(HERE))  # for gallery_style and source_pages

from source_pages import link_to_source  # noqa: E402

project = "dpq_sklearn"
author = "The dpq_sklearn developers"
copyright = "the dpq_sklearn developers, BSD-3-Clause"
release = version = dpq_sklearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "source_pages",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_templates",
    "measured/*.md",  # parts of pages
    "auto_examples/*.md5",
    "auto_examples/index.rst",  # gallery.md groups the examples
    "**sg_execution_times.rst",
]
root_doc = "index"
default_role = "literal"  # single backquotes in docstrings

# Pages are Markdown that also reads well in a repository browser.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
toc_object_entries_show_parents = "hide"

numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False
autodoc_typehints = "none"  # docstrings say more
linkcode_resolve = link_to_source

copybutton_exclude = ".linenos, .gp, .go"  # neither prompts nor output are copied

# Formulas must be readable without a network: this one file holds the fonts as well.
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"
mathjax_path = MATHJAX.name

# Every reference must resolve: inside the project by Sphinx, to the API pages of these projects
# by `link_to_other_project`, which needs no network.
nitpicky = True
API_PAGES = {
    "sklearn": "https://scikit-learn.org/stable/modules/generated/{}.html",
    "numpy": "https://numpy.org/doc/stable/reference/generated/{}.html",
    "scipy": "https://docs.scipy.org/doc/scipy/reference/generated/{}.html",
    "pandas": "https://pandas.pydata.org/docs/reference/api/{}.html",
    "joblib": "https://joblib.readthedocs.io/en/stable/generated/{}.html",
}

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    # What takes minutes (the benchmarks, the paper) lies in folders that the gallery leaves out.
    "filename_pattern": r".*\.py$",
    "ignore_pattern": r"(benchmarks|paper)[/\\]",
    "reset_modules": ("matplotlib", "gallery_style.set_style"),
    "image_srcset": ["2x"],
    "thumbnail_size": (600, 400),
    "default_thumb_file": str(HERE / "_static" / "private_against_exact.png"),
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1000,
    "doc_module": ("dpq_sklearn",),
    "reference_url": {"dpq_sklearn": None},
    "backreferences_dir": "generated/backreferences",
    "remove_config_comments": True,
    "show_signature": False,
    "plot_gallery": "True",
}

# The search shows a page first if the query is one of these words.
SEARCH_WORDS = {
    "which_eps": ["epsilon", "eps"],
    "enough_data": ["PrivacyNoiseWarning", "warning", "few rows"],
    "people": ["people", "groups", "user-level", "user-level privacy"],
    "categorical": ["categorical", "categories", "text columns"],
    "missing_values": ["NaN", "missing", "missing values", "imputer"],
    "bounds": ["bounds", "decimals", "prior"],
    "large_data": ["memory", "batches", "Dask", "Spark"],
    "ledger": ["ledger", "budget", "GridSearchCV", "grid search", "cross-validation"],
    "team_budget": ["PostgreSQL", "team"],
    "privacy_officer": ["privacy officer", "data protection officer"],
    "private_models": ["private models"],
    "export": ["export", "ONNX", "export ONNX", "skops"],
    "speed": ["speed"],
    "accuracy": ["accuracy"],
    "privacy": ["proof", "seed", "random_state"],
    "user_guide": ["segments"],
    "glossary": ["glossary"],
}


def add_search_words(docname, text):
    """Return the text with its words as main entries of the index, below its title."""
    title = re.search(r"^# .+\n", text, re.M)
    words = ", ".join(f"! {word}" for word in SEARCH_WORDS[docname])
    return f"{text[: title.end()]}\n```{{index}} {words}\n```\n{text[title.end() :]}"


def statement_of_example():
    """Return the statement that the page for privacy officers makes, as a frame of its own."""
    page = (HERE / "privacy_officer.md").read_text(encoding="utf-8")
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], names)
    return (
        '<iframe title="A privacy statement" style="width: 100%; height: 40rem; border: 1px solid" '
        f'srcdoc="{escape(names["page"])}"></iframe>'
    )


def include_page(match):
    """Return a page of the repository's top folder, with links as they are in docs/."""
    text = (HERE / match[1]).read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(r"\]\(([A-Z]+\.md)", lambda link: link[0].lower(), text)


def alt_text_of_card(docname):
    """Return what the card of an example in the gallery says about its picture."""
    gallery = (HERE / "gallery.md").read_text(encoding="utf-8")
    card = rf":img-alt: ([^\n]+)\n:link: {re.escape(docname)}\n"
    return re.search(card, gallery)[1]


def link_to_pages(app, docname, source):
    """Links that work in a repository browser become links to pages of the site."""
    if docname.startswith("auto_examples/"):
        alt = f"   :alt: {alt_text_of_card(docname)}"
        source[0] = re.sub(r"^   :alt: [^\n]*$", lambda _: alt, source[0], flags=re.M)
    source[0] = re.sub(r"```{include} (\S+\.md)\n```", include_page, source[0])
    if docname in SEARCH_WORDS:
        source[0] = add_search_words(docname, source[0])
    if docname == "privacy_officer":
        source[0] = source[0].replace(
            "<!-- The site shows the statement here. -->", statement_of_example()
        )
    for script in (HERE.parent / "examples").glob("*.py"):
        page = f"](auto_examples/{script.stem}.rst)"
        source[0] = source[0].replace(f"](../examples/{script.name})", page)
    source[0] = source[0].replace("](../examples)", "](gallery.md)")


def link_to_other_project(app, env, node, contnode):
    """Return a link to the API page of another project's object, if there is such an object."""
    name = node.get("reftarget", "")
    package = name.partition(".")[0]
    try:
        resolve_name(name)
    except (ValueError, ImportError, AttributeError):
        return None
    if package not in API_PAGES:
        return None
    return nodes.reference("", "", contnode, refuri=API_PAGES[package].format(name))


def describe_page(app, pagename, templatename, context, doctree):
    """Give every page a description for search engines: its first paragraph."""
    if doctree is None:  # the index, the search
        return
    texts = (re.sub(r"\s+", " ", node.astext()) for node in doctree.findall(nodes.paragraph))
    text = next((text for text in texts if len(text) > 40 and "download" not in text), project)
    description = escape(shorten(text, 200, placeholder=" ..."), quote=True)
    context["metatags"] += f'\n<meta name="description" content="{description}" />'


def name_empty_headers(app, doctree):
    """Give the header of a table's first column words for screen readers, if it has none."""
    for header in doctree.findall(nodes.thead):
        for cell in header.findall(nodes.entry):
            if not cell.astext().strip():
                words = nodes.inline("", "row", classes=["visually-hidden"])
                cell += nodes.paragraph("", "", words)


def setup(app):
    app.add_lexer("sql", PostgresLexer)
    app.connect("source-read", link_to_pages)
    app.connect("missing-reference", link_to_other_project)
    app.connect("doctree-read", name_empty_headers)
    app.connect("html-page-context", describe_page)


html_theme = "pydata_sphinx_theme"
html_title = f"dpq_sklearn {release}"
html_static_path = ["_static", str(MATHJAX)]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_theme_options = {
    "logo": {
        "text": "dpq_sklearn",
        "image_light": "_static/favicon.svg",
        "image_dark": "_static/favicon.svg",
        "alt_text": "dpq_sklearn, home",
    },
    "icon_links": [{"name": "Source", "url": SOURCE, "icon": "fa-solid fa-code"}] if SOURCE else [],
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages without pages below or beside them have no use for a sidebar.
html_sidebars = {
    page: []
    for page in (
        "index",
        "install",
        "getting_started",
        "how_it_works",
        "privacy",
        "citing",
        "changelog",
        "contributing",
        "security",
        "gallery",
    )
}
html_show_sourcelink = False
