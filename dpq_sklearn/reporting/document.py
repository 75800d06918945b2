"""A small document, written as Markdown or as HTML: sections of paragraphs, lists and tables."""

import html
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of texts below a row of headings."""

    headings: tuple
    rows: tuple


@dataclass(frozen=True)
class Section:
    """A title, and paragraphs (str), lists (tuple of str) and tables below it."""

    title: str
    content: tuple


def as_markdown(title, sections):
    """Return the document as Markdown."""
    blocks = [f"# {_plain(title)}"]
    for section in sections:
        blocks.append(f"## {_plain(section.title)}")
        blocks.extend(map(_markdown_block, section.content))
    return "\n\n".join(blocks) + "\n"


def _markdown_block(block):
    if isinstance(block, Table):
        lines = [block.headings, ["---"] * len(block.headings), *block.rows]
        return "\n".join(f"| {' | '.join(map(_plain, line))} |" for line in lines)
    if isinstance(block, tuple):
        return "\n".join(f"- {_plain(item)}" for item in block)
    return _plain(block)


def _plain(text):
    """Return a text that Markdown shows as it is: names of columns may hold anything."""
    line = _printable(" ".join(text.split()))
    for sign in "\\`*_[]<>|#":
        line = line.replace(sign, f"\\{sign}")
    return line


def _printable(text):
    """Return a text with escape sequences for characters that control a terminal or the layout."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _escaped(text):
    return html.escape(_printable(text))


def as_html(title, sections):
    """Return the document as a page of HTML, escaped."""
    blocks = [f"<h1>{_escaped(title)}</h1>"]
    for section in sections:
        blocks.append(f"<h2>{_escaped(section.title)}</h2>")
        blocks.extend(map(_html_block, section.content))
    head = f'<meta charset="utf-8"><title>{_escaped(title)}</title>'
    body = "\n".join(blocks)
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{body}\n</body></html>\n"


def _html_block(block):
    if isinstance(block, Table):
        rows = [_html_row("th", block.headings), *(_html_row("td", row) for row in block.rows)]
        return f"<table>\n{''.join(rows)}</table>"
    if isinstance(block, tuple):
        items = "".join(f"<li>{_escaped(item)}</li>\n" for item in block)
        return f"<ul>\n{items}</ul>"
    return f"<p>{_escaped(block)}</p>"


def _html_row(tag, cells):
    return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in cells) + "</tr>\n"
