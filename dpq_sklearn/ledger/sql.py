"""SQL for the tables of ledgers on a PostgreSQL server: for their owner, and for other roles.

Everything is in one schema, ``dpq_ledger``. The tables can only be appended to: triggers refuse
every other statement from every role, and every release that is not the next in its ledger. The
owner of the tables could drop the triggers, so nobody should fit models as the owner.

Names are resolved in ``pg_catalog`` alone. Otherwise a function or an operator that somebody else
has planted in a schema of the owner's search path could run with the owner's rights, or end up in
the constraints of the tables.
"""

# Raised whenever a table changes. A migration locks the table `version` in ACCESS EXCLUSIVE mode
# first: every transaction of a client holds a share of it until its end.
VERSION = 1

SAFE_SEARCH_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"

_TABLES = f"""\
CREATE SCHEMA dpq_ledger;

CREATE TABLE dpq_ledger.version (version integer NOT NULL);
INSERT INTO dpq_ledger.version VALUES ({VERSION});

CREATE TABLE dpq_ledger.ledgers (
    name text PRIMARY KEY,
    ledger_id text NOT NULL UNIQUE,
    created text NOT NULL,
    neighbours text NOT NULL CHECK (neighbours IN ('rows'::text, 'people'::text)),
    eps float8 CHECK (eps > 0::float8 AND eps < 'Infinity'::float8),
    delta float8 CHECK (delta >= 0::float8 AND delta < 1::float8),
    rho float8 CHECK (rho > 0::float8 AND rho < 'Infinity'::float8)
);

CREATE TABLE dpq_ledger.releases (
    ledger_id text NOT NULL REFERENCES dpq_ledger.ledgers (ledger_id),
    id integer NOT NULL CHECK (id > 0),
    eps float8 NOT NULL CHECK (eps >= 0::float8 AND eps <> 'NaN'::float8),
    delta float8 NOT NULL CHECK (delta >= 0::float8 AND delta < 1::float8),
    rho float8 NOT NULL CHECK (rho >= 0::float8 AND rho <> 'NaN'::float8),
    pure_eps float8 NOT NULL CHECK (pure_eps >= 0::float8 AND pure_eps <> 'NaN'::float8),
    os_randomness boolean NOT NULL,
    release_id text NOT NULL UNIQUE,
    facts text NOT NULL CHECK (json_typeof(facts::json) = 'object'::text),
    PRIMARY KEY (ledger_id, id)
);

CREATE FUNCTION dpq_ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a privacy ledger can only be appended to: % of % is refused',
        TG_OP, TG_TABLE_NAME;
END
$$;

CREATE FUNCTION dpq_ledger.refuse_gap() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.id <> 1 AND NOT EXISTS (
        SELECT FROM dpq_ledger.releases WHERE ledger_id = NEW.ledger_id AND id = NEW.id - 1
    ) THEN
        RAISE EXCEPTION 'the releases of a privacy ledger are numbered 1, 2, 3, ...: % is refused',
            NEW.id;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.version
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.ledgers
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.releases
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER no_gap BEFORE INSERT ON dpq_ledger.releases
    FOR EACH ROW EXECUTE FUNCTION dpq_ledger.refuse_gap();
"""

_GRANTS = """\
GRANT USAGE ON SCHEMA dpq_ledger TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA dpq_ledger TO {role};
GRANT INSERT ON dpq_ledger.releases TO {role};
-- PostgreSQL requires the right to update of a role that locks a row. A trigger refuses updates.
GRANT UPDATE (name) ON dpq_ledger.ledgers TO {role};
"""


def table_statements() -> str:
    """Return the statements that create the tables, for a transaction with a safe search path."""
    return _TABLES


def owner_statements() -> str:
    """Return the statements that the owner runs once in a database."""
    return f"BEGIN;\n{SAFE_SEARCH_PATH};\n\n{_TABLES}\nCOMMIT;\n"


def role_statements(role: str) -> str:
    """Return the statements with which the owner lets a role read ledgers and spend from them."""
    quoted = '"' + role.replace('"', '""') + '"'
    return _GRANTS.format(role=quoted)
