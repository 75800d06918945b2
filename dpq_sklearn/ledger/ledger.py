"""The privacy ledger: a budget for one dataset, from which every release is paid beforehand.

A ledger *is* what its store holds: a file (`ledger.file`), rows on a server (`ledger.postgres`), or
an entry in the memory of its process (`ledger.memory`). The objects here only point at it, so that
copies, clones and pickles spend from the same budget.
"""

import html
import os
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import singledispatch
from textwrap import shorten

from dpq_sklearn.accounting.losses import compose
from dpq_sklearn.accounting.neighbours import Neighbours, checked_neighbours
from dpq_sklearn.checks import shown
from dpq_sklearn.ledger.access import (
    BudgetExceededError,
    LedgerAccess,
    Reservation,
    remember,
)
from dpq_sklearn.ledger.addresses import is_address, remember_secrets, split_address
from dpq_sklearn.ledger.arguments import (
    checked_caps,
    checked_columns,
    checked_line,
    checked_loss,
    checked_path,
)
from dpq_sklearn.ledger.contents import Caps, LedgerError, new_release_id, new_summary
from dpq_sklearn.ledger.file import FileStore
from dpq_sklearn.ledger.memory import MemoryStore
from dpq_sklearn.ledger.postgres import PostgresStore
from dpq_sklearn.ledger.views import (
    LedgerRecord,
    budget_left,
    in_words,
    plot_totals,
    records_of,
    sentence,
    spent_of_caps,
    total_of,
)
from dpq_sklearn.optional import optional_module

# Records stay small: of a longer detail they hold the start.
_LONGEST_DETAIL = 300


class PrivacyLedger:
    """A privacy budget for one dataset, which every fit is charged to.

    Give the same ledger to everything that looks at the data: the spend is committed *before* the
    data are read, and a release that does not fit into the budget is refused.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The ledger's file, or the address of a PostgreSQL database that a team shares:
        "postgresql://user@host/database". To create a ledger, give a cap, which cannot be changed
        later. To open one that exists, give the same caps or none. With None the ledger is in
        memory: for this process only.
    eps : float or None, default=None
        Cap on the total eps.
    delta : float or None, default=None
        The delta at which the total eps is stated. With an `eps` cap, None means 0.
    rho : float or None, default=None
        Cap on the total in zero-concentrated DP. Every cap that is given must hold.
    neighbours : {"rows", "people"} or None, default=None
        Whom the budget protects: single rows, or people with all their rows (`groups`). None is
        "rows" for a new ledger. The costs of the two do not add up: use one ledger for each.
    name : str or None, default=None
        The name of a ledger on a server, which may hold several; None is "default". It may also
        end the address: "postgresql://user@host/database#name".
    uncapped : bool, default=False
        Whether to create a ledger without caps, which keeps a record and refuses nothing. A ledger
        in memory needs no such permission.

    See Also
    --------
    plan_search : Says what a search will cost before it runs.

    Notes
    -----
    An estimator's ``ledger`` may also be the absolute path of a file that exists: a deleted ledger
    is an error and not a new budget, and so is another one at a path that this process has used
    before. Any number of threads and processes may use one file at once: its lock is a second
    file next to it, ``path-lock``. A ledger in memory is shared by its copies and clones. A
    search goes on when a fit is refused: ``error_score="raise"`` stops it, and :meth:`check` tells
    beforehand.

    An estimator's ``ledger`` may be the address of a ledger that exists on a server, too, but
    without a password, because parameters are printed. An object may be made with one: neither
    its repr nor its pickles show it, and other processes need ``PGPASSWORD``, ``~/.pgpass`` or a
    service file.

    Private categories (:class:`DPOneHotEncoder`, :class:`DPOrdinalEncoder`,
    :func:`dp_value_counts`) have an eps and a delta, and no rho. They need a ledger with `eps` and
    `delta` and without `rho`, in which they are the first release: it adds up the eps and the
    delta of all its releases.

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
        path=None,
        eps=None,
        delta=None,
        rho=None,
        *,
        neighbours=None,
        name=None,
        uncapped=False,
    ):
        caps = checked_caps(eps, delta, rho)
        if uncapped and caps.is_set:
            raise ValueError(
                f"uncapped=True must be given without eps and rho, got {in_words(caps)}."
            )
        neighbours = None if neighbours is None else checked_neighbours(neighbours)
        new = new_summary(caps, neighbours or Neighbours.ROWS)

        store = store_at(path, name, new.ledger_id)
        if not store.exists():
            if not (caps.is_set or uncapped or path is None):
                raise LedgerError(
                    f"there is no privacy ledger {store.place}. To create it, give its budget, "
                    "such as PrivacyLedger(path, eps=1.0), or uncapped=True for one that only "
                    "keeps a record."
                )
            store.create(new)

        contents = store.read()
        remember(store, contents.ledger_id)
        self._access = LedgerAccess(store, contents.ledger_id)

        is_other = caps not in (contents.caps, Caps(None, None, None))
        if is_other or (uncapped and contents.caps.is_set):
            raise ValueError(
                f"the caps of a ledger cannot be changed: {store.place} was created with "
                f"{in_words(contents.caps)}, got {in_words(caps)}."
            )
        self._access.refuse_other(contents, neighbours)

    @property
    def path(self):
        """The absolute path of its file, or its address; None if the ledger is in memory."""
        return getattr(self._access.store, "path", None)

    @property
    def caps(self):
        """The budget: a tuple (eps, delta, rho) with None for no cap."""
        return self._access.summary().caps

    @property
    def neighbours(self):
        """Which datasets are neighbours in all its releases, as in :class:`PrivacyLoss`."""
        return Neighbours(self._access.summary().neighbours)

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
        ledger._access = replace(self._access, note=checked_line(note, "note"))
        return ledger

    def spent(self):
        """Return what all recorded releases cost together.

        Returns
        -------
        total : PrivacyLoss
        """
        return total_of(self._access.summary())

    def remaining(self):
        """Return what is left: a release of so much pure eps fits, or one of so much rho.

        Where the total is counted in rho, a mechanism with a small rho may get more eps than that:
        :meth:`check` answers for a particular :class:`PrivacyLoss`.

        Returns
        -------
        left : named tuple (eps, rho)
            The rho is None where the ledger counts pure eps alone: it has a cap on eps, and
            ``delta=0``.
        """
        return budget_left(self._access.summary())

    def check(self, eps=None, *, delta=0.0, rho=None):
        """Return whether a release of this cost, or a whole search, would fit. Nothing is spent.

        Parameters
        ----------
        eps : float, PrivacyLoss, SearchPlan or estimator, default=None
            The eps of the release, or its whole cost, as in the ``privacy_`` of an estimator. Or
            a search or another estimator that is to be fitted, or its plan by :func:`plan_search`.
        delta : float, default=0.0
            The delta of the release. If there is one, its rho counts; if the rho is not known
            either, eps and delta of all releases have to add up.
        rho : float or None, default=None
            The rho of the release, if it is known.

        Returns
        -------
        fits : bool
        """
        summary = self._access.summary()
        losses = planned_losses(eps)

        if losses is None:
            loss = checked_loss(eps, delta, rho, summary.neighbours)
            self._access.refuse_other(summary, loss.neighbours)
            losses = [loss]
        return self._access.refusal(losses, "it", summary) is None

    def spend(self, eps=None, *, delta=0.0, rho=None, what, columns=None, detail=None, note=None):
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
        loss = checked_loss(eps, delta, rho, self.neighbours)
        charge(self, loss, what=what, columns=columns, detail=detail, note=note)

    def reserve(self, plan):
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
            It may be entered again, for example after an exception, to use what is left of it.

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
        paid = access.pay(
            replace(loss, release_id=new_release_id()),
            _facts(access, loss, what=f"reservation for {n_fits} private fits"),
            from_reservation=False,
        )
        return Reservation(access, paid)

    def records(self):
        """Return all recorded releases in the order in which they were committed.

        Returns
        -------
        records : list of named tuples of public facts
        """
        return records_of(self._access.contents())

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
        ax = pyplot.subplots()[1] if ax is None else ax
        title = "ledger in memory" if self.path is None else os.path.basename(self.path)
        plot_totals(self._access.contents(), title, ax)
        return ax

    def __eq__(self, other):
        """Objects are equal if they spend from the same budget, whatever their notes."""
        return self._access == other._access if isinstance(other, PrivacyLedger) else NotImplemented

    def __hash__(self):
        return hash(self._access)

    def __getstate__(self):
        # Plain values, so that pickles outlast a change of the layout.
        access = self._access
        state = {"_path": self.path, "_ledger_id": access.ledger_id, "_note": access.note}
        # Workers do not know in which with blocks this process is.
        reservation = access.active_reservation()
        return state if reservation is None else state | {"_reservation": reservation}

    def __setstate__(self, state):
        ledger_id = state["_ledger_id"]
        store = store_at(state["_path"], ledger_id=ledger_id)
        self._access = LedgerAccess(store, ledger_id, state.get("_note"), state.get("_reservation"))

    def __copy__(self):
        ledger = object.__new__(type(self))
        ledger._access = self._access
        return ledger

    def __deepcopy__(self, memo):
        return copy(self)

    def __repr__(self):
        scope = ", for this process only" if self.path is None else ""
        try:
            words = sentence(self._access.summary())
        except LedgerError as error:  # an object must always be printable
            words = error
        return f"<PrivacyLedger {self._access.store.place}{scope}: {words}>"

    def _repr_html_(self):
        text = html.escape(repr(self)[1:-1])
        with suppress(LedgerError):
            shares = [spent / cap for _, spent, cap in spent_of_caps(self._access.summary())]
            text += f'<br><meter value="{max(shares):.3f}"></meter>' if shares else ""
        return f"<div>{text}</div>"


def store_at(path, name=None, ledger_id=None):
    """Return the store that a path or an address means; None is the memory of this process."""
    if is_address(path):
        address, secrets = split_address(path, name)
        remember_secrets(address, secrets)
        return PostgresStore(address)

    if name is not None:
        raise ValueError(f"name must be None for a ledger that is not on a server, got {name!r}.")
    return MemoryStore(ledger_id) if path is None else FileStore(checked_path(path, "path"))


@singledispatch
def planned_losses(cost):
    """Return the costs of all releases of a plan; None if `cost` is not of a registered type."""


def opened(ledger):
    """Return access to the ledger that an estimator's parameter means: an object, or a path."""
    if isinstance(ledger, PrivacyLedger):
        return ledger._access

    if is_address(ledger):
        address, secrets = split_address(ledger)
        if secrets:
            raise ValueError(
                "ledger must be an address without a password, because parameters are printed and "
                f"pickled, got one for {str(address)!r}. Give PrivacyLedger(address) instead, or "
                "put the password into PGPASSWORD, ~/.pgpass or a service file."
            )
        return LedgerAccess(PostgresStore(address))

    path = checked_path(ledger, "ledger")
    if not os.path.isabs(ledger):
        raise ValueError(
            f"ledger must be an absolute path or a PrivacyLedger, got {os.fspath(ledger)!r}: a "
            "relative path means another file after a change of the working directory. "
            f"PrivacyLedger({os.fspath(ledger)!r}) makes it absolute."
        )
    return LedgerAccess(FileStore(path))


def charge(ledger, loss, *, what, columns=None, detail=None, note=None):
    """Commit a spend to the ledger of an estimator, if it is not None; or raise, and spend nothing.

    Call it when everything about a release is settled, before the data are looked at. Return the
    loss with the id of the release, and with what the ledger counts for it.
    """
    loss = replace(loss, release_id=new_release_id())
    if ledger is None:
        return loss

    access = opened(ledger)
    facts = _facts(access, loss, what=what, columns=columns, detail=detail, note=note)
    try:
        return access.pay(loss, facts)
    except BudgetExceededError as error:  # a search prints its traceback: make it short
        raise error.with_traceback(None) from None


def _facts(access, loss, *, what, columns=None, detail=None, note=None):
    """Return the checked public facts of a release."""
    return {
        "what": checked_line(what, "what"),
        "columns": checked_columns(columns),
        "detail": None if detail is None else _start_of(checked_line(detail, "detail")),
        "note": access.note if note is None else checked_line(note, "note"),
        "account": checked_line(loss.account, "account"),
    }


def _start_of(text):
    return shorten(text, _LONGEST_DETAIL)
