"""Packages that only some functions need."""

import importlib


def optional_module(module, what, requirement):
    """Import a module that only `what` needs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f"{what} needs {name}: pip install '{requirement}'."
        raise ImportError(message, name=name) from error
