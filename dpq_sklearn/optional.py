"""Imports of optional packages."""

import importlib


def optional_module(module, what, requirement):
    """Return an optional module that `what` needs, or raise an error with the way to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f"{what} needs {name}: pip install '{requirement}'."
        raise ImportError(message, name=name) from error
