"""The tables of ledgers on a PostgreSQL server: what their owner creates, what a role is granted.

All is in one schema, ``dpq_ledger``. Tables can only be appended to: a trigger refuses everything
else, whoever asks. Who owns the tables could drop the trigger, so nobody should fit models as the
owner.
"""

# Raised whenever a table changes. A migration locks the table `version` in ACCESS EXCLUSIVE mode
# first: every transaction of a client holds a share of it until its end.
VERSION = 1

_TABLES = f"""\
CREATE SCHEMA dpq_ledger;

CREATE TABLE dpq_ledger.version (version integer NOT NULL);
INSERT INTO dpq_ledger.version VALUES ({VERSION});

CREATE TABLE dpq_ledger.ledgers (
    name text PRIMARY KEY,
    ledger_id text NOT NULL UNIQUE,
    created text NOT NULL,
    neighbours text NOT NULL CHECK (neighbours IN ('rows', 'people')),
    eps float8 CHECK (eps > 0 AND eps < 'Infinity'),
    delta float8 CHECK (delta >= 0 AND delta < 1),
    rho float8 CHECK (rho > 0 AND rho < 'Infinity')
);

CREATE TABLE dpq_ledger.releases (
    ledger_id text NOT NULL REFERENCES dpq_ledger.ledgers (ledger_id),
    id integer NOT NULL CHECK (id > 0),
    eps float8 NOT NULL CHECK (eps >= 0 AND eps <> 'NaN'),
    delta float8 NOT NULL CHECK (delta >= 0 AND delta < 1),
    rho float8 NOT NULL CHECK (rho >= 0 AND rho <> 'NaN'),
    pure_eps float8 NOT NULL CHECK (pure_eps >= 0 AND pure_eps <> 'NaN'),
    os_randomness boolean NOT NULL,
    release_id text NOT NULL UNIQUE,
    facts text NOT NULL,
    PRIMARY KEY (ledger_id, id)
);

CREATE FUNCTION dpq_ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a privacy ledger can only be appended to: % of % is refused',
        TG_OP, TG_TABLE_NAME;
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.ledgers
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.releases
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
"""

_GRANTS = """\
GRANT USAGE ON SCHEMA dpq_ledger TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA dpq_ledger TO {role};
GRANT INSERT ON dpq_ledger.releases TO {role};
-- PostgreSQL asks for a right to update of those who lock a row. The trigger refuses updates.
GRANT UPDATE (name) ON dpq_ledger.ledgers TO {role};
"""


def owner_statements():
    """Return what the owner runs once in a database."""
    return _TABLES


def role_statements(role):
    """Return what the owner grants to a role that may read ledgers and spend from them."""
    quoted = '"' + role.replace('"', '""') + '"'
    return _GRANTS.format(role=quoted)
