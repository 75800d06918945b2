"""What ran: the draws and the noise that one record meets, apart from what they cost together."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from dpq_sklearn.optional import optional_module


class EventKind(StrEnum):
    """A step of a mechanism that looks at the data."""

    DRAW = "exponential mechanism"
    LAPLACE = "discrete Laplace noise"
    GAUSSIAN = "discrete Gaussian noise"
    SELECTION = "partition selection"


@dataclass(frozen=True)
class Event:
    """One step, which is eps-DP (or infinite) and rho-zCDP, and how many times it ran."""

    kind: EventKind
    eps: float
    rho: float
    times: int = 1


def exponential_draw(eps):
    """Return the event of an exponential mechanism: eps bounded-range, so eps^2 / 8-zCDP."""
    return Event(EventKind.DRAW, float(eps), float(eps) ** 2 / 8)


def counted(events):
    """Return the events, equal ones as one event that ran several times."""
    times = Counter()
    for event in events:
        times[event.kind, event.eps, event.rho] += event.times
    return tuple(Event(*step, n) for step, n in times.items())


def dp_event(events, rho):
    """Return a ``ComposedDpEvent`` of Google's dp_accounting for events that cost `rho` in all.

    That library has no exponential mechanism of bounded range, so every event is stated by its
    rho-zCDP, which its accountant for Renyi divergences takes. What `rho` has beyond the events
    is the reserve for rounding.
    """
    dp_accounting = optional_module("dp_accounting", "to_dp_event", "dp-accounting")
    composed = [
        dp_accounting.SelfComposedDpEvent(dp_accounting.ZCDpEvent(event.rho), event.times)
        for event in events
    ]

    reserve = rho - sum(event.times * event.rho for event in events)
    if reserve > 0:
        composed.append(dp_accounting.ZCDpEvent(reserve))
    return dp_accounting.ComposedDpEvent(composed)
