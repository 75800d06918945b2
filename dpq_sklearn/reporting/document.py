"""A small document, written as Markdown or as HTML: sections of paragraphs, lists and tables."""

from dataclasses import dataclass

from dpq_sklearn.markup import (
    html_element,
    html_list,
    html_table,
    markdown_list,
    markdown_table,
    markdown_text,
)


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
    blocks = [f"# {markdown_text(title)}"]
    for section in sections:
        blocks.append(f"## {markdown_text(section.title)}")
        blocks.extend(map(_markdown_block, section.content))
    return "\n\n".join(blocks) + "\n"


def _markdown_block(block):
    if isinstance(block, Table):
        return markdown_table(block.rows, block.headings)
    return markdown_list(block) if isinstance(block, tuple) else markdown_text(block)


def as_html(title, sections):
    """Return the document as a page of HTML."""
    blocks = [html_element("h1", title)]
    for section in sections:
        blocks.append(html_element("h2", section.title))
        blocks.extend(map(_html_block, section.content))

    head = f'<meta charset="utf-8">{html_element("title", title)}'
    body = "\n".join(blocks)
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{body}\n</body></html>\n"


def _html_block(block):
    if isinstance(block, Table):
        return html_table(block.rows, block.headings)
    return html_list(block) if isinstance(block, tuple) else html_element("p", block)
