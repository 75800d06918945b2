"""The command line of ledgers: ``python -m dpq_sklearn.ledger``.

Its exit code is 0 if all is well, 1 if a budget does not suffice for `check`, 2 if the arguments
are wrong, and 3 if the ledger cannot be used.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.file import FileStore
from dpq_sklearn.ledger.ledger import PrivacyLedger, store_at
from dpq_sklearn.ledger.postgres import owner_statements, role_statements
from dpq_sklearn.ledger.views import LedgerRecord, in_words
from dpq_sklearn.markup import printable, text_table

_Options = argparse.Namespace

CANNOT_PAY = 1
WRONG_ARGUMENTS = 2
UNUSABLE = 3

_HEADER = (
    *("time (UTC)", "what", "columns", "eps", "delta", "rho", "counts as eps"),
    *("seeded", "note", "release id"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (LedgerError, ImportError) as error:
        _complain(error)
        return UNUSABLE
    except ValueError as error:
        _complain(error)
        return WRONG_ARGUMENTS
    except BrokenPipeError:  # as with "| head"
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dpq_sklearn.ledger",
        description="Create, show, check and export privacy ledgers, in files and on servers.",
        epilog="Exit codes: 0 all is well, 1 a budget cannot pay (check), 2 wrong arguments, "
        "3 the ledger cannot be used.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    create = _command(commands, "create", _create, "create a ledger, whose caps cannot be changed")
    _add_ledger(create)
    _add_amounts(create)
    create.add_argument("--neighbours", choices=("rows", "people"), help="the unit of protection")
    create.add_argument("--uncapped", action="store_true", help="only keep a record")

    show = _command(commands, "show", _show, "print the budget and all releases")
    _add_ledger(show)

    check = _command(commands, "check", _check, "verify a ledger, and whether it can pay a cost")
    _add_ledger(check)
    _add_amounts(check)

    accept = _command(
        commands, "accept", _accept, "use a file although it lost releases, such as a backup"
    )
    _add_ledger(accept)

    export = _command(commands, "export", _export, "print all releases as JSON or CSV")
    _add_ledger(export)
    export.add_argument(
        "--format", choices=("json", "csv"), default="json", help="json: one object a line"
    )

    sql = _command(commands, "sql", _sql, "print the statements for a PostgreSQL server")
    sql.add_argument(
        "--role", default="analysts", help="the role that may read and spend (analysts)"
    )
    return parser


def _command(
    commands: Any, name: str, run: Callable[[_Options], int], description: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=description, description=description)
    command.set_defaults(run=run)
    return command


def _add_ledger(command: argparse.ArgumentParser) -> None:
    command.add_argument("ledger", help="a file, or postgresql://user@host/database#name")
    command.add_argument("--name", help="the name of a ledger on a server")


def _add_amounts(command: argparse.ArgumentParser) -> None:
    for unit in ("eps", "delta", "rho"):
        command.add_argument(f"--{unit}", type=float)


def _create(options: _Options) -> int:
    store = store_at(options.ledger, options.name)
    if store.exists():
        raise LedgerError(
            f"there is a privacy ledger {store.location} already; it is left unchanged."
        )

    if options.eps is None and options.rho is None and not options.uncapped:
        raise ValueError("a new ledger needs --eps or --rho, or --uncapped to only keep a record.")

    ledger = PrivacyLedger(
        options.ledger,
        eps=options.eps,
        delta=options.delta,
        rho=options.rho,
        neighbours=options.neighbours,
        name=options.name,
        uncapped=options.uncapped,
    )
    print(ledger)
    return 0


def _show(options: _Options) -> int:
    ledger = _existing(options)
    left = ledger.remaining()

    print(repr(ledger)[1:-1])
    caps = in_words(ledger.caps) if ledger.caps.is_set else "none, the ledger is uncapped"
    print(f"caps: {caps}; neighbours: {ledger.neighbours}")
    rho = "" if left.rho is None else f", or rho={left.rho:g}"
    print(f"left: eps={left.eps:g}{rho}")
    records = ledger.records()
    if records:
        print()
        print(text_table([_HEADER, *map(_cells, records)]))
    return 0


def _check(options: _Options) -> int:
    if options.eps is None and options.rho is None and options.delta is not None:
        raise ValueError("--delta must be given with --eps or --rho, got --delta alone.")

    ledger = _existing(options)
    print(repr(ledger)[1:-1])
    if options.eps is None and options.rho is None:
        return 0

    fits = ledger.check(options.eps, delta=options.delta or 0.0, rho=options.rho)
    print("it can pay" if fits else "it cannot pay")
    return 0 if fits else CANNOT_PAY


def _accept(options: _Options) -> int:
    store = store_at(options.ledger, options.name)
    if not isinstance(store, FileStore):
        raise ValueError(f"ledger must be a file, got {store.location}.")
    store.accept()
    print(repr(_existing(options))[1:-1])
    return 0


def _export(options: _Options) -> int:
    records = _existing(options).records()

    if options.format == "csv":
        writer = csv.writer(sys.stdout, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(LedgerRecord._fields)
        for record in records:
            plain = _plain(record)
            plain["columns"] = json.dumps(plain["columns"])
            writer.writerow(map(_harmless_in_spreadsheets, plain.values()))
    else:
        for record in records:
            print(json.dumps(_plain(record)))
    return 0


def _sql(options: _Options) -> int:
    print("-- By the owner of the ledgers, once in a database.")
    print(owner_statements())
    print("-- By the owner, for those who read ledgers and spend from them.")
    print(role_statements(options.role), end="")
    return 0


def _existing(options: _Options) -> PrivacyLedger:
    """Return the ledger that is asked for, or raise if there is none."""
    store = store_at(options.ledger, options.name)
    if not store.exists():
        raise LedgerError(f"there is no privacy ledger {store.location}.")
    return PrivacyLedger(options.ledger, name=options.name)


def _plain(record: LedgerRecord) -> dict[str, Any]:
    """Return a record as values that JSON can hold."""
    plain = record._asdict()
    plain["time"] = None if record.time is None else record.time.isoformat()
    if isinstance(record.columns, tuple):
        plain["columns"] = list(record.columns)
    for name, value in plain.items():
        if isinstance(value, float) and not math.isfinite(value):
            plain[name] = json.dumps(value)  # Infinity or NaN, as text
    return plain


def _harmless_in_spreadsheets(value: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula: text gets an apostrophe in front."""
    is_formula = isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@"))
    return f"'{value}" if is_formula else value


def _cells(record: LedgerRecord) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
    columns = "" if record.columns is None else str(record.columns)
    if isinstance(record.columns, tuple):
        columns = ", ".join(map(ascii, record.columns))  # names may hold anything

    return (
        "unknown" if record.time is None else f"{record.time:%Y-%m-%d %H:%M:%S}",
        record.what,
        columns,
        f"{record.eps:g}",
        f"{record.delta:g}",
        f"{record.rho:g}",
        f"{record.eps_in_ledger:g}",
        "yes" if record.seeded else "no",
        record.note or "",
        record.release_id or "",
    )


def _complain(error: Exception) -> None:
    print(printable(f"error: {error}"), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
