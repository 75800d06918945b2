"""The built site: SITE=folder python -m pytest tests/test_site.py, after building it there."""

import os
import re
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
# What an example would print instead of a result if something that it needs were not there.
EXCUSES = re.compile(
    r"\bNaN\b|Warning: |left out|not installed|pip install|install dpq|cannot be imported"
)


class Page(HTMLParser):
    """What a page links to, loads and shows."""

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
    made_by_sphinx = page.stem in ("genindex", "search") or "_modules" in page.parts
    assert made_by_sphinx or PARSED[page].described


@every_page
def test_examples_print_results_and_no_excuses(page):
    outputs = re.findall(r'class="sphx-glr-script-out.*?</pre>', page.read_text(), re.S)
    for output in outputs:
        assert not EXCUSES.search(re.sub(r"<[^>]+>", "", output))


def test_gallery_has_outputs_to_look_at():
    pages = [page for page in PAGES if page.parent.name == "auto_examples"]
    assert sum("sphx-glr-script-out" in page.read_text() for page in pages) >= 8
