"""Generated DELETE, UPDATE, MERGE and overwrites: the same rows as DuckDB's own tables have after them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import Clock
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.progress import SILENT
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.support.builders import EMBEDDED, data_files, reachable
from tests.support.examples import examples
from tests.support.row_statements import PARAMETERS, TYPES, Merge, StatementMaker, duckdb_s, in_steps, ours

VALUES = {
    "n": {"type": "int?", "default": 5}, "m": "long?", "x": "double?", "s": {"type": "string?", "default": "it's"},
    "d": "date?", "ts": "timestamp?", "e": "decimal(10,2)?", "l": "list<int>?", "r": "struct<a:int?,b:string?>?",
    "o": "time?", "u": "uuid?", "y": "boolean?",
}  # fmt: skip
CHECKS = {"small": "n IS NULL OR n < 2147483647", "no_bad_word": "s IS NULL OR s <> 'bad'"}
VECTORS = {
    "always": {
        "sleeper.table.deletion.vector.file.bytes.min": "0",
        "sleeper.table.deletion.vector.percent.max": "100",
    },
    "never": {"sleeper.table.deletion.vector.percent.max": "0"},
    "some": {
        "sleeper.table.deletion.vector.file.bytes.min": "0",
        "sleeper.table.deletion.vector.percent.max": "40",
    },
}
SHARED = {"sleeper.table.ingest.file.writing.strategy": "one_reference_per_leaf"}
LAYOUTS = ("one leaf", "leaves", "shared", "split later", "altered", "unique")


def in_order(rows: Any) -> list[str]:
    # DuckDB keeps 0.0 where an update sets -0.0
    names = [name for name in TYPES if name in rows.column_names]
    return sorted(repr(row).replace("-0.0", "0.0") for row in rows.select(names).to_pylist())


def assert_same(found: list[str], expected: list[str], statement: str) -> None:
    missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    assert (missing, more) == (Counter(), Counter()), statement


@dataclass
class Pair:
    """A table ``t`` and DuckDB's own with the same rows; ``o`` is another one on both sides."""

    session: sl.Session
    peer: duckdb.DuckDBPyConnection
    layout: str
    types: Mapping[str, str]
    engine: str
    versions: dict[int, list[str]] = field(default_factory=dict)

    @property
    def table(self) -> sl.Table:
        return self.session.table("t")

    @property
    def columns(self) -> str:
        """The columns in the order of both tables."""
        return ", ".join(self.types)

    def rows(self, version: int | None = None) -> list[str]:
        clause = "" if version is None else f" VERSION AS OF {version}"
        return in_order(self.session.sql(f"SELECT {self.columns} FROM t{clause}").to_arrow())

    def peer_rows(self) -> list[str]:
        return in_order(self.peer.sql(f"SELECT {self.columns} FROM t").to_arrow_table())

    def remember(self) -> None:
        """Keep the current version, for later statements and comparisons."""
        number = self.table.at().resolved.snapshot_id
        if number not in self.versions:
            self.versions[number] = self.peer_rows()
            self.peer.execute(f"CREATE TABLE t_at_{number} AS FROM t")

    def run(self, statement: str) -> None:
        """Run a statement on both sides, and compare."""
        before, error = self.table.at().resolved.version, None
        files = data_files(self.table._store)
        try:
            plan = self.session.sql(ours(statement), params=PARAMETERS, engine=self.engine, dry_run=True)
            planned = plan.changed_rows()
            done = self.session.sql(ours(statement), params=PARAMETERS, engine=self.engine, force=True)
        except sl.SleeperError as found:
            error = found
        peer_error = self._peer_run(statement)
        if error is None and statement_is_stricter_there(statement, peer_error):
            self._take_over()
            return
        assert (error is None) == (peer_error is None), f"{statement}\nours: {error}\nDuckDB's: {peer_error}"
        if error is not None:
            assert self.table.at().resolved.version == before, statement
            assert data_files(self.table._store) == files, statement
            return
        for name in ("counts", "source_rows", "matched", "files", "bytes", "leaves"):
            assert getattr(plan, name) == getattr(done, name), (name, statement)
        after = self.table.at().resolved.version
        self.compare_planned(planned, statement)
        assert after.rows == before.rows + done.inserted - done.deleted, statement
        changed = self.peer.execute("SELECT n FROM changed").fetchall()[0][0]
        assert done.inserted + done.updated + done.deleted == changed, statement
        self.compare(statement)

    def compare_planned(self, planned: pa.Table, statement: str) -> None:
        """The rows of a dry run make the rows after the statement of those before it."""
        kinds = planned["change"].to_pylist()
        assert kinds.count("update_preimage") == kinds.count("update_postimage"), statement
        goes = pa.array((kind in {"removed", "update_preimage"} for kind in kinds), pa.bool_())
        rows = Counter(self.versions[max(self.versions)])
        rows.subtract(in_order(planned.filter(goes)))
        rows.update(in_order(planned.filter(pc.invert(goes))))
        assert rows == Counter(self.rows()), statement
        keys = [(row["k"], row["h"].encode()) for row in planned.select(["k", "h"]).to_pylist()]
        assert keys == sorted(keys), statement

    def _take_over(self) -> None:
        """Give DuckDB's table our rows."""
        rows = self.session.sql(f"SELECT {self.columns} FROM t").to_arrow()
        self.peer.register("rows", rows)
        self.peer.execute("DELETE FROM t")
        self.peer.execute("INSERT INTO t BY NAME FROM rows")
        self.compare("taken over")

    def _peer_run(self, statement: str) -> Exception | None:
        self.peer.execute("BEGIN")
        try:
            again = self._deleted_again(statement) if isinstance(statement, Merge) else 0
            count = self._peer_count(duckdb_s(statement)) - again
            if self.layout == "unique":
                twice = self.peer.execute("SELECT 1 FROM t GROUP BY k HAVING count(*) > 1 LIMIT 1").fetchall()
                if twice:
                    raise duckdb.ConstraintException("a key is there twice")
            self.peer.execute(f"CREATE OR REPLACE TABLE changed AS SELECT {count} AS n")
        except duckdb.InternalException:
            reject()  # of DuckDB's MERGE, with some subqueries
        except duckdb.Error as error:
            self.peer.execute("ROLLBACK")
            return error
        self.peer.execute("COMMIT")
        return None

    def _deleted_again(self, merge: Merge) -> int:
        """Return how often a MERGE deletes a row that it has deleted; raise when several rows change one."""
        several, again = self.peer.execute(duckdb_s(merge.several)).fetchall()[0]
        if several:
            raise duckdb.ConstraintException("several rows of the source change one row")
        return again

    def _peer_count(self, statement: str) -> int:
        """Run a statement in DuckDB, and return how many rows it changed."""
        steps = in_steps(statement)
        if steps is None:
            return self.peer.execute(statement).fetchall()[0][0]
        new, wrong, gone, come = steps
        self.peer.execute(new)
        if self.peer.execute(wrong).fetchall()[0][0]:
            raise duckdb.ConstraintException("new rows are outside")
        return sum(self.peer.execute(step).fetchall()[0][0] for step in (gone, come))

    def compare(self, statement: str) -> None:
        rows = self.peer_rows()
        assert_same(self.rows(), rows, statement)
        assert in_order(self.table.scan().to_arrow()) == rows, statement
        for query in ("SELECT count(*) FROM t", "SELECT min(k), max(k) FROM t", "SELECT max(d), min(ts) FROM t"):
            answer = self.session.sql(query).to_arrow().to_pylist()
            expected = self.peer.sql(query).to_arrow_table().to_pylist()
            assert [*map(list, map(dict.values, answer))] == [*map(list, map(dict.values, expected))], statement
        assert self.table.maintenance.check(deep=True).ok, statement
        self.remember()

    def compare_versions(self) -> None:
        """Older versions read the same; nothing else is left; a rollback and a compaction keep rows."""
        for number, rows in self.versions.items():
            assert self.rows(number) == rows, number
        assert data_files(self.table._store) <= reachable(self.table._store)
        last = self.versions[self.table.at().resolved.snapshot_id]
        self.table.maintenance.compact(strategy="all")
        assert self.rows() == last
        assert self.table.maintenance.check(deep=True).ok
        first = min(self.versions)
        self.table.rollback(first)
        assert self.rows() == self.versions[first]
        for number, rows in self.versions.items():
            assert self.rows(number) == rows, number


def statement_is_stricter_there(statement: str, error: Exception | None) -> bool:
    """Return whether DuckDB refuses a MERGE that has one meaning.

    It computes values also for rows that do not meet the condition of their clause, and takes no row that several
    source rows delete.
    """
    text = str(error)
    if "MERGE INTO" not in statement or error is None:
        return False
    return "Overflow" in text or "Could not cast" in text or ("more than once" in text and "DELETE" in statement)


def made_table(
    session: sl.Session, random: Random, layout: str, vectors: str, kind: str, types: Mapping[str, str]
) -> list[str]:
    """Make the table, and return the queries of its rows."""
    properties = {**VECTORS[vectors], **(SHARED if layout == "shared" else {})}
    points = {"leaves": [1, 3], "shared": [1, 3], "altered": [2]}.get(layout)
    values: dict[str, Any] = {name: kind for name, kind in VALUES.items() if name in types}
    if layout == "altered":
        for name in ("s", "l"):
            del values[name]
        values |= {"n": "smallint?", "gone": "string?", "was_x": "double?", "m": "int?"}
        del values["x"]
    schema = sl.Schema({"k": "int"}, {"h": "string"}, values, unique_keys=layout == "unique",
                       checks={} if layout == "altered" else CHECKS)  # fmt: skip
    table = session.create_table("t", schema, points, properties=properties, state_store=kind)
    maker = StatementMaker(random, (), types)
    batches = [maker.rows() for _ in range(random.randint(1, 3))]
    if layout == "unique":
        batches = [f"SELECT DISTINCT ON (k) * FROM ({' UNION ALL '.join(batches)}) ORDER BY ALL"]
    batches = [f"SELECT * FROM ({batch}) WHERE n IS NULL OR n < 2147483647" for batch in batches]
    if layout == "altered":
        early = "SELECT * REPLACE (NULL AS s, NULL AS l, least(m, 7) AS m, least(n, 7) AS n) FROM"
        batches[0] = f"{early} ({batches[0]})"
        session.sql(
            "INSERT INTO t BY NAME SELECT * EXCLUDE (s, l, x, n, m), x AS was_x, n::SMALLINT AS n, m::INT AS m, "
            f"'old' AS gone FROM ({batches[0]})"
        )
        table.alter({"s": {"type": "string?", "default": "it's"}, "l": "list<int>?"}, {"was_x": "x"}, ["gone"],
                    types={"n": "int", "m": "long"}, defaults={"n": 5}, checks=CHECKS)  # fmt: skip
        table.alter({"gone": "int?"})
        table.alter(drop_columns=["gone"])
        later = batches[1:]
    else:
        later = batches
    for batch in later:
        session.sql(f"INSERT INTO t BY NAME {batch}")
    if layout == "split later":
        for at in (2, 4):
            with contextlib.suppress(sl.SleeperError):
                table.maintenance.split(at=at)
    return batches


def opened(folder: Path, kind: str, spark: Any) -> sl.Session:
    """Open a new warehouse, in SQLite or, for tables of that kind, in a DynamoDB of this process."""
    if kind in EMBEDDED:
        return sl.connect(folder, spark=spark)
    catalog = memory_catalog(folder, MemoryDynamoDB())
    return sl.Session("default", Storage(LocalPlace(folder)), catalog, clock=Clock(), progress=SILENT, author=None,
                      spark=spark, spark_config={})  # fmt: skip


def made_pair(
    folder: Path, random: Random, layout: str, vectors: str, kind: str, types: Mapping[str, str] = TYPES,
    spark: Any = None,
) -> Pair:  # fmt: skip
    session, peer = opened(folder, kind, spark), duckdb.connect()
    peer.execute("SET TimeZone = 'UTC'")
    checks = ", ".join(f"CHECK ({text})" for text in CHECKS.values())
    rules = {"k": " NOT NULL", "h": " NOT NULL", "n": " DEFAULT 5", "s": " DEFAULT 'it''s'"}
    columns = ", ".join(f"{name} {of}{rules.get(name, '')}" for name, of in types.items())
    peer.execute(f"CREATE TABLE t ({columns}, {checks})")
    other = StatementMaker(random, (), types).rows()
    peer.execute(f"CREATE TABLE o AS {other}")
    session.sql(f"CREATE TABLE o ROW KEYS (k) SORT KEYS (h) AS {other}")
    pair = Pair(session, peer, layout, types, "duckdb" if spark is None else "spark")
    for query in made_table(session, random, layout, vectors, kind, types):
        peer.execute(f"INSERT INTO t BY NAME {query}")
    pair.compare("new table")
    return pair


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(examples(3), phases=[Phase.generate])  # a shrunk seed makes no smaller program
@given(seed=st.integers(0, 2**32), vectors=st.sampled_from(list(VECTORS)), kind=st.sampled_from(STATE_STORES))
def test_changed_rows_are_those_of_duckdb_s_own_tables(tmp_path_factory, layout, seed, vectors, kind):
    run_program(tmp_path_factory.mktemp("warehouse"), layout, seed, vectors, kind, statements=2)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=50, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), vectors=st.sampled_from(list(VECTORS)), kind=st.sampled_from(STATE_STORES))
def test_rows_of_many_programs_are_those_of_duckdb_s_own_tables(tmp_path_factory, layout, seed, vectors, kind):
    run_program(tmp_path_factory.mktemp("warehouse"), layout, seed, vectors, kind, statements=4)


def run_program(folder: Path, layout: str, seed: int, vectors: str, kind: str, *, statements: int) -> None:
    random = Random(seed)  # noqa: S311 - chooses statements
    pair = made_pair(folder, random, layout, vectors, kind)
    with pair.session:
        for _ in range(statements):
            pair.run(StatementMaker(random, list(pair.versions)).statement())
        pair.compare_versions()
