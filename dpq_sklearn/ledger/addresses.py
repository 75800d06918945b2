"""Addresses of ledgers on a server: ``postgresql://user@host:port/database#name``.

A password is taken off at once. It stays in the memory of this process, by address, so that no
object, message or pickle can ever hold it; and as nothing that looks like an address with one is
ever shown, neither can an error.
"""

import contextlib
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

DEFAULT_NAME = "default"

_SCHEMES = ("postgresql://", "postgres://")
_HOST = r"(\[[0-9A-Fa-f:.%]*\]|[^\s:@/\[\]]*)(:\d*)?"
_SECRETS = ("password", "sslpassword")

_RULE = (
    "the address of a ledger must be postgresql://user@host:port/database#name, with every other "
    "character of a name or password written as %.., as in %40 for an @. It is not shown here, "
    "since it may hold a password."
)

_PASSWORDS = {}  # by address: those that this process was told


class Address(NamedTuple):
    """Where a ledger is on a server."""

    url: str  # without a password, and without the name
    name: str

    def __str__(self):
        return f"{self.url}#{self.name}"


def is_address(text):
    """Return whether a text is meant to be the address of a server, and not a path."""
    return isinstance(text, str) and text.lower().startswith(_SCHEMES)


def split_address(text, name=None):
    """Return the `Address`, and a dict of the secrets that stood in it."""
    parts = _parts(text)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)

    # A password with "/", "#" or "?" in it ends up in another part, together with the "@".
    is_plain = re.fullmatch(f"{_HOST}(,{_HOST})*", hosts) and "@" not in userinfo
    if not is_plain or any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise ValueError(_RULE)

    name = _checked_name(name, unquote(parts.fragment))
    secrets = {key: value for key, value in query if key in _SECRETS}
    if password:
        secrets["password"] = unquote(password)

    at = f"{user}@" if user else ""
    public = [(key, value) for key, value in query if key not in _SECRETS]
    options = f"?{urlencode(public)}" if public else ""
    return Address(f"postgresql://{at}{hosts}{parts.path}{options}", name), secrets


def _parts(text):
    """Return the parts of a URL; errors of the library may quote the password."""
    with contextlib.suppress(ValueError):
        return urlsplit(text)
    raise ValueError(_RULE)


def _checked_name(name, in_address):
    """Return the name of a ledger, which is given beside the address, in it, or not at all."""
    if name is None:
        name = in_address or DEFAULT_NAME
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(f"name must be None or a printable text, got {type(name).__name__}.")
    if in_address not in ("", name):
        raise ValueError(
            f"name must be the one in the address if both are given, got {name!r} and "
            f"{in_address!r}."
        )
    return name


def remember_secrets(address, secrets):
    """Keep the passwords of an address in the memory of this process."""
    if secrets:
        _PASSWORDS[address.url] = secrets


def secrets_of(url):
    """Return the passwords that this process was told for a URL."""
    return _PASSWORDS.get(url, {})
