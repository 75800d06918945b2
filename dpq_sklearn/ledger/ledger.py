"""The privacy ledger: a budget for one dataset, from which every release is paid beforehand.

A ledger *is* its file (`ledger.file`), or an entry in the memory of its process (`ledger.memory`).
The objects here only point at it, so that copies, clones and pickles spend from the same budget.
"""

import html
import json
import math
import os
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import singledispatch
from numbers import Integral
from textwrap import shorten
from typing import NamedTuple

from dpq_sklearn.accounting.conversions import eps_of_pure, rho_of_approximate_dp, rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss, best_composition, compose
from dpq_sklearn.accounting.neighbours import Neighbours, checked_neighbours
from dpq_sklearn.checks import checked_delta, checked_positive, shown
from dpq_sklearn.ledger import file as ledger_file
from dpq_sklearn.ledger import memory as ledger_memory
from dpq_sklearn.ledger.file import Caps, LedgerError, new_contents, with_release
from dpq_sklearn.ledger.views import in_words, optional_module, sentence, spent_of_caps, total_of

# Ten releases of 0.1 must fit into 1.0 although neither is exact in binary. A mechanism spends
# 2^-16 less than it states, which is far more than the 2^-40 allowed here.
_SLACK = 2.0**-40
# Records stay small: of more names than this they hold the number, of a longer detail the start.
_MOST_NAMES = 100
_LONGEST_DETAIL = 300
# By path, which ledger this process first met there: a path holds no id of its own.
_FIRST_MET = {}


class BudgetExceededError(ValueError):
    """A release does not fit into what is left of a ledger's budget. Nothing was read or spent.

    Its attributes are `asked`, the :class:`PrivacyLoss` of the release, and `left`, as
    :meth:`PrivacyLedger.remaining` states it.
    """

    def __init__(self, message, asked=None, left=None):
        super().__init__(message)
        self.asked = asked
        self.left = left


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
    pure_eps: float
    account: str
    seeded: bool
    note: str | None


class PrivacyLedger:
    """A privacy budget for one dataset, which every fit is charged to.

    Give the same ledger to everything that looks at the data: the spend is committed *before* the
    data are read, and a release that does not fit into the budget is refused.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The ledger's file. It is created if it does not exist, with the caps given here; they
        stay with the file for good. If it exists, give the same caps or none. With None the
        ledger is in memory: for this process only.
    eps : float or None, default=None
        Cap on the total eps. Without any cap the ledger only keeps a record.
    delta : float or None, default=None
        The delta at which the total eps is stated. With an `eps` cap, None means 0.
    rho : float or None, default=None
        Cap on the total in zero-concentrated DP. Every cap that is given must hold.
    neighbours : {"rows", "people"} or None, default=None
        Whom the budget protects: single rows, or people with all their rows (`groups`). None is
        "rows" for a new ledger. The costs of the two do not add up: use one ledger for each.

    See Also
    --------
    plan_search : Says what a search will cost before it runs.

    Notes
    -----
    An estimator's ``ledger`` may also be the absolute path of a file that exists: a deleted ledger
    is an error and not a new budget, and so is another one at a path that this process has used
    before. Any number of threads and processes may use one file at once: its lock is a second,
    empty file beside it, ``path-lock``. A ledger in memory is shared by its copies and clones. A
    search goes on when a fit is refused: ``error_score="raise"`` stops it, and :meth:`check` tells
    beforehand.

    Examples
    --------
    >>> from dpq_sklearn import PrivacyLedger
    >>> ledger = PrivacyLedger(eps=1.0)
    >>> ledger.spend(eps=0.75, what="a histogram made elsewhere")
    >>> ledger.remaining().eps
    0.25
    >>> ledger.check(0.5)
    False
    >>> ledger
    <PrivacyLedger in memory, for this process only: 0.75 of 1 eps spent in 1 release>
    """

    _ledger_id = None  # of an object that takes any ledger at its path
    _note = None

    def __init__(self, path=None, eps=None, delta=None, rho=None, *, neighbours=None):
        caps = _checked_caps(eps, delta, rho)
        neighbours = None if neighbours is None else checked_neighbours(neighbours)
        self._path = None if path is None else _checked_path(path, "path")
        new = new_contents(caps, (neighbours or Neighbours.ROWS).value)
        if self._path is None:
            self._ledger_id = new.ledger_id
            ledger_memory.create(new)
        elif not os.path.lexists(self._path):
            ledger_file.create(self._path, new)
        store, key = self._store
        contents = store.read(key)
        self._ledger_id = contents.ledger_id
        _FIRST_MET.setdefault(self._path, contents.ledger_id)
        if caps not in (contents.caps, Caps(None, None, None)):
            raise ValueError(
                f"the caps of a ledger cannot be changed: {self._path!r} was created with "
                f"{in_words(contents.caps)}, got {in_words(caps)}."
            )
        self._refuse_other(contents, neighbours)

    @property
    def path(self):
        """The absolute path of the ledger's file; None if the ledger is in memory."""
        return self._path

    @property
    def caps(self):
        """The budget: a tuple (eps, delta, rho) with None for no cap."""
        return self._contents().caps

    @property
    def neighbours(self):
        """Which datasets are neighbours in all its releases, as in :class:`PrivacyLoss`."""
        return Neighbours(self._contents().neighbours)

    def with_note(self, note):
        """Return this ledger with a note that is written into every record made through it.

        Parameters
        ----------
        note : str
            A public text, such as the name of a project.

        Returns
        -------
        ledger : PrivacyLedger
        """
        ledger = copy(self)
        ledger._note = _one_line(note, "note")
        return ledger

    def spent(self):
        """Return what all recorded releases cost together.

        Returns
        -------
        total : PrivacyLoss
        """
        return total_of(self._contents())

    def remaining(self):
        """Return what is left: a release of so much pure eps fits, or one of so much rho.

        Where the total is counted in rho, a mechanism with a small rho may get more eps than that:
        :meth:`check` answers for a particular :class:`PrivacyLoss`.

        Returns
        -------
        left : named tuple (eps, rho)
        """
        return _budget_left(self._contents())

    def check(self, eps=None, *, delta=0.0, rho=None):
        """Return whether a release of this cost, or a whole search, would fit. Nothing is spent.

        Parameters
        ----------
        eps : float, PrivacyLoss, SearchPlan or estimator, default=None
            The eps of the release, or its whole cost, as in the ``privacy_`` of an estimator. Or
            a search or another estimator that is to be fitted, or its plan by :func:`plan_search`.
        delta : float, default=0.0
            The delta of the release. If there is one, only its rho counts.
        rho : float or None, default=None
            The rho of the release, if it is known.

        Returns
        -------
        fits : bool
        """
        contents, losses = self._contents(), planned_losses(eps)
        if losses is None:
            losses = [_loss_of(eps, delta, rho, contents.neighbours)]
            self._refuse_other(contents, losses[0].neighbours)
        return refusal(self, losses, "it", contents) is None

    def spend(self, eps=None, *, what, delta=0.0, rho=None, columns=None, detail=None, note=None):
        """Record a release that is made elsewhere. Call it before looking at the data.

        Parameters
        ----------
        eps, delta, rho
            The cost as in :meth:`check`: numbers, which must hold for the neighbours of this
            ledger, or a :class:`PrivacyLoss`.
        what : str
            What will be released.
        columns : int, list of str or None, default=None
            The columns that it concerns: public names, or how many.
        detail, note : str or None, default=None
            Public facts about it, and a note for yourself.

        Raises
        ------
        BudgetExceededError
            If it does not fit. Nothing is spent then.
        """
        loss = _loss_of(eps, delta, rho, self.neighbours)
        charge(self, loss, what=what, columns=columns, detail=detail, note=note)

    def records(self):
        """Return all recorded releases in the order in which they were committed.

        Returns
        -------
        records : list of named tuples of public facts
        """
        return [_record_of(row) for row in self._contents().rows]

    def to_frame(self):
        """Return all recorded releases as a table.

        Returns
        -------
        table : pandas.DataFrame
        """
        pandas = optional_module("pandas", "PrivacyLedger.to_frame", "pandas")
        return pandas.DataFrame(self.records(), columns=LedgerRecord._fields)

    def plot(self, ax=None):
        """Plot the total after each release against the cap.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None

        Returns
        -------
        ax : matplotlib Axes
        """
        pyplot = optional_module("matplotlib.pyplot", "PrivacyLedger.plot", "dpq-sklearn[plot]")
        *_, caps, rows = self._contents()
        unit = "rho" if caps.eps is None and caps.rho is not None else "eps"
        cap, numbers = getattr(caps, unit), range(len(rows) + 1)
        totals = [getattr(best_composition(rows[:n], caps.delta), unit) for n in numbers]
        ax = pyplot.subplots()[1] if ax is None else ax
        ax.stairs(totals, [-0.5, *(n + 0.5 for n in numbers)], fill=True, alpha=0.6)
        if cap is not None:
            ax.axhline(cap, color="black", linestyle="--", label=f"cap: {unit} = {cap:g}")
            ax.legend(loc="lower right")
        title = "ledger in memory" if self._path is None else os.path.basename(self._path)
        ax.set(xlabel="releases", ylabel=f"total {unit}", title=title)
        ax.set(xlim=(0, max(len(rows), 1) + 0.5), ylim=(0, None))
        return ax

    @property
    def _store(self):
        """The module that keeps the contents, and the key by which it finds them."""
        in_memory = self._path is None
        return (ledger_memory, self._ledger_id) if in_memory else (ledger_file, self._path)

    @property
    def _place(self):
        return "in memory" if self._path is None else repr(self._path)

    def _contents(self):
        store, key = self._store
        contents = store.read(key)
        self._refuse_other(contents)
        return contents

    def _refuse_other(self, contents, neighbours=None):
        """Raise if the contents are of another ledger, or for other neighbours than these."""
        met = self._ledger_id or _FIRST_MET.setdefault(self._path, contents.ledger_id)
        if met != contents.ledger_id:
            raise LedgerError(
                f"the privacy ledger {self._path!r} is not the one that was there before: it was "
                "deleted and created anew, and what had been spent is missing from it. If that is "
                f"as it should be, go on with PrivacyLedger({self._path!r}) instead."
            )
        of_ledger = Neighbours(contents.neighbours)
        if neighbours not in (of_ledger, None):
            raise ValueError(
                f"the privacy ledger {self._place} is for neighbours that differ by "
                f"{of_ledger!r}, got {neighbours!r}. Their costs do not add up: use one "
                'ledger with neighbours="rows" and another one with neighbours="people".'
            )

    def __eq__(self, other):
        """Objects are equal if they spend from the same budget, whatever their notes."""
        return self._store == other._store if isinstance(other, PrivacyLedger) else NotImplemented

    def __hash__(self):
        return hash(self._store)

    def __repr__(self):
        scope = ", for this process only" if self._path is None else ""
        try:
            words = sentence(self._contents())
        except LedgerError as error:  # an object must always be printable
            words = error
        return f"<PrivacyLedger {self._place}{scope}: {words}>"

    def _repr_html_(self):
        text = html.escape(repr(self)[1:-1])
        with suppress(LedgerError):
            shares = [spent / cap for _, spent, cap in spent_of_caps(self._contents())]
            text += f'<br><meter value="{max(shares):.3f}"></meter>' if shares else ""
        return f"<div>{text}</div>"


def opened(ledger):
    """Return the ledger that an estimator's parameter means: an object, or an absolute path."""
    if isinstance(ledger, PrivacyLedger):
        return ledger
    path = _checked_path(ledger, "ledger")
    if not os.path.isabs(ledger):
        raise ValueError(
            f"ledger must be an absolute path or a PrivacyLedger, got {os.fspath(ledger)!r}: a "
            "relative path means another file after a change of the working directory. "
            f"PrivacyLedger({os.fspath(ledger)!r}) makes it absolute."
        )
    opened_ledger = object.__new__(PrivacyLedger)
    opened_ledger._path = path
    return opened_ledger


def charge(ledger, loss, *, what, columns=None, detail=None, note=None):
    """Commit a spend to the ledger of an estimator, if it is not None; or raise, and spend nothing.

    Call it when everything about a release is settled, before the data are looked at.
    """
    if ledger is None:
        return
    ledger = opened(ledger)
    facts = {
        "what": _one_line(what, "what"),
        "columns": _checked_columns(columns),
        "detail": None if detail is None else shorten(_one_line(detail, "detail"), _LONGEST_DETAIL),
        "note": ledger._note if note is None else _one_line(note, "note"),
        "account": _one_line(loss.account, "account"),
    }

    def add_release(contents):
        ledger._refuse_other(contents, loss.neighbours)
        if error := refusal(ledger, [loss], what, contents):
            raise error
        return with_release(contents, loss, facts)

    store, key = ledger._store
    try:
        store.append(key, add_release)
    except BudgetExceededError as error:  # a search prints its traceback: make it short
        raise error.with_traceback(None) from None


@singledispatch
def planned_losses(cost):
    """Return the costs of all releases of a plan; None if `cost` is not of a registered type."""


def refusal(ledger, losses, what, contents=None):
    """Return the error that refuses releases of these losses, or None if the ledger can pay.

    Its text leaves out what they cost: a search prints a traceback for each different text.
    """
    contents = contents or ledger._contents()
    totals = spent_of_caps(contents, losses)
    if all(total <= cap * (1 + _SLACK) for _, total, cap in totals):
        return None
    asked, caps, left = compose(losses), contents.caps, _budget_left(contents)
    words = f"rho={left.rho:g}"
    if caps.eps is not None:
        words = f"eps={left.eps:g}" + (f" (or {words})" if left.rho > 0 else "")
    message = (
        f"the privacy ledger {ledger._place} cannot pay for {what}: of its budget "
        f"({in_words(caps)}) only {words} is left."
    )
    if asked.delta > 0 and caps.delta == 0:
        message += (
            " It has delta=0, so it counts the pure eps of a release, which is larger than its eps "
            "at some delta. Make the ledger with a delta."
        )
    return BudgetExceededError(message, asked, left)


def _budget_left(contents):
    """Return the largest pure eps, and the largest rho, that are not refused."""
    caps, sums = contents.caps, compose(contents.rows)
    eps = rho = math.inf
    if caps.eps is not None:
        most_rho = rho_of_approximate_dp(caps.eps, caps.delta) if caps.delta > 0 else 0.0
        rho = max(most_rho - sums.rho, 0.0)
        eps = max(caps.eps - sums.pure_eps, eps_of_pure(rho))
    if caps.rho is not None:
        rho_left = max(caps.rho - sums.rho, 0.0)
        eps, rho = min(eps, eps_of_pure(rho_left)), min(rho, rho_left)
    return BudgetLeft(eps, rho)


def _loss_of(eps, delta, rho, neighbours):
    """Return the cost of a release of which eps, (eps, delta), rho or several are known."""
    if isinstance(eps, PrivacyLoss):
        return eps
    if eps is None and rho is None:
        raise ValueError("one of eps and rho must be given, got eps=None and rho=None.")
    delta = checked_delta(delta)
    eps = math.inf if eps is None else checked_positive(eps, "eps")
    known_rho = math.inf if delta > 0 else rho_of_pure(eps)
    rho = known_rho if rho is None else checked_positive(rho, "rho")
    return PrivacyLoss(eps=eps, delta=delta, rho=rho, neighbours=neighbours)


def _checked_caps(eps, delta, rho):
    eps = None if eps is None else checked_positive(eps, "eps")
    rho = None if rho is None else checked_positive(rho, "rho")
    if delta is not None:
        return Caps(eps, checked_delta(delta), rho)
    return Caps(eps, None if eps is None else 0.0, rho)


def _checked_path(path, name):
    """Return an absolute path, so that a change of the working directory changes nothing."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or text in ("", ":memory:") or "\0" in text:
        allowed = "None or a path" if name == "path" else "None, a PrivacyLedger or a path"
        raise ValueError(f"{name} must be {allowed}, got {shown(path)}.")
    return os.path.abspath(path)


def _one_line(text, name):
    """Return a text with single spaces for line breaks and other white space."""
    line = " ".join(text.split()) if isinstance(text, str) else None
    if line is None or not line.isprintable():
        raise ValueError(f"{name} must be a printable text, got {shown(text)}.")
    return line


def _checked_columns(columns):
    """Return None, a count, or a short list of names."""
    if columns is None:
        return None
    if isinstance(columns, Integral) and not isinstance(columns, bool):
        return int(columns)
    names = [columns] if isinstance(columns, str) else [str(name) for name in columns]
    return names if len(names) <= _MOST_NAMES else len(names)


def _record_of(row):
    facts = json.loads(row.facts) | {"seeded": not row.os_randomness}
    facts["time"] = datetime.fromisoformat(facts["time"])
    if isinstance(facts["columns"], list):
        facts["columns"] = tuple(facts["columns"])
    return LedgerRecord(eps=row.eps, delta=row.delta, rho=row.rho, pure_eps=row.pure_eps, **facts)
