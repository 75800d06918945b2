"""What a ledger holds: as totals and in words."""

import importlib
from dataclasses import replace

from dpq_sklearn.accounting.losses import best_composition
from dpq_sklearn.accounting.neighbours import Neighbours


def total_of(contents, more=()):
    """Return what all releases of a ledger cost together, and those of `more` losses too."""
    total = best_composition((*contents.rows, *more), contents.caps.delta)
    return replace(total, neighbours=contents.neighbours)


def spent_of_caps(contents, more=()):
    """Return the unit of each cap, the total in it, and the cap."""
    total, caps = total_of(contents, more), contents.caps
    amounts = (("eps", total.eps, caps.eps), ("rho", total.rho, caps.rho))
    return [amount for amount in amounts if amount[-1] is not None]


def sentence(contents):
    """Return how much of which budget was spent in how many releases."""
    parts = [f"{spent:g} of {cap:g} {unit}" for unit, spent, cap in spent_of_caps(contents)]
    spent = " and ".join(parts) or in_words(total_of(contents))
    releases = f"{len(contents.rows)} release{'s' * (len(contents.rows) != 1)}"
    is_about_people = Neighbours(contents.neighbours) is Neighbours.PEOPLE
    return f"{spent} spent in {releases}{' about people' * is_about_people}"


def in_words(cost):
    """Return a cost, or those caps that there are, with their names."""
    amounts = [(name, getattr(cost, name)) for name in ("eps", "delta", "rho")]
    words = [f"{name}={amount:g}" for name, amount in amounts if amount is not None]
    return ", ".join(words) or "no caps"


def optional_module(module, what, requirement):
    """Import a module that only `what` needs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f"{what} needs {name}: pip install '{requirement}'."
        raise ImportError(message, name=name) from error
