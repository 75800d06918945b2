"""Privacy losses of releases, and of several releases together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

from dpq_sklearn.accounting import loss_in_words
from dpq_sklearn.accounting.conversions import eps_of_zcdp, rho_of_pure
from dpq_sklearn.accounting.events import Event, EventKind, counted, dp_event
from dpq_sklearn.accounting.neighbours import Neighbours, checked_neighbours
from dpq_sklearn.checks import checked_delta

_ROUNDING = 2.0**-40  # amounts whose relative difference is smaller count as equal


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of a release: it is (eps, delta)-DP, and also rho-zCDP.

    Read more in :ref:`The guarantee <guarantee>`.

    Parameters
    ----------
    eps, delta : float
        The release is (eps, delta)-differentially private.
    rho : float
        The release is rho-zero-concentrated differentially private. Infinite if no bound is
        known.
    pure_eps : float or None, default=None
        The release is also (pure_eps, 0)-DP. None means `eps` if delta is 0, and infinity
        otherwise.
    neighbours : {"rows", "people"}
        The unit that the guarantee protects: one row, or one person with all their rows.
    os_randomness : bool
        Whether the noise came from the operating system's generator. With a seed, the guarantee
        holds only against people who do not know the seed.
    account : str
        The name of the composition by which the loss was computed.
    release_id : str or None, default=None
        The id of the release, which its ledger records as well. None for a plan or a total.
    eps_in_ledger : float or None, default=None
        The eps that the ledger counts for the release, at the ledger's delta. None without a
        ledger. It is printed only if it is larger than `eps`.
    mechanism : str or None, default=None
        The mechanism that found the quantiles. None for counts.
    events : tuple, default=()
        The mechanism calls that use a record, each with its cost.
    ledger : str or None, default=None
        The ledger that was charged. Passwords are removed.
    time : str or None, default=None
        The time of the charge, in UTC.
    segments : str or None, default=None
        The segments that share the loss, in words, if rows were divided into segments.

    See Also
    --------
    privacy_of : Return the privacy loss of a whole estimator.
    PrivacyLedger : Add up privacy losses across processes and days.
    privacy_statement : Write a page that explains the loss.

    Examples
    --------
    >>> from dpq_sklearn import PrivacyLoss
    >>> loss = PrivacyLoss(eps=1.0, delta=0.0, rho=0.02)
    >>> round(loss.eps_at(delta=1e-6), 2)
    0.9
    >>> (loss + loss).eps
    2.0
    """

    eps: float
    delta: float
    rho: float
    pure_eps: float | None = None  # a number as soon as the loss exists
    neighbours: str = Neighbours.ROWS  # a `Neighbours` as soon as the loss exists
    os_randomness: bool = True
    account: str = "sum of eps"
    release_id: str | None = field(default=None, repr=False, compare=False)
    eps_in_ledger: float | None = field(default=None, repr=False, compare=False)
    mechanism: str | None = field(default=None, repr=False, compare=False)
    events: tuple[Event, ...] = field(default=(), repr=False, compare=False)
    ledger: str | None = field(default=None, repr=False, compare=False)
    time: str | None = field(default=None, repr=False, compare=False)
    segments: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = math.inf if self.pure_eps is None else self.pure_eps
        if not (self.eps >= 0 and 0 <= self.delta < 1 and self.rho >= 0 and known >= 0):
            raise ValueError(
                "PrivacyLoss needs eps >= 0, 0 <= delta < 1, rho >= 0 and pure_eps >= 0, got "
                f"eps={self.eps}, delta={self.delta}, rho={self.rho}, pure_eps={self.pure_eps}."
            )
        if known < self.eps * (1 - _ROUNDING):
            raise ValueError(
                "PrivacyLoss needs pure_eps >= eps, because a release that is (pure_eps, 0)-DP is "
                f"also (pure_eps, delta)-DP, got eps={self.eps}, pure_eps={self.pure_eps}."
            )

        object.__setattr__(self, "pure_eps", self.eps if self.delta == 0 else known)
        object.__setattr__(self, "neighbours", checked_neighbours(self.neighbours))

    def __repr__(self) -> str:
        shown = [part.name for part in fields(self) if part.repr]
        if self.eps_in_ledger is not None and self.eps_in_ledger > self.eps:
            shown.append("eps_in_ledger")

        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({parts})"

    def __getstate__(self) -> dict[str, Any]:
        # Plain values, so that old pickles can be read after a change of the classes.
        events = tuple((e.kind.value, e.eps, e.rho, e.times) for e in self.events)
        return vars(self) | {"neighbours": Neighbours(self.neighbours).value, "events": events}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        events = (Event(EventKind(kind), *rest) for kind, *rest in state.get("events", ()))
        object.__setattr__(self, "events", tuple(events))

    def __add__(self, other: object) -> "PrivacyLoss":
        """Return the loss of two releases on the same data: all amounts are added."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if self.neighbours is not other.neighbours:
            raise ValueError(
                "losses must have the same neighbours to be added, got one for rows and one for "
                "people: the loss for one row does not bound the loss for a person with several "
                "rows."
            )

        given = (self.mechanism, other.mechanism)
        names = dict.fromkeys(name for names in given if names for name in names.split(", "))
        return replace(
            compose((self, other)),
            neighbours=self.neighbours,
            account=self.account if self.account == other.account else "sum of eps",
            mechanism=", ".join(names) or None,
            events=counted((*self.events, *other.events)),
        )

    def __radd__(self, other: object) -> "PrivacyLoss":
        return self if other == 0 else NotImplemented  # `sum` starts with 0

    def __str__(self) -> str:
        return loss_in_words.as_text(self)

    def _repr_html_(self) -> str:
        return loss_in_words.as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all facts about the release as a dict that JSON can represent.

        Returns
        -------
        entry : dict
            The facts, with the field names of the Differential Privacy Deployments Registry. Facts
            that the registry has no fields for are under "dpq_sklearn".
        """
        return loss_in_words.as_dict(self)

    def to_dp_event(self) -> Any:
        """Return the release as an event of Google's dp_accounting, which must be installed.

        Returns
        -------
        event : dp_accounting.ComposedDpEvent
            The draws and the noise that one record meets, each stated by its zCDP, for
            ``dp_accounting.rdp.RdpAccountant``. The eps of that accountant is never below the
            result of :meth:`eps_at`.
        """
        if self.rho == math.inf:
            raise ValueError("to_dp_event needs a finite rho, got a loss with rho=inf.")
        return dp_event(self.events, self.rho)

    def eps_at(self, delta: float) -> float:
        """Return the smallest known eps for which the release is (eps, `delta`)-DP.

        Parameters
        ----------
        delta : float
            The delta at which to state the loss, in [0, 1).

        Returns
        -------
        eps : float
            The smaller of the bounds by `eps`, `pure_eps` and `rho`.
        """
        delta = checked_delta(delta)
        known = min(_pure_eps(self), eps_of_zcdp(self.rho, delta))
        return min(known, self.eps) if delta >= self.delta else known


def compose(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Return the loss of several releases on the same data: all amounts are added."""
    losses = list(losses)
    return PrivacyLoss(
        eps=_sum(loss.eps for loss in losses),
        delta=min(_sum(loss.delta for loss in losses), math.nextafter(1.0, 0.0)),
        rho=_sum(loss.rho for loss in losses),
        pure_eps=_sum(map(_pure_eps, losses)),
        os_randomness=all(loss.os_randomness for loss in losses),
    )


class _Stated(Protocol):
    """A loss, or a row of a ledger."""

    @property
    def eps(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def rho(self) -> float: ...
    @property
    def pure_eps(self) -> float | None: ...


def _pure_eps(loss: _Stated) -> float:
    return math.inf if loss.pure_eps is None else loss.pure_eps


def _sum(amounts: Iterable[float]) -> float:
    """Return the correctly rounded sum, or infinity if it exceeds the largest float."""
    try:
        return math.fsum(amounts)
    except OverflowError:
        return math.inf


def most_of_each(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Return a loss that covers each of several releases: the largest amount of each kind."""
    dearest = max(losses, key=lambda loss: (loss.delta, _pure_eps(loss)))
    return replace(
        dearest,
        eps=max(loss.eps for loss in losses),
        delta=max(loss.delta for loss in losses),
        rho=max(loss.rho for loss in losses),
        pure_eps=max(map(_pure_eps, losses)),
    )


class Amounts(NamedTuple):
    """The amounts of one or several releases that a ledger adds up.

    The releases are (eps, delta)-DP. Unless an event of probability `failure` happens, they are
    also pure_eps-DP and rho-zCDP.
    """

    eps: float
    delta: float
    rho: float
    pure_eps: float
    failure: float

    def loss(self) -> PrivacyLoss:
        """Return the amounts as a loss, which has no rho and no pure eps if it may fail."""
        can_fail = self.failure > 0
        return PrivacyLoss(
            eps=self.eps,
            delta=min(self.delta, math.nextafter(1.0, 0.0)),
            rho=math.inf if can_fail else self.rho,
            pure_eps=math.inf if can_fail else self.pure_eps,
        )


def amounts_of(release: _Stated) -> Amounts:
    """Return the amounts that a ledger adds up for a release.

    An (eps, delta)-DP release behaves like an eps-DP release, except with probability delta
    (Kairouz, Oh, Viswanath 2015). This is how a release without a rho and a pure eps counts.
    """
    eps, delta, rho = release.eps, release.delta, release.rho
    pure_eps = _pure_eps(release)
    if rho == pure_eps == math.inf:
        return Amounts(eps, delta, rho_of_pure(eps), eps, failure=delta)
    return Amounts(eps, delta, rho, pure_eps, failure=0.0)


def sum_of_amounts(amounts: Iterable[Amounts]) -> Amounts:
    """Return the amounts of several releases together."""
    return Amounts(*map(_sum, zip(Amounts(0.0, 0.0, 0.0, 0.0, 0.0), *amounts, strict=True)))


def stated_at(total: Amounts, delta: float) -> PrivacyLoss:
    """Return the loss of several releases on the same data, stated at `delta`.

    The eps is the smaller of two bounds: the sum of all pure eps, and the sum of all rho, converted
    at half of `delta`. The other half of `delta` covers the failures, and the eps is infinite if
    they exceed it. The bound also holds if outcomes of earlier releases decided which releases
    followed (docs/privacy.md). For this reason the halves are fixed: an outcome must not decide how
    `delta` is divided.
    """
    loss = total.loss()
    if not covers_failures(delta, total):
        return replace(loss, eps=math.inf, pure_eps=math.inf)

    from_rho = eps_of_zcdp(total.rho, half_of_delta(delta))
    if total.pure_eps <= from_rho:
        return replace(loss, eps=total.pure_eps, delta=total.failure)
    delta = half_of_delta(delta) + total.failure
    return replace(loss, eps=from_rho, delta=delta, account="zCDP")


def covers_failures(delta: float, total: Amounts) -> bool:
    """Return whether half of `delta` covers the failures."""
    return total.failure <= half_of_delta(delta) * (1 + _ROUNDING)


def half_of_delta(delta: float | None) -> float:
    """Return the half of a ledger's delta that covers failures. Rho is converted at the other."""
    return (delta or 0.0) / 2
