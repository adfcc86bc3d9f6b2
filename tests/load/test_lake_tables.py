"""Tables of Delta and Iceberg as sources: the rows, types and NULLs of a version, in every door, a batch at a time."""

from __future__ import annotations

import os
import shutil
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import FixedType, LongType, NestedField, StringType, TimestampType, UUIDType

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound, NotInstalled
from sleeper_nb.load import bulk_load
from sleeper_nb.load.delta_tables import DeltaReader
from sleeper_nb.load.iceberg_tables import IcebergReader
from sleeper_nb.load.lake_tables import LakeTable, open_lake_table
from sleeper_nb.loadable import columns_of, is_loadable
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.predicate import And, Comparison, IsIn, IsNull, Or
from tests.servers.fixtures import use
from tests.servers.server import Server
from tests.support import lakes

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "k": pa.array(range(6), pa.int64()),
        "i": pa.array([1, None, 3, 4, 5, 6], pa.int32()),
        "s": ["a", None, "", "é", "x'y", '"'],
        "x": pa.array([1.5, None, float("nan"), -0.0, 1e300, 2]),
        "b": [True, None, False, True, False, True],
        "d": [date(2026, 1, 1), None, date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(2000, 2, 29)],
        "t": pa.array([NOON, None, NOON, NOON, NOON, NOON], pa.timestamp("us", "UTC")),
        "n": pa.array([Decimal("1.25"), None, *map(Decimal, ("-9999999.99", "0", "7", "8"))], pa.decimal128(9, 2)),
        "y": pa.array([b"\0\xff", None, b"", b"a", b"b", b"c"], pa.binary()),
        "l": pa.array([[1, None], None, [], [2], [3], [4]], pa.list_(pa.int64())),
        "m": pa.array([[("a", 1)], None, [], [("b", None)], [], []], pa.map_(pa.string(), pa.int64())),
        "o": pa.array([{"p": 1, "q": "z"}, None, {"p": None, "q": None}, *[{"p": 2, "q": ""}] * 3]),
    }
)
LEFT = [0, 2, 4, 5]
"""The rows that are not deleted."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("lakes")
    delta = lakes.delta_table(folder / "delta", ROWS)
    lakes.delete_rows_of_delta(folder / "delta", [1, 3])
    table = lakes.iceberg_table(folder / "iceberg", ROWS.slice(0, 2), ROWS.slice(2))
    tagged = table.current_snapshot()
    assert tagged is not None
    table.manage_snapshots().create_tag(tagged.snapshot_id, "whole").commit()
    files = {task.file.record_count: at for at, task in enumerate(table.scan().plan_files())}
    lakes.delete_rows_of_iceberg(table, {files[2]: [1], files[4]: [1]})
    return {"delta": delta, "iceberg": lakes.address_of(table)}


@pytest.fixture
def lake(made: dict[str, str], request: pytest.FixtureRequest) -> str:
    return made[request.param]


both = pytest.mark.parametrize("lake", ["delta", "iceberg"], indirect=True)


def rows_of(table: sl.Table) -> pa.Table:
    return table.scan().to_arrow().sort_by("k")


def texts(rows: pa.Table) -> list[str]:
    return [
        str(row) for row in rows.sort_by("k").select(ROWS.column_names).to_pylist()
    ]  # NaN is no value that is equal


def whole(lake: str) -> str:
    return f"{lake}@0" if lake.startswith("delta") else f"{lake}@whole"


DOORS: dict[str, Callable[[sl.Table, Any], Any]] = {
    "ingest": lambda table, data: table.ingest(data),
    "quarantine": lambda table, data: table.ingest(data, quarantine="kept.parquet"),
    "bulk_import": lambda table, data: table.bulk_import(data, engine="local"),
    "upsert": lambda table, data: table.upsert(data),
    "merge": lambda table, data: table.merge(data).when_not_matched_insert_all().execute(),
    "overwrite": lambda table, data: table.overwrite(data, force=True),
}


@both
@pytest.mark.parametrize("door", DOORS)
def test_every_door_loads_the_rows_of_a_version(tmp_path: Path, lake: str, door: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", data=lake, row_keys=["k"])
        assert texts(rows_of(table)) == texts(ROWS.take(LEFT))
        table.delete(force=True)
        DOORS[door](table, lake)
        assert texts(rows_of(table)) == texts(ROWS.take(LEFT))
        table.delete(force=True)
        DOORS[door](table, whole(lake))
        assert texts(rows_of(table)) == texts(ROWS)
        plan = table.ingest([lake, whole(lake)], dry_run=True).plan
        assert plan is not None
        assert plan.rows == len(LEFT) + ROWS.num_rows


@both
def test_a_new_table_has_the_types_and_nullability_of_the_version(tmp_path: Path, lake: str):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", data=lake, row_keys=["k"])
        types = {each.name: str(each.type) + "?" * each.nullable for each in table.schema.fields}
    assert types == {
        "k": "long", "i": "int?", "s": "string?", "x": "double?", "b": "boolean?", "d": "date?", "t": "timestamp?",
        "n": "decimal(9,2)?", "y": "bytearray?", "l": "list<long>?", "m": "map<string,long>?",
        "o": "struct<p:long?,q:string?>?",
    }  # fmt: skip


def test_columns_of_an_iceberg_table_are_found_by_their_ids(tmp_path: Path):
    structs = pa.array([{"p": 1, "q": "z"}, None, {"p": 2, "q": None}])
    rows = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "a": ["x", "y", None], "o": structs})
    table = lakes.iceberg_table(tmp_path / "i", rows)
    before = table.current_snapshot()
    assert before is not None
    with table.update_schema() as change:
        change.rename_column("a", "b")
        change.rename_column("o.p", "r")
        change.delete_column("o.q")
        change.update_column("k", LongType())
    with table.update_schema() as change:
        change.add_column("a", StringType())
        change.add_column(("o", "q"), StringType())
    table.append(
        pa.table({"k": [4], "b": ["new"], "o": [{"r": 9, "q": "n"}], "a": ["again"]}).cast(table.schema().as_arrow())
    )
    found = open_lake_table(lakes.address_of(table)).to_arrow().sort_by("k").to_pylist()
    assert found == [
        {"k": 1, "b": "x", "o": {"r": 1, "q": None}, "a": None},
        {"k": 2, "b": "y", "o": None, "a": None},
        {"k": 3, "b": None, "o": {"r": 2, "q": None}, "a": None},
        {"k": 4, "b": "new", "o": {"r": 9, "q": "n"}, "a": "again"},
    ]
    then = open_lake_table(f"{lakes.address_of(table)}@{before.snapshot_id}")
    assert (then.schema, then.to_arrow().to_pylist()) == (rows.schema, rows.to_pylist())


def test_types_that_only_other_formats_have_are_mapped(tmp_path: Path):
    rows = pa.table({
        "k": pa.array([1, 2], pa.int16()),
        "b": pa.array([-128, None], pa.int8()),
        "n": pa.array([datetime(2026, 1, 1), None], pa.timestamp("us")),  # noqa: DTZ001 - it has no zone
    })  # fmt: skip
    fields = NestedField(1, "k", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(2))
    kinds = IcebergSchema(*fields, NestedField(4, "n", TimestampType()))
    table = lakes.iceberg_table(tmp_path / "i", schema=kinds)
    wide = {"k": [1], "u": pa.array([UUID(int=5).bytes], pa.uuid()), "f": pa.array([b"ab"], pa.binary(2))}
    table.append(pa.table({**wide, "n": rows["n"].slice(0, 1)}))
    with sl.connect(tmp_path / "w") as session:
        delta = session.create_table("d", data=lakes.delta_table(tmp_path / "d", rows), row_keys=["k"])
        iceberg = session.create_table("i", data=lakes.address_of(table), row_keys=["k"])
        assert [str(each.type) for each in delta.schema.fields] == ["int", "tinyint", "timestamp"]
        assert [str(each.type) for each in iceberg.schema.fields] == ["long", "uuid", "bytearray", "timestamp"]
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        assert [row["n"] for row in rows_of(delta).to_pylist()] == [moment, None]
        assert rows_of(iceberg).to_pylist() == [{"k": 1, "u": str(UUID(int=5)), "f": b"ab", "n": moment}]
        call = f"iceberg('{tmp_path}/i/n/t')"
        found = session.sql(f"SELECT typeof(u), u::VARCHAR, f, n FROM {call}", engine="duckdb").to_arrow().to_pylist()
        assert list(found[0].values()) == ["UUID", str(UUID(int=5)), b"ab", moment]


def test_files_without_ids_and_columns_are_read_by_the_mapping_of_names(tmp_path: Path):
    rows = pa.table({"k": [1, 2], "a": ["x", None]})
    table = lakes.iceberg_table(tmp_path / "i", rows)
    pq.write_table(pa.table({"k": [3], "a": ["y"]}), tmp_path / "added.parquet")
    table.add_files([f"file://{tmp_path}/added.parquet"])
    with table.update_schema() as change:
        change.rename_column("a", "b")
        change.add_column("c", StringType())
    found = open_lake_table(lakes.address_of(table))
    assert [row["b"] for row in found.to_arrow().sort_by("k").to_pylist()] == ["x", None, "y"]
    assert pa.Table.from_batches(found.all_batches(["c"])).to_pylist() == [{"c": None}] * 3


def test_deletion_vectors_of_iceberg_are_applied(tmp_path: Path):
    table = lakes.iceberg_table(tmp_path / "i", pa.table({"k": range(100_000)}))
    found = open_lake_table(lakes.address_of(table))
    (file,) = found.parts()
    assert file is not None
    lakes.deletion_vector(tmp_path / "dv", file.address, [0, 65_535, 65_536, 99_999])
    batches = found.batches(replace(file, deletes=(str(tmp_path / "dv"),)))
    left = pa.Table.from_batches(batches)["k"].to_pylist()
    assert left == [k for k in range(100_000) if k not in {0, 65_535, 65_536, 99_999}]


def test_metadata_that_name_files_of_the_operating_system_are_refused(made: dict[str, str], tmp_path: Path):
    found = open_lake_table(made["iceberg"])
    file = found.parts()[0]
    assert file is not None
    (tmp_path / "link.parquet").symlink_to("/proc/self/environ")
    named = "file:///proc/self/environ", f"file://{tmp_path}/link.parquet"
    changed = [replace(file, address=each) for each in named] + [replace(file, deletes=named[:1])]
    for each in changed:
        with pytest.raises(InvalidInput, match=r"the Iceberg table names .*, a file of the operating system"):
            list(found.batches(each))


def test_columns_of_a_delta_table_have_their_new_names(tmp_path: Path):
    address = lakes.delta_table(tmp_path / "d", pa.table({"k": [1, 2], "a": ["x", None]}))
    lakes.rename_column_of_delta(tmp_path / "d", "a", "b")
    found = open_lake_table(address)
    assert found.schema.names == ["k", "b"]
    assert found.to_arrow().sort_by("k").to_pylist() == [{"k": 1, "b": "x"}, {"k": 2, "b": None}]
    assert open_lake_table(f"{address}@0").schema.names == ["k", "a"]


def test_partitions_give_values_to_files_without_the_column(tmp_path: Path):
    rows = pa.table({"k": [1, 2, 3], "p": ["a", "b", None]})
    address = lakes.delta_table(tmp_path / "d", rows, partition_by=["p"])
    assert open_lake_table(address).to_arrow().sort_by("k").to_pylist() == rows.to_pylist()


CONDITIONS = {
    "equal": (Comparison("k", "=", 3), lambda row: row["k"] == 3),
    "less": (Comparison("k", "<", 2), lambda row: row["k"] < 2),
    "text": (Comparison("s", ">=", "x'y"), lambda row: (row["s"] or "") >= "x'y"),
    "list": (IsIn("s", ("é", '"')), lambda row: row["s"] in {"é", '"'}),
    "null": (IsNull("i"), lambda row: row["i"] is None),
    "date": (Comparison("d", ">", date(2026, 1, 1)), lambda row: (row["d"] or date.min) > date(2026, 1, 1)),
    "time": (Comparison("t", ">=", NOON), lambda row: row["t"] is not None),
    "late": (Comparison("t", ">", NOON), lambda _: False),
    "nan": (Comparison("x", ">", 1e301), lambda row: row["x"] != row["x"]),
    "or": (Or((Comparison("k", "=", 0), And((Comparison("k", ">", 3), IsNull("i"))))), lambda row: row["k"] == 0),
    "none": (Or(()), lambda _: False),
}


@both
@pytest.mark.parametrize("name", CONDITIONS)
def test_no_row_that_meets_a_predicate_is_lost(lake: str, name: str):
    predicate, meets = CONDITIONS[name]
    table = open_lake_table(whole(lake))
    found = {row["k"] for batch in table.all_batches(["k"], predicate) for row in batch.to_pylist()}
    assert {row["k"] for row in ROWS.to_pylist() if meets(row)} <= found


def test_predicates_choose_files_and_rows(made: dict[str, str]):
    iceberg, delta = (open_lake_table(whole(made[kind])) for kind in ("iceberg", "delta"))
    assert [len(iceberg.parts(Comparison("k", op, 1))) for op in ("=", ">", "<", ">=")] == [1, 1, 1, 2]  # type: ignore[arg-type]
    assert len(iceberg.parts(Comparison("s", "=", "éé"))) == 0
    assert pa.Table.from_batches(delta.all_batches(["s"], Comparison("k", "=", 3))).to_pylist() == [{"s": "é"}]


class Counted:
    """Counts the batches of lake tables that are in memory."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0

    def tracked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            weakref.finalize(batch, self.drop)
            self.now, self.all = self.now + 1, self.all + 1
            self.most = max(self.most, self.now)
            yield batch

    def drop(self) -> None:
        self.now -= 1


def test_a_file_of_deletes_names_its_data_files_once_in_memory(tmp_path: Path):
    rows = 200_000
    table = lakes.iceberg_table(tmp_path / ("long" * 50), pa.table({"k": range(rows)}))
    lakes.delete_rows_of_iceberg(table, {0: range(0, rows, 2)})
    found = open_lake_table(lakes.address_of(table))
    before, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        left = sum(batch.num_rows for batch in found.all_batches())
    finally:
        pa.set_memory_pool(before)
    assert left == rows // 2
    paths = rows // 2 * len(str(tmp_path))
    assert 0 < (counted.max_memory() or 0) < paths


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_bulk_load_holds_a_few_batches(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    rows = pa.table({"k": pa.array(range(1_000_000))})
    if kind == "delta":
        address = lakes.delta_table(tmp_path / "d", rows)
    else:
        table = lakes.iceberg_table(tmp_path / "i", rows)
        lakes.delete_rows_of_iceberg(table, {0: range(0, 1_000_000, 10)})
        address = lakes.address_of(table)
    counted, reader = Counted(), DeltaReader if kind == "delta" else IcebergReader
    given = reader.batches
    monkeypatch.setattr(reader, "batches", lambda *a, **o: counted.tracked(given(*a, **o)))
    monkeypatch.setattr(bulk_load, "slice_bytes", lambda _: 1 << 20)
    with sl.connect(tmp_path / "w") as session:
        loaded = session.create_table("t", Schema({"k": "long"}))
        loaded.bulk_import(address, engine="local")
        assert loaded.scan().count() == (1_000_000 if kind == "delta" else 900_000)
    assert counted.all > 10
    assert counted.most <= 2 + 2 * bulk_load.threads_of_machine()


def test_objects_of_the_libraries_are_sources_at_the_version_that_they_have_loaded(tmp_path: Path):
    rows = pa.table({"k": [1, 2]})
    lakes.delta_table(tmp_path / "d", rows, rows)
    table = lakes.iceberg_table(tmp_path / "i", rows)
    with sl.connect(tmp_path / "w") as session:
        loaded = session.create_table("t", data=DeltaTable(tmp_path / "d", version=0), row_keys=["k"])
        loaded.ingest([table, rows])
        assert loaded.scan().count() == 6
    assert is_loadable(table)
    assert columns_of(table) == columns_of(f"delta:{tmp_path}/d") == ("k",)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("@9", "has no version 9\nhint: its newest is 1"),
        ("@x", "'x' is no version of a Delta table\nhint: write its number: delta:PATH@12"),
        ("/nowhere", "no Delta table at .*/nowhere\nhint: give the folder that has a folder _delta_log"),
    ],
)
def test_what_is_no_delta_table_or_version_is_said(made: dict[str, str], tail: str, said: str):
    with pytest.raises((InvalidInput, NotFound), match=said):
        open_lake_table(made["delta"] + tail)


def test_what_is_no_iceberg_table_or_version_is_said(made: dict[str, str], tmp_path: Path):
    with pytest.raises(NotFound, match=r"no tag, branch or snapshot 'hole' of .*\nhint: did you mean 'whole'\?"):
        open_lake_table(f"{made['iceberg']}@hole")
    with pytest.raises(NotFound, match=f"no Iceberg table at {tmp_path}"):
        open_lake_table(f"iceberg:{tmp_path}")
    copied = tmp_path / "copied"
    shutil.copytree(made["iceberg"].removeprefix("iceberg:"), copied)
    newest = copied / "metadata" / "00099-by-hand.metadata.json"
    shutil.copy(newest, newest.with_name("00099-other.metadata.json"))
    with pytest.raises(InvalidInput, match="has 2 files with its newest metadata\nhint: name the right one: iceberg:"):
        open_lake_table(f"iceberg:{copied}")
    assert open_lake_table(f"iceberg:{newest}").to_arrow().num_rows == len(LEFT)
    (copied / "metadata" / "version-hint.text").write_text("00099-by-hand.metadata.json")
    assert open_lake_table(f"iceberg:{copied}").to_arrow().num_rows == len(LEFT)


def test_metadata_below_the_folder_of_metadata_are_not_the_tables(made: dict[str, str], tmp_path: Path):
    copied = tmp_path / "copied"
    shutil.copytree(made["iceberg"].removeprefix("iceberg:"), copied)
    (copied / "metadata" / "backup").mkdir()
    (copied / "metadata" / "backup" / "00100-later.metadata.json").write_text("{}")
    assert open_lake_table(f"iceberg:{copied}").to_arrow().num_rows == len(LEFT)


@pytest.mark.parametrize(
    ("hint", "rows"),
    [("7", 4), ("00099-by-hand.metadata.json", 4), ("00099-by-hand", 4), ("v7.metadata.json", 4), ("8", 0), ("", 0)],
)
def test_a_version_hint_names_the_metadata_or_the_table_is_refused(
    made: dict[str, str], tmp_path: Path, hint: str, rows: int
):
    copied = tmp_path / "copied"
    shutil.copytree(made["iceberg"].removeprefix("iceberg:"), copied)
    metadata = copied / "metadata"
    shutil.copy(metadata / "00099-by-hand.metadata.json", metadata / "v7.metadata.json")
    (metadata / "version-hint.text").write_text(f"{hint}\n")
    if rows:
        assert open_lake_table(f"iceberg:{copied}").to_arrow().num_rows == rows
    else:
        problem = f"version-hint.text of {copied} names '{hint}', and there is no such metadata"
        with pytest.raises(InvalidInput, match=rf"{problem}\nhint: name the right one: iceberg:.*/00099-by-hand"):
            open_lake_table(f"iceberg:{copied}")


def test_checkpoints_of_version_2_are_read(tmp_path: Path):
    address = lakes.delta_table(tmp_path / "d", pa.table({"k": [1, 2]}), pa.table({"k": [3]}))
    lakes.commit_delta(tmp_path / "d", lakes.protocol("v2Checkpoint"))
    lakes.checkpoint_delta(tmp_path / "d")
    lakes.delta_table(tmp_path / "d", pa.table({"k": [4]}))
    assert sorted(open_lake_table(address).to_arrow()["k"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(open_lake_table(f"{address}@2").to_arrow()["k"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ("typeWidening", "typeWidening"),
        ("vacuumProtocolCheck", "vacuumProtocolCheck"),
        ("variantType", "variantType"),
        ("somethingNew", "'somethingNew' is not supported"),
        ("catalogManaged", "catalog-managed"),
    ],
)
def test_reader_features_that_are_not_understood_are_refused(tmp_path: Path, feature: str, said: str):
    address = lakes.delta_table(tmp_path / "d", pa.table({"k": [1, 2]}))
    lakes.commit_delta(tmp_path / "d", lakes.protocol(feature, "deletionVectors"))
    with pytest.raises(InvalidInput, match=rf"needs reader features that are not understood: .*{said}"):
        open_lake_table(address)


def test_equality_deletes_are_refused(tmp_path: Path):
    table = lakes.iceberg_table(tmp_path / "i", pa.table({"k": [1, 2]}))
    lakes.delete_rows_of_iceberg(table, {0: [1]}, equality=True)
    with pytest.raises(InvalidInput, match=r"has equality deletes, which are not read\nhint: compact it"):
        open_lake_table(lakes.address_of(table))


@pytest.mark.parametrize(("kind", "module"), [("delta", "deltalake"), ("iceberg", "pyiceberg.io")])
def test_a_missing_library_is_one_line(made: dict[str, str], kind: str, module: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "sleeper_nb.load.iceberg_files", raising=False)
    with pytest.raises(NotInstalled, match=rf'needs packages .*\nhint: pip install "sleeper-nb\[{kind}\]"'):
        open_lake_table(made[kind])


def test_a_folder_may_have_an_at_in_its_name(tmp_path: Path):
    address = lakes.delta_table(tmp_path / "a@1", pa.table({"k": [1]}))
    assert [open_lake_table(f"{address}{tail}").label for tail in ("", "@0")] == [address, f"{address}@0"]
    assert isinstance(open_lake_table(f"{address}@0"), LakeTable)


def test_addresses_of_files_are_decoded_and_paths_are_not(tmp_path: Path):
    rows = pa.table({"k": [1, 2]})
    lakes.delta_table(tmp_path / "a b@1", rows)
    table = lakes.iceberg_table(tmp_path / "a%20b", rows)
    delta, iceberg = f"{tmp_path.as_uri()}/a%20b%401", f"{tmp_path.as_uri()}/a%2520b/n/t"
    for address in (f"delta:{delta}", f"delta:{delta}@0", f"iceberg:{iceberg}", lakes.address_of(table)):
        assert open_lake_table(address).to_arrow() == rows
    with sl.connect(tmp_path / "w") as session:
        session.create_table("t", data=[DeltaTable(tmp_path / "a b@1"), table], row_keys=["k"])
        counts = f"SELECT (SELECT count(*) FROM delta('{delta}')), count(*) FROM iceberg('{iceberg}')"
        assert list(session.sql(counts).to_arrow().to_pylist()[0].values()) == [2, 2]
        assert session.table("t").scan().count() == 4


def test_commands_take_such_tables(made: dict[str, str], shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for line in (
        "use ./w",
        f"create t --from {whole(made['iceberg'])} --keys k",
        f"upsert t {made['delta']}",
        f"ingest t {made['iceberg']} --job-id once",
    ):
        shell.run_line_magic("sleeper", line)
    answer = shell.run_line_magic("sleeper", f"ingest t {made['delta']} --dry-run")
    assert "would add 4 rows" in repr(answer)
    with sl.connect(tmp_path / "w") as session:
        assert session.table("t").scan().count() == ROWS.num_rows + len(LEFT)


@pytest.mark.moto
def test_tables_in_a_bucket_are_read_by_the_connection_of_the_warehouse(moto: Server, monkeypatch: pytest.MonkeyPatch):
    use(moto, monkeypatch)
    bucket, rows = moto.new_bucket(), pa.table({"k": [1, 2], "s": ["a", None]})
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    options = {"AWS_ENDPOINT_URL": moto.endpoint_url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    delta = lakes.delta_table(f"s3://{bucket}/d", rows, storage_options=options)  # type: ignore[arg-type]
    catalog = SqlCatalog(
        "c",
        **{
            "uri": "sqlite:///:memory:", "warehouse": f"s3://{bucket}/i", "s3.endpoint": moto.endpoint_url,
            "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": "us-east-1",
        },
    )  # fmt: skip
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    instance = bucket[-20:].strip("-")
    with sl.connect(f"s3://{bucket}/house", instance, endpoint_url=moto.endpoint_url) as session:
        loaded = session.create_table("t", data=delta, row_keys=["k"])
        loaded.upsert(f"iceberg:{table.location()}")
        loaded.ingest(f"iceberg:{table.metadata_location}")
        assert loaded.scan().count() == 4
        counts = f"SELECT (SELECT count(*) FROM delta('s3://{bucket}/d')), count(s) FROM iceberg('{table.location()}')"
        assert list(session.sql(counts).to_arrow().to_pylist()[0].values()) == [2, 1]
