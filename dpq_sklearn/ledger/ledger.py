"""The privacy ledger: a budget for one dataset that is charged before every release.

A store holds the ledger: a file (`ledger.file`), rows on a server (`ledger.postgres`), or an entry
in the memory of the process (`ledger.store`). The objects here only refer to it, so copies, clones
and pickles spend from the same budget.
"""

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import singledispatch
from numbers import Integral
from secrets import token_hex
from textwrap import shorten
from typing import TYPE_CHECKING, Any, cast

from dpq_sklearn.accounting.conversions import rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss, compose
from dpq_sklearn.accounting.neighbours import Neighbours, checked_neighbours
from dpq_sklearn.checks import checked_delta, checked_positive, shown
from dpq_sklearn.ledger.access import (
    BudgetExceededError,
    LedgerAccess,
    Reservation,
    remember,
)
from dpq_sklearn.ledger.addresses import is_address, remember_secrets, split_address
from dpq_sklearn.ledger.contents import Caps, LedgerError, new_summary
from dpq_sklearn.ledger.file import FileStore
from dpq_sklearn.ledger.postgres import PostgresStore
from dpq_sklearn.ledger.store import MemoryStore, Store
from dpq_sklearn.ledger.views import (
    BudgetLeft,
    LedgerRecord,
    budget_left,
    in_words,
    plot_totals,
    records_of,
    sentence,
    spent_of_caps,
    total_of,
)
from dpq_sklearn.markup import html_element
from dpq_sklearn.optional import optional_module

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from dpq_sklearn.forecast.search import SearchPlan

# Records stay small: a longer detail is cut off, and more names than these are only counted.
_LONGEST_DETAIL = 300
_MOST_NAMES = 100


class PrivacyLedger:
    """A privacy budget for one dataset.

    Pass the same ledger to everything that reads the data. Each release is charged *before* the
    data are read, and a release that exceeds the budget is refused. Read more in the :ref:`User
    Guide <keep_a_budget>`.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The file of the ledger, or the address of a PostgreSQL database that a team shares:
        "postgresql://user@host/database". To create a ledger, give a cap, which cannot be changed
        later. To open an existing ledger, give the same caps, or no caps. With None the ledger is
        kept in memory, for this process only.
    eps : float or None, default=None
        Cap on the total eps.
    delta : float or None, default=None
        The delta of the total. Half of it covers the conversion of rho to eps, the other half the
        deltas of releases that have no rho. With an `eps` cap, None means 0.
    rho : float or None, default=None
        Cap on the total in zero-concentrated DP. If several caps are given, all must hold.
    neighbours : {"rows", "people"} or None, default=None
        The unit of protection: single rows, or people with all their rows (`groups`). None means
        "rows" for a new ledger. The two kinds of costs do not add up: use one ledger for each.
    name : str or None, default=None
        The name of a ledger on a server, which may hold several; None means "default". The
        address may end with it, too: "postgresql://user@host/database#name".
    uncapped : bool, default=False
        Whether to create a ledger without caps, which keeps a record and refuses nothing. A ledger
        in memory needs no such permission.

    See Also
    --------
    plan_search : The cost of a search, before it starts.

    Notes
    -----
    The ``ledger`` of an estimator may also be the absolute path of an existing ledger. A deleted
    ledger is an error, and so is another ledger at a path that this process has used before. Any
    number of threads and processes may use one file at once. Its lock is a second file next to it,
    ``path-lock``. Copies and clones of a ledger in memory share it. A search goes on when a fit is
    refused: set ``error_score="raise"`` to stop it, or use :meth:`reserve`.

    The ``ledger`` of an estimator may also be the address of an existing ledger on a server, but
    without a password, because parameters are printed. Create the object with the password:
    neither its repr nor its pickles show it. Other processes need ``PGPASSWORD``, ``~/.pgpass`` or
    a service file.

    Private categories (:class:`DPOneHotEncoder`, :class:`DPOrdinalEncoder`,
    :func:`dp_value_counts`) have an eps and a delta, and no rho. They need a ledger with a `delta`.
    Their eps is counted as a pure eps, their rho as eps^2 / 2, and their deltas add up to at most
    half of the ledger's delta. A ledger that caps rho then limits zCDP up to this delta.

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

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        eps: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        *,
        neighbours: str | None = None,
        name: str | None = None,
        uncapped: bool = False,
    ) -> None:
        caps = checked_caps(eps, delta, rho)
        if uncapped and caps.is_set:
            raise ValueError(
                f"uncapped=True must be given without eps and rho, got {in_words(caps)}."
            )
        unit = None if neighbours is None else checked_neighbours(neighbours)
        new = new_summary(caps, unit or Neighbours.ROWS)

        store = store_at(path, name, new.ledger_id)
        if not store.exists():
            if not (caps.is_set or uncapped or path is None):
                raise LedgerError(
                    f"there is no privacy ledger {store.location}. To create it, give its budget, "
                    "such as PrivacyLedger(path, eps=1.0), or uncapped=True to only keep a record."
                )
            store.create(new)

        contents = store.read()
        remember(store, contents.ledger_id)
        self._access = LedgerAccess(store, contents.ledger_id)

        is_other = caps not in (contents.caps, Caps(None, None, None))
        if is_other or (uncapped and contents.caps.is_set):
            raise ValueError(
                f"the caps of a ledger cannot be changed: {store.location} was created with "
                f"{in_words(contents.caps)}, got {in_words(caps)}."
            )
        self._access.refuse_other(contents, unit)

    @property
    def path(self) -> str | None:
        """The absolute path of the file, or the address; None if the ledger is in memory."""
        return getattr(self._access.store, "path", None)

    @property
    def caps(self) -> Caps:
        """The budget: a tuple (eps, delta, rho) with None for no cap."""
        return self._access.summary().caps

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring datasets of all its releases, as in :class:`PrivacyLoss`."""
        return Neighbours(self._access.summary().neighbours)

    def with_note(self, note: str) -> "PrivacyLedger":
        """Return this ledger with a note for every record that is made through it.

        Parameters
        ----------
        note : str
            A public text, such as the name of a project.

        Returns
        -------
        ledger : PrivacyLedger
        """
        ledger = copy(self)
        ledger._access = replace(self._access, note=checked_line(note, "note"))
        return ledger

    def spent(self) -> PrivacyLoss:
        """Return the total cost of all recorded releases.

        Returns
        -------
        total : PrivacyLoss
        """
        return total_of(self._access.summary())

    def remaining(self) -> BudgetLeft:
        """Return the remaining budget: a release of this pure eps, or of this rho, is accepted.

        If the ledger counts in rho, a mechanism with a small rho may have a larger eps than that.
        :meth:`check` answers for a particular :class:`PrivacyLoss`.

        Returns
        -------
        left : named tuple (eps, rho)
            The rho is None if the ledger counts pure eps only, which is the case with a cap on
            eps and ``delta=0``.
        """
        return budget_left(self._access.summary())

    def check(
        self,
        eps: "float | PrivacyLoss | SearchPlan | BaseEstimator | None" = None,
        *,
        delta: float = 0.0,
        rho: float | None = None,
    ) -> bool:
        """Return whether the budget suffices for a release or a whole search. Nothing is spent.

        Parameters
        ----------
        eps : float, PrivacyLoss, SearchPlan or estimator, default=None
            The eps of the release, or its whole cost, such as the ``privacy_`` of an estimator. Or
            a search or another estimator to be fitted, or its plan by :func:`plan_search`.
        delta : float, default=0.0
            The delta of the release. If its rho is not known, its delta must fit into half of the
            ledger's delta, together with those of other such releases.
        rho : float or None, default=None
            The rho of the release, if it is known.

        Returns
        -------
        fits : bool
        """
        summary = self._access.summary()
        losses = planned_losses(eps)

        if losses is None:
            cost = cast(float | PrivacyLoss | None, eps)
            loss = checked_loss(cost, delta, rho, Neighbours(summary.neighbours))
            self._access.refuse_other(summary, loss.neighbours)
            losses = [loss]
        return self._access.refusal(losses, "it", summary) is None

    def spend(
        self,
        eps: float | PrivacyLoss | None = None,
        *,
        delta: float = 0.0,
        rho: float | None = None,
        what: str,
        columns: int | str | Iterable[object] | None = None,
        detail: str | None = None,
        note: str | None = None,
    ) -> None:
        """Record a release that is made elsewhere. Call it before you read the data.

        Parameters
        ----------
        eps, delta, rho
            The cost as in :meth:`check`: numbers, which must hold for the neighbours of this
            ledger, or a :class:`PrivacyLoss`.
        what : str
            A public description of the release.
        columns : int, list of str or None, default=None
            Its columns: their public names, or their number.
        detail, note : str or None, default=None
            Public facts about the release, and a note for yourself.

        Raises
        ------
        BudgetExceededError
            If the budget does not suffice. Nothing is spent then.
        """
        loss = checked_loss(eps, delta, rho, self.neighbours)
        charge(self, loss, what=what, columns=columns, detail=detail, note=note)

    def reserve(self, plan: "SearchPlan | BaseEstimator") -> Reservation:
        """Charge a whole search before it starts, so that it cannot run out of budget.

        Inside the ``with`` block, the fits that are charged to this ledger are paid from the
        reservation. Each is recorded at no further cost. A fit that the reservation does not cover
        is charged to the ledger as usual.

        Parameters
        ----------
        plan : SearchPlan or estimator
            A plan by :func:`plan_search`, or a search or another estimator that is to be fitted.

        Returns
        -------
        reservation : context manager
            It may be entered again, for example after an exception, to use the rest of it.

        Raises
        ------
        BudgetExceededError
            If the ledger cannot pay for all fits. Nothing is spent then.

        Notes
        -----
        A ledger can only be appended to, so budget that no fit has used is not given back: plan
        with ``n_features`` to reserve no more than needed. All threads of the process share the
        reservation. Worker processes (``n_jobs``) use it if the estimators hold the ledger as an
        object; with a path as ``ledger`` they charge the ledger once more. Without a reservation,
        set ``error_score="raise"``: scikit-learn otherwise goes on after a refused fit.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn.pipeline import make_pipeline
        >>> from dpq_sklearn import DPKBinsDiscretizer, PrivacyLedger
        >>> ledger = PrivacyLedger(eps=5.0)
        >>> pipeline = make_pipeline(DPKBinsDiscretizer(3, ledger=ledger), LogisticRegression())
        >>> search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2)
        >>> X = np.arange(400.0).reshape(-1, 2)
        >>> with ledger.reserve(search):
        ...     model = search.fit(X, X[:, 0] > 200)
        >>> ledger.spent().eps
        5.0
        """
        losses = planned_losses(plan)
        if not losses:
            raise ValueError(
                "plan must be a SearchPlan or an estimator with private fits, got "
                f"{shown(plan) if losses is None else 'no private fit'}."
            )
        loss = replace(compose(losses), neighbours=self.neighbours)
        access = replace(self._access, reservation=None)
        n_fits = getattr(plan, "n_fits", len(losses))
        paid = access.commit(
            replace(loss, release_id=new_release_id()),
            _facts(access, loss, what=f"a reservation for {n_fits} private fits"),
            from_reservation=False,
        )
        return Reservation(access.store, paid)

    def records(self) -> list[LedgerRecord]:
        """Return all recorded releases in the order in which they were committed.

        Returns
        -------
        records : list of named tuples of public facts
        """
        return records_of(self._access.contents())

    def to_frame(self) -> Any:
        """Return all recorded releases as a table.

        Returns
        -------
        table : pandas.DataFrame
        """
        pandas = optional_module("pandas", "PrivacyLedger.to_frame", "pandas")
        return pandas.DataFrame(self.records(), columns=LedgerRecord._fields)

    def plot(self, ax: Any = None) -> Any:
        """Plot the total after each release against the cap.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None

        Returns
        -------
        ax : matplotlib Axes
        """
        pyplot = optional_module("matplotlib.pyplot", "PrivacyLedger.plot", "dpq-sklearn[plot]")
        ax = pyplot.subplots()[1] if ax is None else ax
        title = "ledger in memory" if self.path is None else os.path.basename(self.path)
        plot_totals(self._access.contents(), title, ax)
        return ax

    def __eq__(self, other: object) -> bool:
        """Return whether both spend from the same budget, whatever their notes."""
        return self._access == other._access if isinstance(other, PrivacyLedger) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._access)

    def __getstate__(self) -> dict[str, str | None]:
        # Plain values, so that pickles stay readable if the layout of the objects changes.
        access = self._access
        state = {"_path": self.path, "_ledger_id": access.ledger_id, "_note": access.note}
        # Workers do not know in which with blocks this process is.
        reservation = access.active_reservation()
        return state if reservation is None else state | {"_reservation": reservation}

    def __setstate__(self, state: dict[str, str | None]) -> None:
        ledger_id = state["_ledger_id"]
        store = store_at(state["_path"], ledger_id=ledger_id)
        self._access = LedgerAccess(store, ledger_id, state.get("_note"), state.get("_reservation"))

    def __copy__(self) -> "PrivacyLedger":
        ledger = object.__new__(type(self))
        ledger._access = self._access
        return ledger

    def __deepcopy__(self, memo: dict[int, Any]) -> "PrivacyLedger":
        return copy(self)

    def __repr__(self) -> str:
        scope = ", for this process only" if self.path is None else ""
        try:
            words = sentence(self._access.summary())
        except LedgerError as error:  # an object must always be printable
            words = str(error)
        return f"<PrivacyLedger {self._access.store.location}{scope}: {words}>"

    def _repr_html_(self) -> str:
        text = html_element("p", repr(self)[1:-1])
        with suppress(LedgerError):
            shares = [spent / cap for _, spent, cap in spent_of_caps(self._access.summary())]
            text += f'<meter value="{max(shares):.3f}"></meter>' if shares else ""
        return f"<div>{text}</div>"


def store_at(
    path: str | os.PathLike[str] | None, name: str | None = None, ledger_id: str | None = None
) -> Store:
    """Return the store of a path or an address; None means the memory of this process."""
    if is_address(path):
        address, secrets = split_address(os.fspath(cast(str, path)), name)
        remember_secrets(address, secrets)
        return PostgresStore(address)

    if name is not None:
        raise ValueError(f"name must be None for a ledger that is not on a server, got {name!r}.")
    if path is None:
        return MemoryStore(str(ledger_id))
    return FileStore(checked_path(path, "path"))


@singledispatch
def planned_losses(cost: object) -> Sequence[PrivacyLoss] | None:
    """Return the costs of all releases of a plan; None if `cost` is not of a registered type."""
    return None


def opened(ledger: object) -> LedgerAccess:
    """Return access to the `ledger` of an estimator: an object, a path or an address."""
    if isinstance(ledger, PrivacyLedger):
        return ledger._access

    if is_address(ledger):
        address, secrets = split_address(os.fspath(cast(str, ledger)))
        if secrets:
            raise ValueError(
                "ledger must be an address without a password, because parameters are printed and "
                f"pickled, got a password for {str(address)!r}. Pass PrivacyLedger(address) "
                "instead, or put the password into PGPASSWORD, ~/.pgpass or a service file."
            )
        return LedgerAccess(PostgresStore(address))

    path = checked_path(ledger, "ledger")
    given = os.fspath(cast(str, ledger))
    if not os.path.isabs(given):
        raise ValueError(
            f"ledger must be an absolute path or a PrivacyLedger, got {given!r}: a relative path "
            "means another file after a change of the working directory. Pass "
            f"PrivacyLedger({given!r}) instead."
        )
    return LedgerAccess(FileStore(path))


def new_release_id() -> str:
    """Return an id that no other release has."""
    return token_hex(16)


def charge(
    ledger: object,
    loss: PrivacyLoss,
    *,
    what: str,
    columns: int | str | Iterable[object] | None = None,
    detail: str | None = None,
    note: str | None = None,
) -> PrivacyLoss:
    """Charge a release to the ledger of an estimator, if it is not None.

    Call it when everything about the release is settled, before the data are read. Return the loss
    with the id of the release, and with the eps that the ledger counts for it. If this raises,
    nothing is spent.
    """
    loss = replace(loss, release_id=new_release_id())
    if ledger is None:
        return loss

    access = opened(ledger)
    facts = _facts(access, loss, what=what, columns=columns, detail=detail, note=note)
    try:
        return access.commit(loss, facts)
    except BudgetExceededError as error:  # a search prints its traceback: make it short
        raise error.with_traceback(None) from None


def _facts(
    access: LedgerAccess,
    loss: PrivacyLoss,
    *,
    what: str,
    columns: int | str | Iterable[object] | None = None,
    detail: str | None = None,
    note: str | None = None,
) -> dict[str, Any]:
    """Return the checked public facts of a release."""
    return {
        "what": checked_line(what, "what"),
        "columns": checked_columns(columns),
        "detail": None if detail is None else _start_of(checked_line(detail, "detail")),
        "note": access.note if note is None else checked_line(note, "note"),
        "account": checked_line(loss.account, "account"),
    }


def _start_of(text: str) -> str:
    return shorten(text, _LONGEST_DETAIL)


# Checks of arguments


def checked_caps(eps: float | None, delta: float | None, rho: float | None) -> Caps:
    """Return the caps. Without a delta, a cap on eps means delta=0."""
    eps = None if eps is None else checked_positive(eps, "eps")
    rho = None if rho is None else checked_positive(rho, "rho")

    if delta is not None:
        return Caps(eps, checked_delta(delta), rho)
    return Caps(eps, None if eps is None else 0.0, rho)


def checked_path(path: object, name: str) -> str:
    """Return an absolute path, which does not depend on the working directory."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None

    if not isinstance(text, str) or text in ("", ":memory:") or "\0" in text:
        allowed = "None or a path" if name == "path" else "None, a PrivacyLedger or a path"
        raise ValueError(f"{name} must be {allowed}, got {shown(path)}.")
    return os.path.abspath(text)


def checked_loss(
    eps: float | PrivacyLoss | None, delta: float, rho: float | None, neighbours: Neighbours
) -> PrivacyLoss:
    """Return the cost of a release with a known eps, (eps, delta), rho, or several of these."""
    if isinstance(eps, PrivacyLoss):
        return eps
    if eps is None and rho is None:
        raise ValueError("eps or rho must be given, got eps=None and rho=None.")

    delta = checked_delta(delta)
    eps = math.inf if eps is None else checked_positive(eps, "eps")
    known_rho = math.inf if delta > 0 else rho_of_pure(eps)
    rho = known_rho if rho is None else checked_positive(rho, "rho")
    return PrivacyLoss(eps=eps, delta=delta, rho=rho, neighbours=neighbours)


def checked_line(text: object, name: str) -> str:
    """Return a text with single spaces for line breaks and other white space."""
    line = " ".join(text.split()) if isinstance(text, str) else None

    if line is None or not line.isprintable():
        raise ValueError(f"{name} must be a printable text, got {shown(text)}.")
    return line


def checked_columns(columns: int | str | Iterable[object] | None) -> int | list[str] | None:
    """Return None, a count, or a short list of names."""
    if columns is None:
        return None
    if isinstance(columns, Integral) and not isinstance(columns, bool):
        return int(cast(int, columns))

    names = (
        [columns] if isinstance(columns, str) else list(map(str, cast(Iterable[object], columns)))
    )
    return names if len(names) <= _MOST_NAMES else len(names)
