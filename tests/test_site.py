"""The built site: SITE=folder python -m pytest tests/test_site.py, after building it there."""

import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(os.environ.get("SITE", "no site"))
pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="SITE is not the folder of a built site")
PAGES = sorted(page for page in SITE.rglob("*.html") if "_static" not in page.parts)
every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[page.relative_to(SITE).as_posix() for page in PAGES]
)
EXAMPLES = [page for page in PAGES if page.parent.name == "auto_examples"]
# What an example would print instead of a result if something that it needs were not there.
EXCUSES = re.compile(
    r"\bNaN\b|Warning: |left out|not installed|pip install|install dpq|cannot be imported"
)


class Page(HTMLParser):
    """The links, the loaded files and the images of a page."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links, self.loads = path, set(), [], []
        self.images_without_words, self.described = [], False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(found["href"])
        if tag == "img" and not found.get("alt") and "_thumb." not in found["src"]:
            self.images_without_words.append(found["src"])
        if tag == "meta" and found.get("name") == "description":
            self.described = len(found["content"]) > 20


PARSED = {page: Page(page) for page in PAGES}


@every_page
def test_links_inside_the_site_resolve(page):
    for link in PARSED[page].links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        assert target.exists(), link
        if parts.fragment and target.suffix == ".html":
            there = PARSED.get(target) or Page(target)
            assert unquote(parts.fragment) in there.anchors, link


@every_page
def test_nothing_is_loaded_from_a_network(page):
    for address in PARSED[page].loads:
        assert not urlsplit(address).netloc, address
        if not address.startswith("data:"):
            assert (page.parent / unquote(urlsplit(address).path)).exists(), address


@every_page
def test_images_have_words(page):
    assert PARSED[page].images_without_words == []


@every_page
def test_pages_are_described_to_search_engines(page):
    made_by_sphinx = page.stem in ("genindex", "search") or "source" in page.parts
    assert made_by_sphinx or PARSED[page].described


@every_page
def test_columns_of_tables_have_names(page):
    assert not re.search(r'<th class="head[^>]*>\s*(<p>\s*</p>)?\s*</th>', page.read_text())


@pytest.mark.parametrize("page", EXAMPLES, ids=[page.stem for page in EXAMPLES])
def test_examples_print_results_and_no_excuses(page):
    outputs = re.findall(r'class="sphx-glr-script-out.*?</pre>', page.read_text(), re.S)
    for output in outputs:
        assert not EXCUSES.search(re.sub(r"<[^>]+>", "", output))


def alt_of(image, page):
    """Return the words of an image of a page."""
    tag = re.search(rf"<img[^>]*{image}[^>]*>", page.read_text())[0]
    return unescape(re.search(r'alt="(.*?)"', tag)[1])


@pytest.mark.parametrize("page", EXAMPLES, ids=[page.stem for page in EXAMPLES])
def test_figures_of_examples_have_the_words_of_their_cards(page):
    """Sphinx-Gallery would take the title of a figure, which says little without the figure."""
    figure = f"sphx_glr_{page.stem}_001.png"
    if figure in page.read_text():
        card = alt_of(f"sphx_glr_{page.stem}_thumb.png", SITE / "gallery.html")
        assert len(card) > 40 and alt_of(figure, page) == card


def search_index():
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])


@pytest.mark.parametrize(
    "words, page",
    {
        "epsilon": "which_eps",
        "GridSearchCV": "ledger",
        "NaN": "missing_values",
        "missing values": "missing_values",
        "memory": "large_data",
        "speed": "speed",
        "people": "people",
        "groups": "people",
        "user-level": "people",
        "bounds": "bounds",
        "categorical": "categorical",
        "export ONNX": "export",
        "ledger": "ledger",
        "glossary": "glossary",
    }.items(),
)
def test_search_finds_the_page_first(words, page):
    """A main entry of the index that equals the query has 100 points, other hits at most 26.

    These are the points of Sphinx's searchtools.js: a title has at most 16, an object 26.
    """
    index = search_index()
    entries = index["indexentries"][words.lower()]
    assert [index["docnames"][number] for number, _, is_main in entries if is_main] == [page]


def test_changelog_is_not_searched():
    index = search_index()
    number = index["docnames"].index("changelog")
    for files in index["terms"].values():
        assert number not in (files if isinstance(files, list) else [files])


REFERENCE = sorted(SITE.glob("generated/dpq_sklearn.*.html"))


@pytest.mark.parametrize("page", REFERENCE, ids=[page.stem for page in REFERENCE])
def test_reference_links_to_the_code(page):
    """All that is written in this package; some methods are scikit-learn's."""
    inherited = ("get_feature_names_out", "get_params", "set_params", "set_output")
    inherited += ("get_metadata_routing", "set_fit_request", "fit_transform")
    signatures = re.findall(r'<dt class="sig sig-object.*?</dt>', page.read_text(), re.S)
    assert signatures
    for signature in signatures:
        name = re.search(r'id="[\w.]+?(\w+)"', signature)[1]
        assert "[source]" in signature or name in inherited, name
        assert "**unknown" not in re.sub("<[^>]+>", "", signature)


def test_proofs_open_files_and_tests():
    page = PARSED[SITE / "privacy.html"]
    opened = [link for link in page.links if link.startswith("source/")]
    assert len(opened) > 90 and not any("_downloads" in link for link in page.links)


def test_gallery_has_outputs_to_look_at():
    assert sum("sphx-glr-script-out" in page.read_text() for page in EXAMPLES) >= 8
