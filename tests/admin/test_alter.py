"""Columns that are added, renamed and dropped: every version reads right, on every engine, whoever races or dies."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.admin.alter import AlterReport, alter
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    StateRuleBroken,
    StorageError,
)
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.sweep_orphans import sweep_orphans
from sleeper_nb.model.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaAlteration,
    mapped,
)
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS, NOTHING
from sleeper_nb.model.schema import Field, Schema, parse_type
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.scan_plan import ScanPlan, plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from tests.servers.memory import memory_catalog
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    a_store,
    collect,
    compact,
    condition,
    forget_all_but_newest,
    ingest,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
    split,
)
from tests.support.faults import DeadError, Fault
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

STORES = (*EMBEDDED, "DynamoDBStateStore")
COLUMNS = sl.Schema({"k": "string"}, {}, {"a": "int", "b": "string?"})


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    catalog = memory_catalog(tmp_path) if request.param == "DynamoDBStateStore" else None
    return a_store(tmp_path, kind=request.param, catalog=catalog)


def add(name: str, kind: str = "string") -> AddColumn:
    return AddColumn(Field(name, parse_type(kind), nullable=True))


def altered(store: StateStore, *changes: SchemaAlteration, dry_run: bool = False) -> AlterReport:
    return alter(store, "table", changes, NOTHING, dry_run=dry_run)


def found(store: StateStore, version: Any = None, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a version, as a store that remembers nothing reads them, without the number."""
    rows = scan(reopened(store), version, **options).to_pylist()
    return [{name: value for name, value in row.items() if name != "n"} for row in rows]


def snapshot(store: StateStore, number: int) -> Any:
    return next(s for s in store.catalog.snapshots(store.table_id) if s.id == number)


def test_a_column_is_added_and_files_of_before_have_nulls_in_it(store: StateStore):
    ingest(store, rows_of("a", value="x"))
    done = altered(store, add("note"), add("size", "long"))
    assert (done.snapshot.operation, done.snapshot.schema_id, done.snapshot.rows) == ("alter", 2, 1)
    ingest(store, [{"key": "b", "n": 0, "value": "y", "note": "new", "size": 2**40}])
    old, new = {"note": None, "size": None}, {"note": "new", "size": 2**40}
    expected = [{"key": "a", "value": "x", **old}, {"key": "b", "value": "y", **new}]
    assert found(store) == expected
    assert found(store, where="note IS NULL AND size IS NULL") == expected[:1]
    assert found(store, where="size > 5", columns=["key", "size"]) == [{"key": "b", "size": 2**40}]
    compact(store)
    split(store, at="b")
    assert found(store) == expected
    assert found(store, snapshot(store, 2)) == [{"key": "a", "value": "x"}]
    assert reopened(store).load(snapshot(store, 2)).schema == reopened(store).schema(1)


def test_a_rename_changes_no_file_and_a_dropped_name_given_anew_is_another_column(store: StateStore):
    ingest(store, rows_of("a", value="x"))
    files = {path for path in on_disk(store) if path.startswith("data/")}
    altered(store, RenameColumn("value", "text"))
    assert {path for path in on_disk(store) if path.startswith("data/")} == files
    assert found(store, where="text = 'x'") == [{"key": "a", "text": "x"}]
    altered(store, add("value", "int"))
    ingest(store, [{"key": "b", "n": 0, "text": "y", "value": 7}])
    expected = [{"key": "a", "text": "x", "value": None}, {"key": "b", "text": "y", "value": 7}]
    assert found(store) == expected
    compact(store)
    assert found(store) == expected
    altered(store, DropColumn("text"))
    assert found(store) == [{"key": "a", "value": None}, {"key": "b", "value": 7}]
    altered(store, DropColumn("value"), add("text", "double"))
    ingest(store, [{"key": "c", "n": 0, "text": 0.5}])
    assert found(store) == [{"key": "a", "text": None}, {"key": "b", "text": None}, {"key": "c", "text": 0.5}]
    compact(store)
    assert found(store, where="text > 0") == [{"key": "c", "text": 0.5}]
    assert check_table(store, "table", deep=True, progress=Silent()).ok
    for number in (2, 3):  # each version with its own columns
        assert [*found(store, snapshot(store, number))[0]][1] == ("value" if number == 2 else "text")


def test_a_savepoint_keeps_its_schema_when_all_else_has_gone(store: StateStore):
    ingest(store, rows_of("a", value="x"))
    kept = save(store, "before")
    altered(store, DropColumn("value"))
    compact(store, "basic")
    ingest(store, rows_of_keys("b"))
    forget_all_but_newest(store)
    collect(store)
    assert (kept.schema_id, found(store, kept)) == (1, [{"key": "a", "value": "x"}])
    assert found(store) == [{"key": "a"}, {"key": "b"}]
    assert reachable(store) <= on_disk(store)


def rows_of_keys(*keys: str) -> list[dict[str, Any]]:
    return [{"key": key, "n": 0} for key in keys]


def test_a_migration_takes_the_schemas_along(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", COLUMNS)
        table.ingest([{"k": "a", "a": 1, "b": None}])
        for i, to in enumerate(("TransactionLogStateStore", "S3StateStore")):
            table.alter({f"c{i}": "int?"})
            session.admin.migrate("t", to)
            table.alter(rename_columns={f"c{i}": f"d{i}"})
        assert [len(table.at(s.id).schema.names) for s in table.history()] == [5, 5, 5, 4, 4, 4, 3, 3]
        assert table.scan().to_arrow().to_pylist() == [{"k": "a", "a": 1, "b": None, "d0": None, "d1": None}]


def test_a_dry_run_says_the_same_and_writes_nothing(store: StateStore):
    ingest(store, rows_of("a"))
    before = on_disk(store)
    changes = (DropColumn("value"), add("value"), add("note"))
    planned = altered(store, *changes, dry_run=True)
    assert (on_disk(store), store.head().id, planned.dry_run) == (before, 2, True)
    done = altered(store, *changes)
    assert (done.before, done.after) == (planned.before, planned.after)
    assert done.changed == planned.changed
    assert repr(planned).splitlines()[0] == "would alter table"
    assert "value string?" in repr(done)
    assert "Schema 2; older versions keep their schemas" in done._repr_html_()


def test_a_change_that_cannot_be_leaves_nothing(store: StateStore):
    before = on_disk(store)
    for changes, kind in (((), InvalidInput), ((DropColumn("vlaue"),), NotFound), ((add("KEY"),), AlreadyExists)):
        with pytest.raises(kind):
            altered(store, *changes)
    assert (on_disk(store), store.head().id) == (before, 1)


def test_rows_of_before_are_loaded_while_the_table_is_altered(store: StateStore):
    """They were made for the old columns, and their file has those."""
    rows = pa.Table.from_pylist(rows_of("a", value="x"), schema=store.load().schema.arrow)
    old = store.load().schema
    altered(store, RenameColumn("value", "text"), add("note"))
    ingest_arrow(store, rows, rows_schema=old)
    assert found(store) == [{"key": "a", "text": "x", "note": None}]
    head, before = store.head().id, on_disk(store)
    other = Schema(KEYED.row_keys, KEYED.sort_keys, {"value": "long?"})
    rows = pa.Table.from_pylist([{"key": "a", "n": 0, "value": 1}], schema=other.arrow)
    with pytest.raises(StateRuleBroken, match="columns were changed while the rows were written"):
        ingest_arrow(store, rows, rows_schema=other)  # as when the table was made anew
    assert (store.head().id, on_disk(store)) == (head, before)


def test_a_compaction_that_was_planned_before_loses_no_column(store: StateStore):
    ingest(store, rows_of("a", value="x"))
    ingest(store, rows_of("b", value="y"))
    other = reopened(store)

    class Meanwhile(type(store.storage)):  # type: ignore[misc]
        done = False

        def output(self, path: str) -> Any:
            if not self.done and path.startswith("data/"):
                self.done = True
                altered(other, RenameColumn("value", "text"), add("value"))
                ingest(other, [{"key": "c", "n": 0, "text": "z", "value": "new"}])
            return super().output(path)

    busy = reopened(store, storage=Meanwhile(store.storage.place))
    assert len(compact(busy).snapshots) == 1
    expected = [("a", "x", None), ("b", "y", None), ("c", "z", "new")]
    assert [tuple(row.values()) for row in found(store)] == expected
    compact(store)
    assert [tuple(row.values()) for row in found(store)] == expected


@pytest.fixture(params=STORES)
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    catalog: Any = "memory" if request.param == "DynamoDBStateStore" else "sqlite"
    return Template(tmp_path, request.param, catalog, lambda store: ingest(store, rows_of("a", value="x")))


def test_of_two_alterations_at_once_each_counts_or_is_refused_whole(template: Template):
    def note(stage: Stage, gate: Gate) -> AlterReport:
        return altered(stage.opened(gate), add("note"))

    def rename(stage: Stage, gate: Gate) -> AlterReport:
        return altered(stage.opened(gate), RenameColumn("value", "note"), add("value", "int"))

    winners = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        (lost,) = (name for name, each in outcomes.items() if each.error)  # both want the name
        assert isinstance(outcomes[lost].error, AlreadyExists), outcomes[lost].error
        winners.add(lost)
        store = stage.opened()
        assert store.head().id == 3
        told = next(each.value for each in outcomes.values() if each.value)
        assert told.after == store.load().schema == store.schema(store.head().schema_id)
        schemas = {path for path in on_disk(store) if path.startswith("schema/")}
        assert schemas == {paths.schema(1), paths.schema(store.head().schema_id)}
        assert found(store)[0]["note"] == ("x" if lost == "note" else None)

    assert explore(template.copy, {"note": note, "rename": rename}, check, most_switches=1) > 5
    assert winners == {"note", "rename"}


def test_two_alterations_of_different_columns_at_once_both_count(template: Template):
    def adds(name: str) -> Any:
        return lambda stage, gate: altered(stage.opened(gate), add(name))

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        for each in outcomes.values():
            if each.error:
                raise each.error
        store = stage.opened()
        assert {*store.load().schema.names} == {"key", "n", "value", "one", "two"}
        ids = [s.schema_id for s in store.catalog.snapshots(store.table_id)]
        assert ids == sorted(ids, reverse=True)
        assert len({*ids}) == 3
        for version in store.catalog.snapshots(store.table_id):
            found(store, version)
        assert on_disk(store) >= reachable(store)

    explore(template.copy, {"one": adds("one"), "two": adds("two")}, check, most_switches=1)


def test_alterations_of_many_threads_all_count(store: StateStore):
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda i: altered(store, add(f"c{i}")), range(6)))
    assert len({each.snapshot.schema_id for each in done}) == 6
    assert {*reopened(store).load().schema.names[3:]} == {f"c{i}" for i in range(6)}
    for version in store.catalog.snapshots(store.table_id):
        assert len(reopened(store).load(version).schema.names) == version.id + 2


@pytest.mark.parametrize("kind", ["dies before", "dies after", "loses its answer", "fails"])
def test_an_alteration_that_fails_anywhere_changed_nothing_or_all_and_runs_again(template: Template, kind: str):
    for at in itertools.count(1):
        fault = Fault(kind, at, rival=lambda: None)
        with template.copy() as stage:
            done = None
            with contextlib.suppress(DeadError, StorageError):
                done = altered(stage.opened(fault), add("one"))  # type: ignore[arg-type]
            store = stage.opened()
            assert store.load().schema.names[3:] in ({("one",)} if done else {(), ("one",)})
            assert found(store)[0]["value"] == "x"
            assert reachable(store) <= on_disk(store)
            again = altered(store, add("two"))
            assert again.after.names[-1] == "two"
            assert again.after == reopened(store).load().schema
            assert check_table(store, "table", deep=False, progress=Silent()).ok
        if fault.calls < at:
            break
    assert at > 4


def test_a_schema_that_no_version_names_is_an_orphan_unless_its_id_could_be_given_again(store: StateStore):
    store.storage.write(paths.schema(2), b"of a writer that crashed")
    altered(store, add("note"))
    assert store.head().schema_id == 3
    store.storage.write(paths.schema(4), b"of a writer that may be alive")
    store.clock.sleep(10**8)
    report = check_table(store, "table", deep=False, progress=Silent())
    assert [file.path for file in report.orphans] == [paths.schema(2)]
    assert report.ok
    os.utime(store.storage.locate(paths.schema(2)), (1.7e9, 1.7e9))  # a run goes by the time of the storage
    sweep_orphans(store, "table", older_than=timedelta(days=3), dry_run=False, progress=Silent())
    assert paths.schema(2) not in on_disk(store)
    assert {paths.schema(number) for number in (1, 3, 4)} <= on_disk(store)
    assert altered(store, add("more")).snapshot.schema_id == 5


@pytest.fixture(params=EMBEDDED)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Snapshot 2 has a and b; 3 renames a to n, drops b, and adds b and extra; 4 adds a row with them."""
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", COLUMNS, ["m"], state_store=request.param)
        table.ingest([{"k": "a", "a": 1, "b": "x"}, {"k": "z", "a": 2, "b": None}])
        table.alter({"b": "double?", "extra": "list<int>?"}, {"a": "n"}, ["b"], message="new names")
        table.ingest([{"k": "c", "n": 3, "b": 0.5, "extra": [1, 2]}])
        yield table


OLD = [{"k": "a", "a": 1, "b": "x"}, {"k": "z", "a": 2, "b": None}]
THEN = [{"k": "a", "n": 1, "b": None, "extra": None}, {"k": "z", "n": 2, "b": None, "extra": None}]
NOW = [THEN[0], {"k": "c", "n": 3, "b": 0.5, "extra": [1, 2]}, THEN[1]]


def in_keys(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["k"])


def on_duckdb(scan: Any) -> list[dict[str, Any]]:
    return in_keys(scan.to_duckdb().to_arrow_table())


def test_arrow_and_duckdb_read_each_version_with_its_own_columns_or_those_of_now(table: Any):
    for read in (lambda scan: in_keys(scan.to_arrow()), on_duckdb):
        assert read(table.scan()) == NOW
        assert read(table.scan(version=2)) == OLD
        assert read(table.scan(version=2, schema="current")) == THEN
        assert read(table.at(2, schema="current").scan(["b", "k"])) == [{"b": None, "k": "a"}, {"b": None, "k": "z"}]
        assert read(table.scan(where="n > 1 and b is null")) == NOW[2:]
        assert read(table.scan(where="b > 0 or n = 1", columns=["k", "extra"])) == [
            {"k": "a", "extra": None}, {"k": "c", "extra": [1, 2]},
        ]  # fmt: skip
        table.maintenance.compact("all")


def test_the_schemas_that_versions_have_are_listed(table: Any):
    rows = table.inspect.query("SELECT schema_id, len(fields) AS n FROM schemas ORDER BY 1").to_dict()
    assert rows == {"schema_id": [1, 2], "n": [3, 4]}


def test_footers_count_the_bytes_of_renamed_columns(table: Any):
    whole, part = table.scan().plan().opened.bytes, table.scan(["n"]).plan().opened.bytes
    assert 0 < part < whole


def test_exports_have_the_names_of_the_fields(table: Any, tmp_path: Path):
    table.export(tmp_path / "out.parquet")
    assert in_keys(pa.parquet.read_table(tmp_path / "out.parquet")) == NOW
    table.at(2, schema="current").export(tmp_path / "then.parquet")
    assert in_keys(pa.parquet.read_table(tmp_path / "then.parquet")) == THEN


def test_versions_are_compared_in_the_columns_of_the_newer_one(table: Any):
    assert table.changes(2).added.to_arrow().to_pylist() == [NOW[1]]
    assert table.changes(2).removed.to_arrow().num_rows == 0
    assert table.changes(4, 2).removed.to_arrow().to_pylist() == [NOW[1]]
    for changes in (table.changes(2, 4), table.changes(4, 2)):
        assert "of t · shown with the columns of snapshot 4, because the columns differ · reads" in repr(changes.rows())
    assert "columns" not in repr(table.changes(4).rows())
    table.maintenance.compact("all")
    for a, b in ((2, 3), (4, 5)):
        done = table.diff(a, b)
        assert (done.rows_added, done.rows_removed) == (0, 0)
    assert (table.diff(2).rows_added, table.diff(2).rows_removed) == (1, 0)


def test_a_diff_says_which_columns_were_added_renamed_and_dropped(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table(
            "t", sl.Schema({"k": "int"}, {}, {"a": "int", "b": "int?", "c": "int", "d": "int"})
        )
        table.alter({"note": "string?"}, {"a": "dep_delay"}, ["c"])
        table.alter({"c": "long?"})
        found = table.diff(1)
        told = (
            "column 'a' was renamed to 'dep_delay'", "column 'c' (int) was dropped",
            "column 'note' (string?) was added", "column 'c' (long?) was added",
        )  # fmt: skip
        assert sorted(map(str, found.columns)) == sorted(told)
        assert all(words in repr(found) for words in told)
        assert {"before": "a", "after": "dep_delay", "type_before": "int", "type_after": "int"} in found.to_dict()[
            "columns"
        ]
        back = {str(column) for column in table.diff(3, 1).columns}
        assert back >= {"column 'dep_delay' was renamed to 'a'", "column 'note' (string?) was dropped"}
        assert table.diff(3, 3).columns == ()
        table.alter({f"x{number}": "int?" for number in range(30)})
        assert "20 more columns differ" in repr(table.diff(3))


def test_a_rollback_keeps_the_columns_of_now(table: Any):
    done = table.rollback(2)
    assert "columns are not rolled back: b of snapshot 2 stays dropped" in repr(done)
    assert (in_keys(table.scan().to_arrow()), on_duckdb(table.scan())) == (THEN, THEN)
    assert table.rollback(2).is_nothing
    assert in_keys(table.scan(version=4).to_arrow()) == NOW
    table.maintenance.compact("all")
    assert on_duckdb(table.scan()) == THEN


def test_what_a_table_filters_and_combines_cannot_be_taken_from_it(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        schema = sl.Schema({"k": "string"}, {}, {"at": "timestamp", "n": "int"})
        aged = session.create_table("aged", schema, properties={FILTERS: "ageOff(at,1000)"})
        with pytest.raises(InvalidInput, match=f"'at' is used by the table's {FILTERS}"):
            aged.alter(drop_columns=["at"])
        aged.alter({"note": "string?"}, {"n": "m"})
        summed = session.create_table("summed", schema, properties={AGGREGATIONS: "max(at),sum(n)"})
        with pytest.raises(InvalidInput, match="no aggregation can combine the nulls"):
            summed.alter({"note": "string?"})
        assert summed.at().resolved.version.id == 1


def test_the_command_does_what_python_does(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("trips", COLUMNS)
        table.ingest([{"k": "a", "a": 1, "b": "x"}])
        context = Context("console", connect=sl.connect, session=session)

        def run(line: str) -> Any:
            return COMMANDS.parse_line(line).run(context)

        line = 'alter trips --add-column "note string?" --add-column "p decimal(9, 2) ?" --rename-column a=n'
        assert run(line + " --dry-run").dry_run
        done = run(line + ' --rename-column "b = c" -m why')
        assert done.after.to_dict()["values"] == {"n": "int", "c": "string?", "note": "string?", "p": "decimal(9,2)?"}
        assert (done.snapshot.message, run("scan trips@2").to_dict()["b"]) == ("why", ["x"])
        assert run("scan trips@2 --schema current").to_dict()["c"] == ["x"]
        assert run("scan trips@2 a --schema current").to_dict()["note"] == [None]
        assert "note string?" in repr(run("describe trips@2 --schema current"))
        run(f"export trips@2 {tmp_path}/x.csv --schema current")
        assert (tmp_path / "x.csv").read_text().startswith('"k","n","c","note","p"')
        run("alter trips --drop-column c --drop-column note")
        for wrong, words in (
            ("alter trips", "no change was given\nhint: .*--add-column"),
            ("alter trips --add-column note", 'has no type\nhint: write --add-column "note string\\?"'),
            ("alter trips --add-column ''", "has no type"),
            ("alter trips --add-column 'x int'", 'must be nullable.*\nhint: write "x int\\?"'),
            ("alter trips --rename-column n", "cannot read 'n'\nhint: write --rename-column old=new"),
            ("alter trips --rename-column n=a --rename-column n=b", "'n' is given twice"),
            ("alter trips --drop-column k", "row key 'k' cannot be dropped"),
            ("alter trips --drop-column nn", "no column 'nn'\nhint: "),
        ):
            with pytest.raises(sl.SleeperError, match=words):
                run(wrong)
        with pytest.raises(InvalidInput, match="schema is one of 'own', 'current', not the string 'new'"):
            table.at(2, schema="new")


NARROW = Schema({"k": "string"}, {}, {"i": "int", "j": "int", "f": "float?", "d": "decimal(5,2)", "gone": "int"})
WIDER = Schema({"k": "string"}, {}, {"d": "decimal(9,3)", "f": "double?", "i": "long", "j": "double", "g": "date?"})


def narrow(folder: Path) -> tuple[StateStore, ScanPlan]:
    """Return a plan of a version as one of other types, as there is when a table was made anew with another schema."""
    store = a_store(folder, NARROW)
    ingest(store, [{"k": "a", "i": 2**31 - 1, "j": 7, "f": 0.5, "d": Decimal("1.25"), "gone": 1}])
    return store, plan_scan(replace(store.load(), schema=mapped(NARROW, WIDER)))


def test_a_version_of_narrower_types_is_read_with_those_of_now(tmp_path: Path):
    store, plan = narrow(tmp_path)
    rows = reading.read(plan, store.storage, where=condition("i > 5 and d > 1 and g is null", plan.schema))
    assert rows.schema == WIDER.arrow
    on_duck = relations.relation(Database().connect(), plan, store.storage).to_arrow_table().to_pylist()
    assert on_duck == rows.to_pylist()
    assert [str(value) for value in on_duck[0].values()] == ["a", "1.250", "0.5", "2147483647", "7.0", "None"]


@pytest.mark.spark
def test_spark_reads_what_the_others_read(tmp_path: Path, spark_engine: Any):
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        table = session.create_table("t", COLUMNS, ["m"])
        table.ingest(OLD)
        table.alter({"b": "double?", "extra": "list<int>?"}, {"a": "n"}, ["b"])
        table.bulk_import([NOW[1]])
        assert in_keys(table.scan(version=2).to_spark().toArrow()) == OLD
        assert in_keys(table.scan(version=2, schema="current").to_spark().toArrow()) == THEN
        table.maintenance.compact("all", engine="spark", partition=table.at().partition_tree.leaves[0].id)
        scan = table.scan()
        assert in_keys(scan.to_spark().toArrow()) == in_keys(scan.to_arrow()) == NOW
        for where in ("n > 1 and b is null", "b > 0 or n = 1"):
            assert in_keys(scan.to_spark().where(where).toArrow()) == on_duckdb(table.scan(where=where))


@pytest.mark.spark
def test_spark_reads_a_version_of_narrower_types(tmp_path: Path, spark_engine: Any):
    from sleeper_nb.engines.spark import frames

    store, plan = narrow(tmp_path)
    rows = frames.data_frame(spark_engine.session(), plan, store.storage).where("i > 5").toArrow()
    assert rows.cast(WIDER.arrow).to_pylist() == reading.read(plan, store.storage).to_pylist()
