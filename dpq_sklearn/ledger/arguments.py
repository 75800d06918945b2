"""Checks of what is said to a ledger: its budget, costs, texts and names."""

import math
import os
from numbers import Integral

from dpq_sklearn.accounting.conversions import rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.checks import checked_delta, checked_positive, shown
from dpq_sklearn.ledger.contents import Caps

# Records stay small: of more names than this they hold the number.
_MOST_NAMES = 100


def checked_caps(eps, delta, rho):
    """Return the caps; without a delta an eps cap is one at delta 0."""
    eps = None if eps is None else checked_positive(eps, "eps")
    rho = None if rho is None else checked_positive(rho, "rho")

    if delta is not None:
        return Caps(eps, checked_delta(delta), rho)
    return Caps(eps, None if eps is None else 0.0, rho)


def checked_path(path, name):
    """Return an absolute path, so that a change of the working directory changes nothing."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None

    if not isinstance(text, str) or text in ("", ":memory:") or "\0" in text:
        allowed = "None or a path" if name == "path" else "None, a PrivacyLedger or a path"
        raise ValueError(f"{name} must be {allowed}, got {shown(path)}.")
    return os.path.abspath(path)


def checked_loss(eps, delta, rho, neighbours):
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


def checked_line(text, name):
    """Return a text with single spaces for line breaks and other white space."""
    line = " ".join(text.split()) if isinstance(text, str) else None

    if line is None or not line.isprintable():
        raise ValueError(f"{name} must be a printable text, got {shown(text)}.")
    return line


def checked_columns(columns):
    """Return None, a count, or a short list of names."""
    if columns is None:
        return None
    if isinstance(columns, Integral) and not isinstance(columns, bool):
        return int(columns)

    names = [columns] if isinstance(columns, str) else [str(name) for name in columns]
    return names if len(names) <= _MOST_NAMES else len(names)
