"""What a ledger looks like: in words, as bars in HTML, and as a figure."""

import importlib
from dataclasses import replace

from dpq_sklearn.accounting.losses import PEOPLE, best_composition


def total_of(contents):
    """Return what all releases of a ledger cost together."""
    total = best_composition(contents.rows, contents.caps.delta)
    return replace(total, neighbours=contents.neighbours)


def contents_in_words(contents):
    """Return how much of which budget was spent in how many releases."""
    spent = total_of(contents)
    parts = [f"{part} {unit}" for unit, part, _ in _spent_of_caps(spent, contents.caps)]
    parts = " and ".join(parts) or loss_in_words(spent)
    n_releases = len(contents.rows)
    releases = f"{n_releases} release{'' if n_releases == 1 else 's'}"
    return f"{parts} spent in {releases}{' about people' * (contents.neighbours == PEOPLE)}"


def caps_in_words(caps):
    """Return the caps that there are, with their names."""
    words = [f"{name}={cap:g}" for name, cap in caps._asdict().items() if cap is not None]
    return ", ".join(words) or "no caps"


def loss_in_words(loss):
    """Return a cost in all its units."""
    return f"eps={loss.eps:.6g}, delta={loss.delta:.6g}, rho={loss.rho:.6g}"


def left_in_words(left, caps):
    """Return what is left in the units of the caps."""
    if caps.eps is None:
        return f"rho={left.rho:.6g}"
    return f"eps={left.eps:.6g}" + (f" (or rho={left.rho:.6g})" if left.rho > 0 else "")


def html_bars(contents):
    """Return a bar for each cap, filled by the share that is spent."""
    bars = _spent_of_caps(total_of(contents), contents.caps)
    return "".join(_html_bar(*bar) for bar in bars)


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
    ax.set_xlim(0, max(len(rows), 1) + 0.5)
    ax.set_ylim(bottom=0)
    return ax


def optional_module(module, what, requirement):
    """Import a module that only `what` needs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f"{what} needs {name}: pip install '{requirement}'."
        raise ImportError(message, name=name) from error


def _spent_of_caps(spent, caps):
    """Return for each cap its unit, what was spent of it in words, and as a share."""
    return [
        (unit, f"{getattr(spent, unit):.6g} of {cap:g}", min(getattr(spent, unit) / cap, 1.0))
        for unit, cap in (("eps", caps.eps), ("rho", caps.rho))
        if cap is not None
    ]


def _html_bar(unit, part, share):
    style = "width:20em;height:0.8em;border:1px solid #888;background:#eee"
    inner = f"width:{share:.1%};height:100%;background:#c44e52"
    label = f"{part} {unit} spent"
    return (
        f'<div role="img" aria-label="{label}" title="{label}" style="{style}">'
        f'<div style="{inner}"></div></div>'
    )
