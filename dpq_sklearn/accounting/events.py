"""Events: the draws and the noise that one record meets. Compositions say what they cost."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpq_sklearn.optional import optional_module


class EventKind(StrEnum):
    """The kinds of steps in which a mechanism uses the data."""

    DRAW = "exponential mechanism"
    LAPLACE = "discrete Laplace noise"
    GAUSSIAN = "discrete Gaussian noise"
    SELECTION = "partition selection"


@dataclass(frozen=True)
class Event:
    """A step that is eps-DP (which may be infinite) and rho-zCDP, and how many times it ran."""

    kind: EventKind
    eps: float
    rho: float
    times: int = 1


def exponential_draw(eps: float) -> Event:
    """Return the event of an exponential mechanism: eps bounded-range, so eps^2 / 8-zCDP."""
    return Event(EventKind.DRAW, float(eps), float(eps) ** 2 / 8)


def counted(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events, where equal events become one event that ran several times."""
    times: Counter[tuple[EventKind, float, float]] = Counter()
    for event in events:
        times[event.kind, event.eps, event.rho] += event.times
    return tuple(Event(*step, n) for step, n in times.items())


def dp_event(events: Iterable[Event], rho: float) -> Any:
    """Return a ``ComposedDpEvent`` of Google's dp_accounting for events that cost `rho` in total.

    dp_accounting 0.6.0 has no event for a bounded-range exponential mechanism, so every event is
    stated by its zCDP, which the library's accountant for Renyi divergences accepts. The difference
    between `rho` and the sum of the events is the reserve for rounding.
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
