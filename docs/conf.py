"""The documentation site: python -m sphinx -W -b html docs docs/_build/html."""

import sys
from pathlib import Path

import dpq_sklearn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for gallery_order

project = "dpq_sklearn"
author = "The dpq_sklearn developers"
copyright = "the dpq_sklearn developers, BSD-3-Clause"
release = version = dpq_sklearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "auto_examples/*.md5", "sg_execution_times.rst"]
root_doc = "index"
default_role = "literal"  # single backquotes in docstrings

# Pages are Markdown that also reads well in a repository browser.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False

# Every reference inside the project must resolve. What belongs to other projects is only named:
# looking it up would need the network at build time.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(sklearn|numpy|scipy|pandas|matplotlib|dask|joblib)(\..*)?")]

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    # What takes minutes (the benchmarks, the paper) lies in folders that the gallery leaves out.
    "filename_pattern": r".*\.py$",
    "ignore_pattern": r"(benchmarks|paper)[/\\]",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "default_thumb_file": str(HERE / "_static" / "private_bins.png"),
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1000,
    "doc_module": ("dpq_sklearn",),
    "reference_url": {"dpq_sklearn": None},
    "backreferences_dir": None,
    "remove_config_comments": True,
    "show_signature": False,
    "plot_gallery": "True",
}


def link_to_gallery(app, docname, source):
    """Links to scripts, which work in a repository browser, become links to their gallery pages."""
    for script in (HERE.parent / "examples").glob("*.py"):
        page = f"](auto_examples/{script.stem}.rst)"
        source[0] = source[0].replace(f"](../examples/{script.name})", page)
    source[0] = source[0].replace("](../examples)", "](auto_examples/index.rst)")


def setup(app):
    app.connect("source-read", link_to_gallery)


html_theme = "pydata_sphinx_theme"
html_title = f"dpq_sklearn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"text": "dpq_sklearn"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages without pages below them have no use for a sidebar.
html_sidebars = {
    page: []
    for page in (
        "index",
        "getting_started",
        "user_guide",
        "privacy",
        "coming_from",
        "limitations",
        "changelog",
        "contributing",
    )
}
html_show_sourcelink = False
