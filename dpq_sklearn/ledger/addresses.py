"""Addresses of ledgers on a server: ``postgresql://user@host:port/database#name``.

Passwords are removed from an address at once. They stay in the memory of this process, keyed by
address, so that no object, message or pickle ever holds one. Text that resembles an address in any
other form is refused, and the error does not show the text, because it may contain a password.
"""

import contextlib
import os
import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

DEFAULT_NAME = "default"

_SCHEMES = ("postgresql://", "postgres://")
_HOST = r"(\[[0-9A-Fa-f:.%]*\]|[^\s:@/\[\]]*)(:\d*)?"

# The parameters of libpq that are allowed in the query of an address. Every other key is refused
# without being shown, because it may be a misspelled password.
_SECRETS = frozenset(
    ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
)
_PUBLIC_OPTIONS = """
    host hostaddr port dbname user passfile service servicefile require_auth channel_binding
    connect_timeout client_encoding options application_name fallback_application_name
    keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
    gssencmode gsslib gssdelegation krbsrvname requirepeer sslmode sslnegotiation
    sslcompression sslcert sslkey sslrootcert sslcrl sslcrldir sslsni sslcertmode
    ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
    max_protocol_version target_session_attrs load_balance_hosts oauth_issuer oauth_client_id
    oauth_scope
"""

# Text that names a server, or holds a password, in any of the usual forms: a URL of any scheme
# (but not the letter of a Windows drive), libpq's "host=... password=...", and user:password@host.
_RESEMBLES_AN_ADDRESS = re.compile(
    r"""
    \s* [a-z][a-z0-9+.-]+ :                                  # scheme:
    | .* ://                                                 # scheme:// after other text
    | (.*[\s;&?])? (host|hostaddr|port|dbname|database|user|username|uid
                    |password|passwd|pwd|service|server|sslmode) \s* =
    | [^/\\]* : [^/\\]* @                                    # user:password@host
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")

_RULE = (
    "the address of a ledger on a server must have the form postgresql://user@host:port/database"
    "#name, with every other character of a user name or password written as %.., such as %40 for "
    "@, and with options of libpq only. The text given looks like an address in another form. It "
    "is not shown here, because it may hold a password."
)

_PASSWORDS: dict[str, dict[str, str]] = {}  # by address: the passwords that this process was given


class Address(NamedTuple):
    """The location of a ledger on a server."""

    url: str  # without passwords, and without the name of the ledger
    name: str

    def __str__(self) -> str:
        return f"{self.url}#{self.name}"


def is_address(path: object) -> bool:
    """Return whether a text or path-like resembles the address of a server, even if malformed."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    text = os.fspath(path)
    if not isinstance(text, str) or _WINDOWS_DRIVE.match(text):
        return False
    return _RESEMBLES_AN_ADDRESS.match(text) is not None


def split_address(text: str, name: str | None = None) -> tuple[Address, dict[str, str]]:
    """Return the `Address`, and a dict of the secrets in it by their names in libpq."""
    if not isinstance(text, str) or not text.lower().startswith(_SCHEMES):
        raise ValueError(_RULE)

    parts = _parts(text)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)

    # A password that contains "/", "#" or "?" ends up in another part, together with the "@".
    is_plain = re.fullmatch(f"{_HOST}(,{_HOST})*", hosts) and "@" not in userinfo
    if not is_plain or any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise ValueError(_RULE)
    if any(key not in _SECRETS and key not in _PUBLIC_OPTIONS.split() for key, _ in query):
        raise ValueError(_RULE)

    name = _checked_name(name, unquote(parts.fragment))
    secrets = {key: value for key, value in query if key in _SECRETS}
    if password:
        secrets["password"] = unquote(password)

    at = f"{user}@" if user else ""
    public = [(key, value) for key, value in query if key not in _SECRETS]
    options = f"?{urlencode(public)}" if public else ""
    return Address(f"postgresql://{at}{hosts}{parts.path}{options}", name), secrets


def _parts(text: str) -> SplitResult:
    """Return the parts of a URL. The library's own errors may quote the password."""
    with contextlib.suppress(ValueError):
        return urlsplit(text)
    raise ValueError(_RULE)


def _checked_name(name: str | None, in_address: str) -> str:
    """Return the name of a ledger, given as an argument, in the address, or not at all."""
    if name is None:
        name = in_address or DEFAULT_NAME
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(f"name must be None or a printable text, got {type(name).__name__}.")
    if in_address not in ("", name):
        raise ValueError(
            f"name must be the name in the address if both are given, got {name!r} and "
            f"{in_address!r}."
        )
    return name


def remember_secrets(address: Address, secrets: dict[str, str]) -> None:
    """Keep the passwords of an address in the memory of this process."""
    if secrets:
        _PASSWORDS[address.url] = secrets


def secrets_of(url: str) -> dict[str, str]:
    """Return the passwords that this process was given for a URL."""
    return _PASSWORDS.get(url, {})
