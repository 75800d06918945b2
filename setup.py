"""What the package says of itself on an index, where links to files of a clone lead nowhere.

All else is in pyproject.toml. The addresses are set in dpq_sklearn/home.py.
"""

import re
from pathlib import Path
from runpy import run_path

HERE = Path(__file__).parent
ON_THE_SITE = {"examples": "gallery.html", "docs/": "", ".md": ".html"}


def for_an_index(readme, documentation):
    """Return a README whose links lead to the site; without a site, their words alone."""

    def on_the_site(match):
        is_image, words, target = match.groups()
        if target.startswith("https://"):
            return match[0]
        if not documentation:
            return "" if is_image else words

        if target.endswith(".md") and "/" not in target:  # CHANGELOG.md is included by a page
            target = target.lower()
        for in_the_clone, there in ON_THE_SITE.items():
            target = target.replace(in_the_clone, there)
        return f"{is_image}[{words}]({documentation}/{target})"

    return re.sub(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)", on_the_site, readme)


def addresses(documentation, source):
    """Return the links of the project that lead somewhere."""
    links = {"Documentation": documentation, "Source": source}
    return {name: address for name, address in links.items() if address}


if __name__ == "__main__":
    from setuptools import setup

    home = run_path(str(HERE / "dpq_sklearn" / "home.py"))
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=for_an_index(readme, home["DOCUMENTATION"]),
        long_description_content_type="text/markdown",
        project_urls=addresses(home["DOCUMENTATION"], home["SOURCE"]),
    )
