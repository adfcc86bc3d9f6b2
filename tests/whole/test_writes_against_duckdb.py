"""Generated CREATE TABLE AS and INSERT: the same rows as DuckDB's own statements make, on a database of its own."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from tests.support.examples import examples

COLUMNS = ("k", "d", "n", "x", "t", "b", "l")
VALUES = {
    "k": ("'a'", "'B'", "'é'", "'zz'", "''"),
    "d": ("DATE '2026-01-31'", "DATE '1969-12-31'", "NULL"),
    "n": ("1", "-2147483648", "2147483647", "NULL"),
    "x": ("0.1", "-1e300", "NULL", "'nan'::DOUBLE"),
    "t": ("TIMESTAMPTZ '2026-01-01 00:00:00.000001+00'", "TIMESTAMPTZ '1900-01-01 00:00:00+00'", "NULL"),
    "b": ("true", "false", "NULL"),
    "l": ("[1, NULL, 3]", "[]", "NULL"),
}
TYPES = {
    "k": "VARCHAR", "d": "DATE", "n": "INTEGER", "x": "DOUBLE", "t": "TIMESTAMPTZ", "b": "BOOLEAN", "l": "INTEGER[]",
}  # fmt: skip


@st.composite
def rows(draw):
    """A query that gives up to eight rows with all columns, in their types."""
    made = draw(st.lists(st.tuples(*(st.sampled_from(VALUES[name]) for name in COLUMNS)), min_size=1, max_size=8))
    values = ", ".join(f"({', '.join(row)})" for row in made)
    cast = ", ".join(f"CAST({name} AS {TYPES[name]}) AS {name}" for name in COLUMNS)
    return f"SELECT {cast} FROM (VALUES {values}) v({', '.join(COLUMNS)})"


@st.composite
def inserts(draw):
    """What follows ``INSERT INTO w``: a query of the source or of the target, by position, by columns or by name."""
    some = draw(st.lists(st.sampled_from(COLUMNS[1:]), unique=True))
    names = draw(st.permutations(["k", *some]))
    source = draw(st.sampled_from(["w", "s", "(FROM s UNION ALL FROM w)"]))
    where = draw(st.sampled_from(["", " WHERE n IS NOT NULL", " WHERE k >= 'a'", " WHERE false"]))
    upper = draw(st.booleans())
    written = [name.upper() if upper else name for name in names]
    form = draw(st.sampled_from(["position", "columns", "name"]))
    if form == "position":
        return f"SELECT * FROM {source}{where}"
    if form == "columns":
        return f"({', '.join(written)}) SELECT {', '.join(names)} FROM {source}{where}"
    return f"BY NAME SELECT {', '.join(written)} FROM {source}{where}"


def sorted_rows(table):
    return sorted(map(repr, table.select(list(COLUMNS)).to_pylist()))


def _count(peer, name):
    return peer.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("warehouse")) as opened:
        yield opened


@examples(8)
@given(first=rows(), source=rows(), statements=st.lists(inserts(), max_size=3), leaves=st.integers(1, 3))
def test_tables_have_the_rows_that_duckdb_s_own_have(session, first, source, statements, leaves):
    for name in ("w", "s"):
        session.sql(f"DROP TABLE IF EXISTS {name}", force=True)
    peer = duckdb.connect()
    peer.execute("SET TimeZone = 'UTC'")
    for name, query in (("w", first), ("s", source)):
        made = session.sql(f"CREATE TABLE {name} ROW KEYS (k) SPLITS {leaves} AS {query}")
        peer.execute(f"CREATE TABLE {name} AS {query}")
        assert made.rows == _count(peer, name)
    for statement in statements:
        before = _count(peer, "w")
        peer.execute(f"INSERT INTO w {statement}")
        after = _count(peer, "w")
        plan = session.sql(f"INSERT INTO w {statement}", dry_run=True)
        made = session.sql(f"INSERT INTO w {statement}")
        assert made.rows == plan.to_dict()["plan"]["rows"] == after - before
    assert sorted_rows(session.sql("FROM w").to_arrow()) == sorted_rows(peer.sql("FROM w").to_arrow_table())
