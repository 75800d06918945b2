"""Tables, lists and paragraphs as text, Markdown and HTML.

The names of columns may hold anything, so every text is escaped.
"""

import html
from collections.abc import Callable, Iterable, Sequence


def printable(text: str) -> str:
    """Return a text with escape sequences for characters that control a terminal or the layout."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def text_table(
    rows: Iterable[Sequence[str]], justify: Callable[[str, int], str] = str.ljust
) -> str:
    """Return rows of cells as lines with aligned columns."""
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(justify, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def html_table(rows: Iterable[Sequence[str]], headings: Sequence[str] = ()) -> str:
    """Return rows of cells as a table of HTML."""
    lines = [_html_row("th", headings)] if headings else []
    lines += [_html_row("td", row) for row in rows]
    return f"<table>\n{''.join(lines)}</table>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(html_element(tag, cell) for cell in cells) + "</tr>\n"


def html_list(items: Iterable[str]) -> str:
    """Return texts as a list of HTML."""
    lines = "".join(f"{html_element('li', item)}\n" for item in items)
    return f"<ul>\n{lines}</ul>"


def html_element(tag: str, text: str) -> str:
    """Return an escaped text in an element of HTML."""
    return f"<{tag}>{html.escape(printable(text))}</{tag}>"


def markdown_table(rows: Iterable[Sequence[str]], headings: Sequence[str]) -> str:
    """Return rows of cells as a table of Markdown."""
    cells = [headings, *rows]
    lines = [f"| {' | '.join(map(markdown_text, row))} |" for row in cells]
    lines.insert(1, f"|{' --- |' * len(headings)}")
    return "\n".join(lines)


def markdown_list(items: Iterable[str]) -> str:
    """Return texts as a list of Markdown."""
    return "\n".join(f"- {markdown_text(item)}" for item in items)


def markdown_text(text: str) -> str:
    """Return a text on one line, with the characters escaped that Markdown interprets."""
    line = printable(" ".join(text.split()))
    for sign in "\\`*_[]<>|#":
        line = line.replace(sign, f"\\{sign}")
    return line
