"""Docstrings of transformers: a class describes its own parameters and inherits the others."""

import re
from inspect import getdoc, signature

_SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def inherit_docstring(cls):
    """Add the parameters, attributes and notes of the base class to the docstring of a class.

    Parameters follow the order of the signature. The attributes of the class come before the
    inherited attributes, and its notes come after the inherited notes.
    """
    if not vars(cls).get("__doc__"):  # a user's subclass, or Python runs without docstrings
        return

    text, sections = _sections(getdoc(cls))
    documented = (_sections(getdoc(base) or "")[1] for base in cls.__mro__[1:])
    inherited = next(found for found in documented if "Parameters" in found)

    parameters = _entries(inherited, "Parameters") | _entries(sections, "Parameters")
    if "__init__" in vars(cls):
        parameters = {name: parameters[name] for name in _parameters(cls) if name in parameters}
    attributes = _entries(sections, "Attributes") | _entries(inherited, "Attributes")
    notes = [found["Notes"] for found in (inherited, sections) if "Notes" in found]

    complete = {
        "Parameters": "\n".join(parameters.values()),
        "Attributes": "\n".join(attributes.values()),
        "Notes": "\n\n".join(notes),
    }
    for title, body in ({} | complete | sections | complete).items():
        text += f"\n\n{title}\n{'-' * len(title)}\n{body}"
    cls.__doc__ = text + "\n"


def _parameters(cls):
    return list(signature(cls.__init__).parameters)[1:]


def _sections(docstring):
    """Return the text before the first section, and a dict from titles to texts of sections."""
    text, *rest = _SECTION.split(docstring)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return text.strip(), {title: body.strip() for title, body in pairs}


def _entries(sections, title):
    """Return a dict from names to entries of a section. An entry begins without indentation."""
    entries = filter(None, map(str.rstrip, _ENTRY.split(sections.get(title, ""))))
    return {entry.partition(" : ")[0]: entry for entry in entries}
