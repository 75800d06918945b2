"""What error messages may print of an argument: a scalar as it is, anything else by its type.

An argument can be private data by mistake, ``dp_quantiles([0.5], salaries)``, and messages end up
in logs.
"""

from numbers import Number

_LONGEST_TEXT = 60


def shown(value):
    """Return a scalar or a short text as it is written, of other things the type and shape."""
    if value is None or isinstance(value, (Number, bool)) or getattr(value, "shape", None) == ():
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "...")
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{name} of shape {shape}"
    return f"{name} of length {len(value)}" if hasattr(value, "__len__") else f"a {name}"
