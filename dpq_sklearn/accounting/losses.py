"""What releases cost, and what several of them cost together."""

import math
from dataclasses import dataclass, field, fields, replace

from dpq_sklearn.accounting import descriptions
from dpq_sklearn.accounting.conversions import eps_of_zcdp
from dpq_sklearn.accounting.events import Event, EventKind, counted, dp_event
from dpq_sklearn.accounting.neighbours import Neighbours, checked_neighbours
from dpq_sklearn.checks import checked_delta

_ROUNDING = 2.0**-40  # amounts that differ by less than this share of them are equal


@dataclass(frozen=True)
class PrivacyLoss:
    """What a release cost: it is (eps, delta)-DP, and also rho-zCDP.

    Parameters
    ----------
    eps, delta : float
        The release is (eps, delta)-differentially private.
    rho : float
        The release is rho-zero-concentrated differentially private; infinite if nothing better
        is known.
    pure_eps : float or None, default=None
        The release is also (pure_eps, 0)-DP. None is `eps` if delta is 0, otherwise infinite.
    neighbours : {"rows", "people"}
        Which datasets count as neighbours: those that differ by one row, or by one person. It is
        printed in words.
    os_randomness : bool
        Whether the noise came from the operating system's generator. With a seed the promise
        holds only against those who do not know the seed.
    account : str
        How the cost was added up, in words.
    release_id : str or None, default=None
        The id of the release, by which a ledger knows it too; None for a plan or a total.
    eps_in_ledger : float or None, default=None
        What the ledger that paid counts for it, at the ledger's delta; None if none did. It is
        printed where it is more than `eps`.
    mechanism : str or None, default=None
        What found the quantiles; None for counts.
    events : tuple, default=()
        The draws and the noise that one record meets.
    ledger : str or None, default=None
        The ledger that was charged, without a password.
    time : str or None, default=None
        When the price was paid, in UTC.

    See Also
    --------
    privacy_of : The loss of a whole estimator.
    PrivacyLedger : Adds losses up across processes and days.
    privacy_statement : The same in words, on a page.

    Examples
    --------
    >>> from dpq_sklearn import PrivacyLoss
    >>> loss = PrivacyLoss(eps=1.0, delta=0.0, rho=0.125)
    >>> round(loss.eps_at(delta=1e-6), 3)
    1.0
    """

    eps: float
    delta: float
    rho: float
    pure_eps: float | None = None
    neighbours: str = Neighbours.ROWS
    os_randomness: bool = True
    account: str = "sum of eps"
    release_id: str | None = field(default=None, repr=False, compare=False)
    eps_in_ledger: float | None = field(default=None, repr=False, compare=False)
    mechanism: str | None = field(default=None, repr=False, compare=False)
    events: tuple = field(default=(), repr=False, compare=False)
    ledger: str | None = field(default=None, repr=False, compare=False)
    time: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self):
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

    @property
    def only_approximate(self) -> bool:
        """Whether only (eps, delta) is known: no smaller delta has a finite eps, nor zCDP a rho."""
        return self.rho == self.pure_eps == math.inf

    def __repr__(self):
        shown = [part.name for part in fields(self) if part.repr]
        if self.eps_in_ledger is not None and self.eps_in_ledger > self.eps:
            shown.append("eps_in_ledger")

        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({parts})"

    def __getstate__(self):
        # Plain values, so that pickles outlast a change of the layout.
        events = tuple((e.kind.value, e.eps, e.rho, e.times) for e in self.events)
        return vars(self) | {"neighbours": self.neighbours.value, "events": events}

    def __setstate__(self, state):
        vars(self).update(state)
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        events = (Event(EventKind(kind), *rest) for kind, *rest in self.events)
        object.__setattr__(self, "events", tuple(events))

    def __add__(self, other):
        """Return what two releases on the same data cost together: everything adds up."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if self.neighbours is not other.neighbours:
            raise ValueError(
                "losses must have the same neighbours to be added, got one for rows and one for "
                "people: what a row costs says nothing about a person with several rows."
            )

        names = dict.fromkeys(name for name in (self.mechanism, other.mechanism) if name)
        return replace(
            compose((self, other)),
            neighbours=self.neighbours,
            account=self.account if self.account == other.account else "sum of eps",
            mechanism=", ".join(names) or None,
            events=counted((*self.events, *other.events)),
        )

    def __radd__(self, other):
        return self if other == 0 else NotImplemented  # so that `sum` can start

    def __str__(self):
        return descriptions.as_text(self)

    def _repr_html_(self):
        return descriptions.as_html(self)

    def to_dict(self):
        """Return what is known of the release, ready for JSON.

        Returns
        -------
        entry : dict
            With the field names of the Differential Privacy Deployments Registry, and under
            "dpq_sklearn" what is not asked for there.
        """
        return descriptions.as_dict(self)

    def to_dp_event(self):
        """Return the release as an event of Google's dp_accounting, which must be installed.

        Returns
        -------
        event : dp_accounting.ComposedDpEvent
            The draws and the noise that one record meets, each by its zCDP: for
            ``dp_accounting.rdp.RdpAccountant``. Its eps is never below that of :meth:`eps_at`.
        """
        if self.rho == math.inf:
            raise ValueError("to_dp_event needs a finite rho, got a loss with rho=inf.")
        return dp_event(self.events, self.rho)

    def eps_at(self, delta):
        """Return the smallest eps known for which the release is (eps, `delta`)-DP.

        Parameters
        ----------
        delta : float
            The delta at which to state the loss, in [0, 1).

        Returns
        -------
        eps : float
        """
        delta = checked_delta(delta)
        known = min(self.pure_eps, eps_of_zcdp(self.rho, delta))
        return min(known, self.eps) if delta >= self.delta else known


def compose(losses):
    """Return the cost of several releases on the same data: everything adds up."""
    losses = list(losses)
    return PrivacyLoss(
        eps=_sum(loss.eps for loss in losses),
        delta=min(_sum(loss.delta for loss in losses), math.nextafter(1.0, 0.0)),
        rho=_sum(loss.rho for loss in losses),
        pure_eps=_sum(loss.pure_eps for loss in losses),
        os_randomness=all(loss.os_randomness for loss in losses),
    )


def _sum(amounts):
    """Return the correctly rounded sum; infinity if it is beyond the largest float."""
    try:
        return math.fsum(amounts)
    except OverflowError:
        return math.inf


def most_of_each(losses):
    """Return a cost that covers any one of several releases: the largest of each kind."""
    kinds = ("eps", "delta", "rho", "pure_eps")
    most = {kind: max(getattr(loss, kind) for loss in losses) for kind in kinds}

    dearest = max(losses, key=lambda loss: (loss.delta, loss.pure_eps))
    return replace(dearest, **most)


def best_composition(releases, delta=None):
    """Return the cost of several releases on the same data, stated at `delta` if one is given.

    The sum of pure eps is one bound, the sum of rho converted at `delta` another; the smaller
    one counts, also if a release was chosen by the outcomes of earlier ones (docs/privacy.md). If a
    release has neither a pure eps nor a rho, eps and delta of all releases add up. A ledger sees to
    it that its first release is of this kind then.
    """
    total = compose(releases)
    if delta is None or (total.only_approximate and total.delta <= delta * (1 + _ROUNDING)):
        return total

    from_rho = eps_of_zcdp(total.rho, delta)
    if total.pure_eps <= from_rho:
        return replace(total, eps=total.pure_eps, delta=0.0)
    return replace(total, eps=from_rho, delta=delta, account="zCDP")
