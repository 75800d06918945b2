"""The privacy ledger: a budget for one dataset, from which every release is paid beforehand.

A ledger *is* its file (`ledger.file`). The objects here only point at it, so that copies, clones,
pickles and worker processes all spend from the same budget.
"""

import html
import json
import os
from datetime import datetime
from numbers import Integral
from typing import NamedTuple

from dpq_sklearn.accounting import (
    ROWS,
    PrivacyLoss,
    best_composition,
    checked_delta,
    checked_positive,
    compose,
    eps_of_pure,
    rho_of_approximate_dp,
    rho_of_pure,
)
from dpq_sklearn.ledger import file as ledger_file
from dpq_sklearn.ledger.file import Caps, LedgerError
from dpq_sklearn.ledger.views import (
    caps_in_words,
    contents_in_words,
    html_bars,
    left_in_words,
    loss_in_words,
    optional_module,
    plot_totals,
)

# Ten releases of 0.1 must fit into 1.0 although neither is exact in binary. A mechanism spends
# 2^-16 less than it states, which is far more than the 2^-40 allowed here.
_SLACK = 2.0**-40
# A record of more names than this holds their number only, so that the file stays small.
_MOST_NAMES = 100


class BudgetExceededError(ValueError):
    """A release does not fit into what is left of a ledger's budget. Nothing was read or spent.

    Attributes
    ----------
    asked : PrivacyLoss
        What the release would cost.
    remaining : BudgetLeft
        What is left, as :meth:`PrivacyLedger.remaining` states it.
    """

    def __init__(self, message, asked=None, remaining=None):
        super().__init__(message, asked, remaining)  # all in args, so that it can be pickled
        self.asked = asked
        self.remaining = remaining

    def __str__(self):
        return str(self.args[0])


class BudgetLeft(NamedTuple):
    """What surely still fits: a release of so much pure eps, or one of so much rho."""

    eps: float
    rho: float


class LedgerRecord(NamedTuple):
    """One release in a ledger: public facts only."""

    time: datetime
    what: str
    columns: tuple | int | None
    detail: str | None
    eps: float
    delta: float
    rho: float
    seeded: bool
    note: str | None


class PrivacyLedger:
    """A privacy budget for one dataset, kept in a file that every fit is charged to.

    Every refit spends again, and a search refits many times. Give the same ledger to everything
    that looks at the data: the spend is committed to the file *before* the data are read, and a
    release that does not fit into the budget is refused.

    Parameters
    ----------
    path : str or path-like
        The ledger's file. It is created if it does not exist, with the caps given here; they
        stay with the file for good. If it exists, give the same caps or none.
    eps : float or None, default=None
        Cap on the total eps. Without any cap the ledger only keeps a record.
    delta : float or None, default=None
        The delta at which the total eps is stated. With an `eps` cap, None means 0.
    rho : float or None, default=None
        Cap on the total in zero-concentrated DP. Every cap that is given must hold.

    See Also
    --------
    plan_search : Says what a search will cost before it runs.

    Notes
    -----
    **Totals.** The total eps is the smaller of the sum of all eps, if all releases are pure, and
    the sum of all rho converted at `delta`.

    **Plain paths.** ``ledger="budget.sqlite"`` works wherever a `PrivacyLedger` does, with the
    caps that the file was created with. The file must exist, so that a deleted ledger is an
    error and not a new budget.

    **Processes.** Any number of threads and processes may use one file at once. Keep it on a local
    disk: locks of network drives are not to be relied upon. What a ledger cannot know is that
    its file was replaced by an older copy, or forged.

    Examples
    --------
    >>> import os, tempfile
    >>> from dpq_sklearn import PrivacyLedger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = PrivacyLedger(os.path.join(folder.name, "budget.sqlite"), eps=1.0)
    >>> ledger.spend(eps=0.75, what="a histogram made elsewhere")
    >>> ledger.remaining().eps
    0.25
    >>> ledger.check(0.5)
    False
    >>> folder.cleanup()
    """

    def __init__(self, path, eps=None, delta=None, rho=None):
        self._path = _checked_path(path, "path")
        caps = _checked_caps(eps, delta, rho)
        if not os.path.lexists(self._path):
            ledger_file.create(self._path, caps, ROWS)
        contents = ledger_file.read(self._path)
        if caps not in (contents.caps, Caps(None, None, None)):
            raise ValueError(
                f"the caps of a ledger cannot be changed: {self._path!r} was created with "
                f"{caps_in_words(contents.caps)}, got {caps_in_words(caps)}."
            )
        self._ledger_id = contents.ledger_id
        self._caps = contents.caps
        self._note = None

    @property
    def path(self):
        """The absolute path of the ledger's file."""
        return self._path

    @property
    def caps(self):
        """The budget: a tuple (eps, delta, rho) with None for no cap."""
        return self._caps

    def with_note(self, note):
        """Return this ledger with a note that is written into every record made through it."""
        noted = object.__new__(type(self))
        noted.__dict__.update(self.__dict__, _note=_checked_text(note, "note"))
        return noted

    def spent(self):
        """Return what all recorded releases cost together, as a :class:`PrivacyLoss`."""
        return best_composition(self._contents().rows, self._caps.delta)

    def remaining(self):
        """Return what is left, as ``(eps, rho)``.

        A further release of so much pure eps fits, whatever its mechanism, and so does one of so
        much rho. Where the total is counted in rho, a mechanism with a small rho may get more eps
        than that: :meth:`check` answers for a particular :class:`PrivacyLoss`.
        """
        return _budget_left(self._contents().rows, self._caps)

    def check(self, eps=None, *, delta=0.0, rho=None):
        """Return whether a release of this cost would fit. Nothing is spent.

        Parameters
        ----------
        eps : float or PrivacyLoss, default=None
            The eps of the release, or its whole cost: that of an estimator is in its
            ``privacy_``, that of a search in the ``total`` of :func:`plan_search`.
        delta : float, default=0.0
            The delta of the release.
        rho : float or None, default=None
            The rho of the release, if it is known.

        Returns
        -------
        fits : bool
        """
        loss = _loss_of(eps, delta, rho)
        return _fits((*self._contents().rows, loss), self._caps)

    def spend(self, eps=None, *, what, delta=0.0, rho=None, columns=None, detail=None, note=None):
        """Record a release that is made elsewhere. Call it before looking at the data.

        Parameters
        ----------
        eps, delta, rho
            The cost of the release, as in :meth:`check`.
        what : str
            What will be released.
        columns : int, list of str or None, default=None
            The columns that it concerns: public names, or how many.
        detail : str or None, default=None
            Public facts about it.
        note : str or None, default=None
            A note for yourself.

        Raises
        ------
        BudgetExceededError
            If it does not fit. Nothing is spent then.
        """
        loss = _loss_of(eps, delta, rho)
        charge(self, loss, what=what, columns=columns, detail=detail, note=note)

    def records(self):
        """Return all recorded releases in the order in which they were committed."""
        return [_record_of(row) for row in self._contents().rows]

    def to_frame(self):
        """Return all recorded releases as a pandas DataFrame, one row a release."""
        pandas = optional_module("pandas", "PrivacyLedger.to_frame", "pandas")
        return pandas.DataFrame(self.records(), columns=LedgerRecord._fields)

    def plot(self, ax=None):
        """Plot the total after each release against the cap.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw.

        Returns
        -------
        ax : matplotlib Axes
        """
        return plot_totals(self._contents(), os.path.basename(self._path), ax)

    def _contents(self):
        contents = ledger_file.read(self._path)
        self._refuse_another_ledger(contents)
        return contents

    def _refuse_another_ledger(self, contents):
        if contents.ledger_id != self._ledger_id:
            raise LedgerError(
                f"the privacy ledger {self._path!r} is not the one that this object was made for: "
                "it was deleted and created anew, and what had been spent is missing from it."
            )

    def __eq__(self, other):
        if not isinstance(other, PrivacyLedger):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self):
        return hash((self._path, self._ledger_id, self._note))

    def __repr__(self):
        try:
            contents = self._contents()
        except LedgerError as error:  # an object must always be printable
            return f"<PrivacyLedger {self._path!r}: {error}>"
        return f"<PrivacyLedger {self._path!r}: {contents_in_words(contents)}>"

    def _repr_html_(self):
        try:
            bars = html_bars(self._contents())
        except LedgerError:
            bars = ""
        return f"<div>{html.escape(repr(self)[1:-1])}{bars}</div>"


def charge(ledger, loss, *, what, columns=None, detail=None, note=None):
    """Commit a spend to a ledger, or raise and leave it as it is.

    Call it when everything about a release is settled and before the data are looked at. When it
    returns, the spend is on the disk.

    Parameters
    ----------
    ledger : PrivacyLedger, str, path-like or None
        The ledger or its file, which must exist. With None nothing happens.
    loss : PrivacyLoss
        What the release costs.
    what, columns, detail, note
        Public facts to record, as in :meth:`PrivacyLedger.spend`.

    Raises
    ------
    BudgetExceededError
        If the release does not fit into the budget.
    LedgerError
        If the file cannot be used.
    """
    if ledger is None:
        return
    if isinstance(ledger, PrivacyLedger):
        path, note = ledger.path, ledger._note if note is None else note
    else:
        path = _checked_path(ledger, "ledger")
    facts = {
        "what": _checked_text(what, "what"),
        "columns": _checked_columns(columns),
        "detail": None if detail is None else _checked_text(detail, "detail"),
        "note": None if note is None else _checked_text(note, "note"),
    }

    def admit(contents):
        if isinstance(ledger, PrivacyLedger):
            ledger._refuse_another_ledger(contents)
        if loss.neighbours != contents.neighbours:
            raise ValueError(
                f"the privacy ledger {path!r} counts for neighbours that differ by "
                f"{contents.neighbours!r}, got a release for {loss.neighbours!r}."
            )
        if not _fits((*contents.rows, loss), contents.caps):
            raise _exceeded(path, what, loss, contents)

    ledger_file.append(path, loss, facts, admit)


def _fits(releases, caps):
    total = best_composition(releases, caps.delta)
    return all(
        cap is None or amount <= cap * (1 + _SLACK)
        for amount, cap in ((total.eps, caps.eps), (total.rho, caps.rho))
    )


def _budget_left(rows, caps):
    """Return the largest pure eps, and the largest rho, with which `_fits` stays true."""
    sums = compose(rows)
    rooms = [BudgetLeft(float("inf"), float("inf"))]
    if caps.rho is not None:
        rho_left = max(caps.rho - sums.rho, 0.0)
        rooms.append(BudgetLeft(eps_of_pure(rho_left), rho_left))
    if caps.eps is not None:
        most_rho = rho_of_approximate_dp(caps.eps, caps.delta) if caps.delta > 0 else 0.0
        rho_left = max(most_rho - sums.rho, 0.0)
        pure_left = max(caps.eps - sums.eps, 0.0) if sums.delta == 0 else 0.0
        rooms.append(BudgetLeft(max(pure_left, eps_of_pure(rho_left)), rho_left))
    return BudgetLeft(*map(min, zip(*rooms, strict=True)))


def _exceeded(path, what, loss, contents):
    left = _budget_left(contents.rows, contents.caps)
    message = (
        f"{what} asks for {loss_in_words(loss)}, but of the budget of the privacy ledger "
        f"{path!r} ({caps_in_words(contents.caps)}) only "
        f"{left_in_words(left, contents.caps)} is left. Nothing was read and nothing was spent."
    )
    if loss.delta > 0 and contents.caps.delta == 0:
        message += " A ledger with delta=0 takes pure releases (delta=0) only."
    return BudgetExceededError(message, loss, left)


def _loss_of(eps, delta, rho):
    """Return the cost of a release of which eps, (eps, delta), rho or several are known."""
    if isinstance(eps, PrivacyLoss):
        return eps
    if eps is None and rho is None:
        raise ValueError("one of eps and rho must be given, got eps=None and rho=None.")
    delta = checked_delta(delta)
    infinite = float("inf")
    eps = infinite if eps is None else checked_positive(eps, "eps")
    if rho is not None:
        return PrivacyLoss(eps=eps, delta=delta, rho=checked_positive(rho, "rho"))
    return PrivacyLoss(eps=eps, delta=delta, rho=infinite if delta > 0 else rho_of_pure(eps))


def _checked_caps(eps, delta, rho):
    eps = None if eps is None else checked_positive(eps, "eps")
    rho = None if rho is None else checked_positive(rho, "rho")
    if delta is not None:
        return Caps(eps, checked_delta(delta), rho)
    return Caps(eps, None if eps is None else 0.0, rho)


def _checked_path(path, name):
    """Return an absolute path, so that a change of the working directory changes nothing."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        allowed = "a path" if name == "path" else "None, a PrivacyLedger or a path"
        raise ValueError(f"{name} must be {allowed}, got {path!r}.")
    if os.fspath(path) in ("", ":memory:") or "\0" in os.fspath(path):
        raise ValueError(f"{name} must name a file, got {path!r}.")
    return os.path.abspath(path)


def _checked_text(text, name):
    if not isinstance(text, str) or not text.isprintable():
        raise ValueError(f"{name} must be a printable text on one line, got {text!r}.")
    return text


def _checked_columns(columns):
    """Return None, a count, or a short list of names."""
    if columns is None:
        return None
    if isinstance(columns, Integral) and not isinstance(columns, bool):
        return int(columns)
    names = [columns] if isinstance(columns, str) else [str(name) for name in columns]
    return names if len(names) <= _MOST_NAMES else len(names)


def _record_of(row):
    facts = json.loads(row.facts)
    columns = facts["columns"]
    return LedgerRecord(
        time=datetime.fromisoformat(facts["time"]),
        what=facts["what"],
        columns=tuple(columns) if isinstance(columns, list) else columns,
        detail=facts["detail"],
        eps=row.eps,
        delta=row.delta,
        rho=row.rho,
        seeded=not row.os_randomness,
        note=facts["note"],
    )
