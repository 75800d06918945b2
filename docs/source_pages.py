"""Pages with the code of the package and its tests, and links to them.

The reference has a link [source] at every class, function and method, and the proofs open the files
and tests that they name. (Sphinx's own `viewcode` does not find classes whose `__module__` is that
of the public name.)
"""

import ast
import re
from functools import cache
from inspect import unwrap
from pathlib import Path
from pkgutil import resolve_name

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.addnodes import download_reference

ROOT = Path(__file__).parents[1]
FOLDERS = ("dpq_sklearn", "tests", "examples/benchmarks", "examples/paper")
NAMED_TEST = re.compile(r"(tests/\w+\.py)(?:::(\w+))?")


def source_files():
    """Yield the path of each file that has a page, relative to the top folder."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "output" not in file.parts:
                yield file.relative_to(ROOT).as_posix()


def page_of(path):
    """Return the name of the page of a file."""
    return f"source/{path.removesuffix('.py')}"


def definitions(tree, prefix=""):
    """Yield the qualified name and the line of every class, function and method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = prefix + node.name
            yield name, node.lineno
            yield from definitions(node, name + ".")


def collect_pages(app):
    """Make a page of each file, with an anchor at every definition."""
    formatter = HtmlFormatter(nowrap=True)
    for path in source_files():
        code = (ROOT / path).read_text(encoding="utf-8")
        lines = highlight(code, PythonLexer(stripnl=False), formatter).splitlines()
        for name, number in definitions(ast.parse(code)):
            lines[number - 1] = f'<span id="{name}"></span>{lines[number - 1]}'
        text = "\n".join(lines)
        body = f'<h1>{path}</h1>\n<div class="highlight"><pre>{text}</pre></div>'
        yield page_of(path), {"title": path, "body": body}, "page.html"


@cache
def pages_of_names():
    """Return {qualified name: address of its definition} of all that the package defines."""
    addresses = {}
    for path in source_files():
        if path.startswith("dpq_sklearn/"):
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            for name, _ in definitions(tree):
                addresses[name] = f"{page_of(path)}.html#{name}"
    return addresses


def link_to_source(domain, info):
    """Return the address of an object's code, as seen from the pages of the reference."""
    try:
        thing = resolve_name(f"{info['module']}:{info['fullname']}")
    except AttributeError:  # an attribute that only instances have
        return None

    thing = unwrap(thing.fget if isinstance(thing, property) else thing)
    address = pages_of_names().get(getattr(thing, "__qualname__", ""))
    return address and f"../{address}"


def open_files_and_tests(app, doctree):
    """Links to files of the project become links to their pages, and so do names of tests."""
    paths = set(source_files())
    for node in list(doctree.findall(download_reference)):
        target = (Path(app.env.docname).parent / node["reftarget"]).as_posix()
        path = target.removeprefix("../")
        if path in paths:
            node.replace_self(nodes.reference("", "", *node.children, source_page=path))

    for node in list(doctree.findall(nodes.literal)):
        named = NAMED_TEST.fullmatch(node.astext())
        if named and named[1] in paths and not isinstance(node.parent, nodes.reference):
            reference = nodes.reference("", "", source_page=named[1], source_name=named[2])
            node.replace_self(reference)
            reference += node


def resolve(app, doctree, docname):
    """Give links to files their addresses, which depend on where the page is."""
    for node in doctree.findall(nodes.reference):
        if "source_page" in node:
            address = app.builder.get_relative_uri(docname, page_of(node["source_page"]))
            name = node.get("source_name")
            node["refuri"] = f"{address}#{name}" if name else address
            node["internal"] = True


def setup(app):
    app.connect("html-collect-pages", collect_pages)
    app.connect("doctree-read", open_files_and_tests, priority=100)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
