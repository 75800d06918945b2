"""What a ledger holds: as totals, in words, as a bar in HTML, and as a figure."""

import importlib
from dataclasses import replace

from dpq_sklearn.accounting.losses import PEOPLE, best_composition


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
    total = total_of(contents)
    parts = [f"{spent:g} of {cap:g} {unit}" for unit, spent, cap in spent_of_caps(contents)]
    spent = " and ".join(parts) or in_words(total.eps, total.delta, total.rho)
    releases = f"{len(contents.rows)} release{'s' * (len(contents.rows) != 1)}"
    return f"{spent} spent in {releases}{' about people' * (contents.neighbours == PEOPLE)}"


def html_bar(contents):
    """Return a bar that is filled by the share of the cap that is spent; of two, the larger one."""
    shares = [spent / cap for _, spent, cap in spent_of_caps(contents)]
    return f'<br><meter value="{max(shares):.3f}"></meter>' if shares else ""


def in_words(eps, delta, rho):
    """Return a cost, or those caps that there are, with their names."""
    amounts = {"eps": eps, "delta": delta, "rho": rho}
    words = [f"{name}={amount:g}" for name, amount in amounts.items() if amount is not None]
    return ", ".join(words) or "no caps"


def left_in_words(left, caps):
    """Return what is left in the units of the caps."""
    if caps.eps is None:
        return f"rho={left.rho:.6g}"
    return f"eps={left.eps:.6g}" + (f" (or rho={left.rho:.6g})" if left.rho > 0 else "")


def plot_totals(contents, title, ax=None):
    """Plot the total after each release against the cap; return the axes."""
    pyplot = optional_module("matplotlib.pyplot", "PrivacyLedger.plot", "dpq-sklearn[plot]")
    rows, caps = contents.rows, contents.caps
    unit = "rho" if caps.eps is None and caps.rho is not None else "eps"
    cap = getattr(caps, unit)
    histories = [contents._replace(rows=rows[:n]) for n in range(len(rows) + 1)]
    totals = [getattr(total_of(history), unit) for history in histories]
    ax = pyplot.subplots()[1] if ax is None else ax
    ax.stairs(totals, [n - 0.5 for n in range(len(totals) + 1)], fill=True, alpha=0.6)
    if cap is not None:
        ax.axhline(cap, color="black", linestyle="--", label=f"cap: {unit} = {cap:g}")
        ax.legend(loc="lower right")
    ax.set(xlabel="releases", ylabel=f"total {unit}", title=title)
    ax.set(xlim=(0, max(len(rows), 1) + 0.5), ylim=(0, None))
    return ax


def optional_module(module, what, requirement):
    """Import a module that only `what` needs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f"{what} needs {name}: pip install '{requirement}'."
        raise ImportError(message, name=name) from error
