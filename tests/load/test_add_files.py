"""Files that were there before are read where they are, and stay whatever happens to the table."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotAllowed, NotFound, StorageError, hint_text
from tests.support.builders import START

SCHEMA = sl.Schema({"city": "string", "n": "int"}, {"ts": "long"}, {"fare": "double?", "note": "string?"})
ARROW = pa.schema(
    [("city", pa.string()), ("n", pa.int32()), ("ts", pa.int64()), ("fare", pa.float64()), ("note", pa.string())]
)
CITIES = ["athens", "bern", "lima", "oslo", "rome"]


def rows(first: int = 0, count: int = 20) -> pa.Table:
    """Rows sorted by city, n and ts, in all cities."""
    made = [(city, n, first + n, n / 2, f"{city}{n}") for city in CITIES for n in range(count)]
    return pa.table(list(map(list, zip(*made, strict=True))), schema=ARROW)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder outside the warehouse with two sorted files."""
    folder = tmp_path / "lake" / "city=nowhere"
    folder.mkdir(parents=True)
    pq.write_table(rows(), folder / "a.parquet", row_group_size=30)
    pq.write_table(rows(100), folder / "b.parquet")
    return tmp_path / "lake"


@pytest.fixture
def session(tmp_path: Path, lake: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "house", data_paths=[lake], clock=ManualClock(START)) as opened:
        opened.create_table("t", SCHEMA, split_points=["c", "p"])
        yield opened


def expected(*parts: pa.Table) -> list[dict[str, object]]:
    order = [(name, "ascending") for name in ("city", "n", "ts")]
    return pa.concat_tables(parts).sort_by(order).to_pylist()


def content(table: object) -> list[dict[str, object]]:
    return expected(table.scan().to_arrow().cast(ARROW))  # type: ignore[attr-defined]


def files_in(lake: Path) -> list[str]:
    return sorted(path.name for path in lake.rglob("*.parquet"))


def test_files_become_references_of_each_leaf_without_a_copy(session, lake, tmp_path):
    table = session.table("t")
    plan = table.add_files(lake, dry_run=True).plan
    assert (plan.files, plan.rows, plan.refused) == (2, 200, ())
    assert [leaf.rows for leaf in plan.leaves] == [80, 80, 40]
    assert table.at().resolved.snapshot_id == plan.snapshot_id
    table.add_files(lake, message="the lake")
    assert content(table) == expected(rows(), rows(100))
    assert not list((tmp_path / "house").rglob("data/**/*.parquet"))
    state = table._store.load()
    assert sorted(state.files.active["rows"].to_pylist()) == [20, 20, 40, 40, 40, 40]
    assert state.totals().rows == 200


@pytest.mark.parametrize("statement", [
    "select city, n, ts, fare, note from t",
    "select city, n, ts, fare, note from t where city >= ''",
])  # fmt: skip
def test_duckdb_reads_them_and_no_folder_becomes_a_column(session, lake, statement):
    session.table("t").add_files(lake)
    assert expected(session.sql(statement, engine="duckdb").to_arrow().cast(ARROW)) == expected(rows(), rows(100))
    (count,) = session.sql("select count(*) as n from t where city = 'lima' and n < 3", engine="duckdb").to_arrow()["n"]
    assert count.as_py() == 6


@pytest.mark.spark
def test_spark_reads_them(session, lake, spark_engine):
    session.table("t").add_files(lake)
    found = session.sql("select city, n, ts, fare, note from t", engine="spark").to_arrow().cast(ARROW)
    assert expected(found) == expected(rows(), rows(100))


def test_compaction_writes_its_own_file_and_the_files_stay(session, lake):
    table = session.table("t")
    table.add_files(lake)
    table.create_savepoint("first")
    table.maintenance.compact("all", engine="local")
    assert content(table) == expected(rows(), rows(100))
    assert not any(name.startswith("/") for name in table._store.load().files.active["filename"].to_pylist())
    assert content(table.at("first")) == expected(rows(), rows(100))
    assert files_in(lake) == ["a.parquet", "b.parquet"]


def test_other_libraries_read_them(session, lake):
    table = session.table("t")
    table.add_files(lake)
    assert expected(table.scan().to_dataset().to_table().cast(ARROW)) == expected(rows(), rows(100))
    assert expected(table.scan().to_polars().to_arrow().cast(ARROW)) == expected(rows(), rows(100))
    assert session.sql("select max(n), count(*) as c from t", engine="duckdb").to_arrow()["c"].to_pylist() == [200]


def test_hidden_files_of_a_folder_are_not_added_and_said(session, lake):
    table = session.table("t")
    for file in [*lake.rglob("*.parquet")][1:]:
        file.rename(file.with_name(f"_{file.name}"))
    text = "1 file left out, as its name or folder begins with . or _"
    for report in (table.add_files(lake, dry_run=True), table.add_files(lake)):
        assert repr(report).count(text) == 1
    assert len(content(table)) == 100


def test_an_added_file_is_added_once(session, lake):
    table = session.table("t")
    table.add_files(lake / "city=nowhere/a.parquet")
    with pytest.raises(AlreadyExists):
        table.add_files(lake)
    with pytest.raises(InvalidInput, match="named twice"):
        table.add_files([lake / "city=nowhere/b.parquet", str(lake / "*/b.parquet")])
    assert content(table) == expected(rows())


def test_a_job_id_adds_once(session, lake):
    table = session.table("t")
    first = table.add_files(lake, job_id="lake")
    again = table.add_files(lake, job_id="lake")
    assert again.snapshot_id == first.snapshot_id
    assert content(table) == expected(rows(), rows(100))


def changed(kind: str) -> pa.Table:
    made = rows()
    return {
        "unsorted": made.take(list(reversed(range(len(made))))),
        "unsorted later": pa.concat_tables([made, made]),
        "unsorted sort key": made.set_column(2, "ts", pa.array([100 - i for i in range(len(made))], pa.int64()))
        .set_column(1, "n", pa.array([1] * len(made), pa.int32())),
        "other type": made.set_column(1, "n", made["n"].cast(pa.int64())),
        "no column": made.drop_columns(["fare"]),
        "more columns": made.append_column("more", made["n"]),
        "other order": made.select(["n", "city", "ts", "fare", "note"]),
        "null key": made.set_column(1, "n", pa.array([None, *made["n"].to_pylist()[1:]], pa.int32())),
        "nan": made.set_column(3, "fare", pa.array([float("nan")] * 50 + [1.0] * 50)),
    }[kind]  # fmt: skip


@pytest.mark.parametrize(("kind", "problem"), [
    ("unsorted", "is not sorted by city, n, ts"),
    ("unsorted later", "is not sorted by city, n, ts"),
    ("unsorted sort key", "is not sorted by city, n, ts"),
    ("other type", "has int64 in column 'n', not int32"),
    ("no column", "has no column 'fare'"),
    ("more columns", "has column 'more'"),
    ("other order", "has its columns in another order"),
    ("null key", "has nulls in column 'n'"),
    ("nan", "has NaN in column 'fare'"),
])  # fmt: skip
@pytest.mark.parametrize("statistics", [True, False])
def test_what_does_not_fit_is_refused_before_anything_changes(session, lake, kind, problem, statistics):
    if kind == "nan" and not statistics:
        pytest.skip("without statistics nothing misleads a reader")
    pq.write_table(changed(kind), lake / "c.parquet", row_group_size=40, write_statistics=statistics)
    table = session.table("t")
    before = table.at().resolved.snapshot_id
    plan = table.add_files(lake, dry_run=True).plan
    (refusal,) = plan.refused
    assert refusal.problem.startswith(problem)
    assert refusal.files == (str(lake / "c.parquet"),)
    assert problem in repr(plan)
    with pytest.raises(InvalidInput, match="1 of 3 files cannot be added, so none was") as error:
        table.add_files(lake)
    assert problem in error.value.message
    assert table.at().resolved.snapshot_id == before


def test_problems_are_grouped(session, lake):
    for name in "xyz":
        pq.write_table(changed("other type"), lake / f"{name}.parquet")
    (lake / "text.parquet").write_text("no parquet")
    with pytest.raises(InvalidInput) as error:
        session.table("t").add_files(lake)
    assert f"3 files, such as {lake}/x.parquet: each has int64 in column 'n'" in error.value.message
    assert "text.parquet cannot be read as Parquet" in error.value.message


def test_unsorted_files_are_copied_when_asked(session, lake):
    pq.write_table(changed("unsorted"), lake / "c.parquet")
    table = session.table("t")
    with pytest.raises(InvalidInput) as error:
        table.add_files(lake / "c.parquet")
    assert "copy=True" in error.value.hint
    table.add_files(lake / "c.parquet", copy=True)
    assert content(table) == expected(rows())
    assert table.maintenance.check(deep=True).ok


def test_a_folder_must_be_allowed_now_and_later(tmp_path, lake):
    with sl.connect(tmp_path / "house") as session:
        table = session.create_table("t", SCHEMA)
        with pytest.raises(NotAllowed, match=r"a\.parquet is outside the warehouse") as error:
            table.add_files(lake)
        assert f'data_paths=["{lake}' in error.value.hint
        session.allow(data_paths=[lake])
        session.table("t").add_files(lake)
    with sl.connect(tmp_path / "house") as session:
        for read in (
            lambda: session.table("t").scan().to_arrow(),
            lambda: session.sql("select * from t", engine="duckdb").to_arrow(),
            lambda: session.table("t").maintenance.compact("all", engine="local"),
        ):
            with pytest.raises(NotAllowed):
                read()
        assert "was not checked" in repr(session.table("t").maintenance.check())


def test_a_link_does_not_lead_out_of_an_allowed_folder(tmp_path, session, lake):
    secret = tmp_path / "secret.parquet"
    pq.write_table(rows(), secret)
    (lake / "link.parquet").symlink_to(secret)
    with pytest.raises(NotAllowed, match=r"secret\.parquet"):
        session.table("t").add_files(lake)


@pytest.mark.parametrize("damage", ["changed", "shorter", "gone"])
def test_a_file_that_was_changed_is_noticed(session, lake, damage):
    table = session.table("t")
    table.add_files(lake)
    path = lake / "city=nowhere/a.parquet"
    if damage == "changed":
        os.utime(path, ns=(1, 1))
    elif damage == "shorter":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        path.unlink()
    for read in (
        lambda: table.scan().to_arrow(),
        lambda: session.sql("select sum(fare) from t", engine="duckdb").to_arrow(),
        lambda: table.maintenance.compact("all", engine="local"),
    ):
        with pytest.raises(NotFound if damage == "gone" else StorageError, match=r"a\.parquet"):
            read()
    for deep in (False, True):
        report = table.maintenance.check(deep=deep)
        assert not report.ok
        assert "a.parquet" in repr(report)


def test_check_export_and_diff_read_them(session, lake, tmp_path):
    table = session.table("t")
    before = table.at().resolved.snapshot_id
    added = table.add_files(lake)
    assert table.maintenance.check(deep=True).ok
    table.scan().export(tmp_path / "all.parquet")
    assert expected(pq.read_table(tmp_path / "all.parquet").cast(ARROW)) == expected(rows(), rows(100))
    assert table.changes(before, added.snapshot_id).count().added == 200


def test_garbage_collection_forgets_them_and_they_stay(tmp_path, lake):
    clock = ManualClock(START)
    with sl.connect(tmp_path / "house", data_paths=[lake], clock=clock) as session:
        table = session.create_table("t", SCHEMA, split_points=["c", "p"])
        table.add_files(lake)
        table.maintenance.compact("all", engine="local")
        clock.advance(timedelta(days=60))
        table.maintenance.expire(dry_run=False, num_retained_min=1, time_retained=timedelta(0))
        report = table.maintenance.collect_garbage(dry_run=False)
        assert len(report.forgotten) == 2
        assert report.data_files == ()
        assert files_in(lake) == ["a.parquet", "b.parquet"]
        assert not table._store.load().files.knows(str(lake / "city=nowhere/a.parquet"))
        assert content(table) == expected(rows(), rows(100))
        table.add_files(lake / "city=nowhere/a.parquet")
        assert content(table) == expected(rows(), rows(), rows(100))


@pytest.mark.parametrize("end", ["delete", "reinitialise", "rollback", "sweep"])
def test_nothing_deletes_them(tmp_path, lake, end):
    clock = ManualClock(START)
    with sl.connect(tmp_path / "house", data_paths=[lake], clock=clock) as session:
        table = session.create_table("t", SCHEMA)
        first = table.at().resolved.snapshot_id
        table.add_files(lake)
        if end == "delete":
            session.drop_table("t", force=True)
        elif end == "reinitialise":
            session.admin.reinitialise("t", force=True)
        elif end == "rollback":
            table.rollback(first)
        else:
            table.maintenance.sweep_orphans(dry_run=False)
        clock.advance(timedelta(days=60))
        session.maintain(dry_run=False)
        if end != "delete":
            session.table("t").maintenance.expire(dry_run=False, num_retained_min=1, time_retained=timedelta(0))
            session.table("t").maintenance.collect_garbage(dry_run=False)
        assert files_in(lake) == ["a.parquet", "b.parquet"]


def test_storage_never_writes_or_deletes_outside(session, lake):
    storage = session.table("t")._store.storage
    path = str(lake / "city=nowhere/a.parquet")
    assert storage.has(path)
    for change in (
        lambda: storage.delete(path), lambda: storage.write(path, b""), lambda: storage.write_new(path, b""),
        lambda: storage.delete_all(str(lake)), lambda: storage.output(path).__enter__(),
    ):  # fmt: skip
        with pytest.raises(StorageError, match="not below"):
            change()
    assert files_in(lake) == ["a.parquet", "b.parquet"]


@pytest.mark.parametrize("move", [False, True])
def test_a_dry_run_looks_up_unique_keys_and_names_the_files(session, lake, move):
    table = session.create_table("u", sl.Schema({"city": "string", "n": "int"}, unique_keys=True), ["c", "p"])
    keys = pa.schema([("city", pa.string()), ("n", pa.int32())])
    for name, cities in (("c", ["bern", "rome"]), ("d", ["lima", "rome"]), ("e", ["oslo"])):
        pq.write_table(pa.table([cities, [1] * len(cities)], keys), lake / f"{name}.parquet")
    paths = [str(lake / f"{name}.parquet") for name in "cde"]
    (refused,) = table.add_files(paths, move=move, dry_run=True).plan.refused
    assert (refused.problem, refused.files) == (
        "the row key city = 'rome', n = 1 occurs 2 times in the rows, and the table has unique keys",
        tuple(paths[:2]),
    )
    assert not table.add_files(paths[1:], move=move, dry_run=True).plan.refused
    table.add_files(paths[1:])
    (refused,) = table.add_files(paths[:1], move=move, dry_run=True).plan.refused
    assert "rome', n = 1 is in the table already" in refused.problem
    with pytest.raises(InvalidInput, match=refused.problem) as caught:
        table.add_files(paths[:1], move=move)
    assert "upsert u $df" in hint_text(caught.value.hint_parts, "%sleeper")
    assert files_in(lake) == ["a.parquet", "b.parquet", "c.parquet", "d.parquet", "e.parquet"]


def test_files_without_rows_are_left_out(session, lake):
    pq.write_table(rows().slice(0, 0), lake / "empty.parquet")
    table = session.table("t")
    assert "1 file without rows left out" in repr(table.add_files(lake, dry_run=True))
    table.add_files(lake)
    assert content(table) == expected(rows(), rows(100))
    before = table.at().resolved.snapshot_id
    assert table.add_files(lake / "empty.parquet").snapshot_id == before


def test_files_of_other_writers_are_read_by_all(session, lake, tmp_path):
    wide = rows(200).set_column(0, "city", rows()["city"].cast(pa.large_string()))
    pq.write_table(wide, lake / "wide.parquet")
    import duckdb

    given = rows(300)
    duckdb.sql(f"copy (select * from given order by city, n, ts) to '{lake}/duck.parquet'")
    assert len(given)
    table = session.table("t")
    table.add_files([lake / "wide.parquet", lake / "duck.parquet"])
    assert content(table) == expected(rows(200), rows(300))
    found = session.sql("select * from t", engine="duckdb").to_arrow().cast(ARROW)
    assert expected(found) == expected(rows(200), rows(300))
    assert table.maintenance.check(deep=True).ok
    table.maintenance.split(threshold=40)
    assert content(table) == expected(rows(200), rows(300))
    table.maintenance.compact("all", engine="local")
    assert content(table) == expected(rows(200), rows(300))


GEO = {"encoding": "WKB", "geometry_types": ["Point"], "crs": {"id": {"authority": "here", "code": 1}}}


def test_bytes_of_geoparquet_are_read_as_they_are_by_all(session, lake):
    import duckdb

    point, with_srid = struct.pack("<BIdd", 1, 1, 1, 2), struct.pack("<BIIdd", 1, 0x20000001, 4326, 1, 2)
    added = pa.table({"k": [1, 2, 3], "name": ["a"] * 3, "spot": pa.array([point, with_srid, b"no WKB"], pa.binary())})
    geo = {"version": "1.1.0", "primary_column": "at", "columns": {"spot": GEO}}
    pq.write_table(added.replace_schema_metadata({"geo": json.dumps(geo)}), lake / "geo.parquet")
    table = session.create_table("places", sl.Schema({"k": "long"}, values={"name": "string", "spot": "bytearray"}))
    table.add_files(lake / "geo.parquet")
    found = session.sql("select k, typeof(spot) as kind, spot from places order by k", engine="duckdb").to_arrow()
    assert (set(found["kind"].to_pylist()), found["spot"]) == ({"BLOB"}, added["spot"])
    assert table.scan().to_duckdb().order("k").to_arrow_table()["spot"].to_pylist() == added["spot"].to_pylist()
    session.sql("update places set name = 'b' where k > 1")
    assert table.scan().to_arrow().to_pydict() == {**added.to_pydict(), "name": ["a", "b", "b"]}

    geometry = lake / "geometry.parquet"
    columns = "4::BIGINT as k, 'c' as name, 'POINT(1 2)'::GEOMETRY as spot"
    duckdb.connect().execute(f"copy (select {columns}) to '{geometry}' (format parquet, geoparquet_version 'NONE')")
    with pytest.raises(InvalidInput, match=r"GEOMETRY in column 'spot', which engines do not read as its bytes"):
        table.add_files(geometry)
    table.add_files(geometry, copy=True)
    assert session.sql("select spot from places where k = 4", engine="duckdb").to_arrow()["spot"].to_pylist() == [point]


def test_the_types_of_arrow_in_a_footer_do_not_matter(session, lake):
    written = pa.table(
        {
            "k": pa.array(["a", "b"]).dictionary_encode(),
            "at": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")),
            "pair": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        }
    )
    pq.write_table(written, lake / "arrow.parquet")
    schema = sl.Schema({"k": "string"}, values={"at": "timestamp?", "pair": "list<long>?"})
    table = session.create_table("of_arrow", schema)
    table.add_files(lake / "arrow.parquet")
    expected_rows = written.cast(schema.arrow).to_pylist()
    assert table.scan().to_arrow().to_pylist() == expected_rows
    assert session.sql("select * from of_arrow order by k", engine="duckdb").to_arrow().to_pylist() == expected_rows
    table.maintenance.compact("all", engine="local")
    assert table.scan().to_polars().to_dicts() == expected_rows


def test_a_table_that_was_altered_takes_files_without_the_late_column(session, lake):
    table = session.table("t")
    table.alter(add_columns={"late": "int?"})
    table.add_files(lake)
    assert table.scan().to_arrow()["late"].null_count == 200
    found = session.sql("select count(*) as n from t where late is null", engine="duckdb").to_arrow()["n"]
    assert found.to_pylist() == [200]


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "a*.parquet", "a[1].parquet", "a{1}.parquet"])
def test_names_that_engines_read_otherwise_are_refused(session, lake, name):
    pq.write_table(rows(), lake / name)
    plan = session.table("t").add_files(lake / name, dry_run=True).plan
    assert len(plan.refused) == 1


def test_files_of_a_table_are_refused(session, lake):
    other = session.create_table("u", SCHEMA)
    other.ingest(rows())
    (path,) = other._store.load().files.active["filename"].to_pylist()
    with pytest.raises(InvalidInput, match="is in the folder of a warehouse"):
        session.table("t").add_files(other._store.storage.locate(path))


@pytest.mark.parametrize("place", [
    "default/{id}/x.parquet", "default/{id}/data/x.parquet", "default/{id}/data/sub/x.parquet", "default/x.parquet",
    "default/{id}/savepoint/x.parquet", "default/{id}/data/Partition_a/x.parquet", "default/deadbeef/x.parquet",
])  # fmt: skip
@pytest.mark.parametrize("name", ["t", "u"])
def test_files_in_the_folder_of_an_instance_are_refused_as_cleanups_delete_them(session, tmp_path, place, name):
    session.create_table("u", SCHEMA)
    path = tmp_path / "house" / place.format(id=session.table("t").entry.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(), path)
    table = session.table(name)
    (refusal,) = table.add_files(path, dry_run=True).plan.refused
    assert refusal.problem == "is in the folder of a warehouse, whose clean-ups may delete it"
    with pytest.raises(InvalidInput, match="is in the folder of a warehouse") as error:
        table.add_files(path)
    assert "move it out of the warehouse" in error.value.hint
    assert "copy=True" in error.value.hint
    table.add_files(path, copy=True)
    assert content(table) == expected(rows())


def test_a_link_to_a_file_of_another_warehouse_or_data_path_is_refused(tmp_path, lake):
    with sl.connect(tmp_path / "other") as other:
        other.create_table("o", SCHEMA)
        inside = tmp_path / "other" / "default" / "a.parquet"
        pq.write_table(rows(), inside)
    (lake / "link.parquet").symlink_to(inside)
    with sl.connect(tmp_path / "house", data_paths=[lake, tmp_path / "other"]) as session:
        table = session.create_table("t", SCHEMA, properties={"sleeper.table.data.path": str(lake)})
        second = session.create_table("u", SCHEMA)
        mine = lake / table.entry.id / "data" / "x.parquet"
        mine.parent.mkdir(exist_ok=True)
        pq.write_table(rows(), mine)
        for path in (lake / "link.parquet", mine):
            for into in (table, second):
                with pytest.raises(InvalidInput, match="is in the folder of a warehouse"):
                    into.add_files(path)
        table.add_files(lake / "city=nowhere")
        assert content(table) == expected(rows(), rows(100))


def small(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def test_columns_are_compared_by_their_current_names(session, lake):
    table = session.create_table("r", sl.Schema.from_ddl("k INT KEY\nold int?"))
    table.alter(rename_columns={"old": "new"})
    file = small(lake / "new.parquet", k=ints(1), new=ints(5))
    with pytest.raises(InvalidInput, match=r"has column 'new', which was renamed .* data files call it 'old'") as error:
        table.add_files(file)
    assert "copy=True" in error.value.hint
    table.alter(add_columns={"old": "int?"})
    swapped = small(lake / "old.parquet", k=ints(1), old=ints(77))
    with pytest.raises(InvalidInput, match="has no column 'new'"):
        table.add_files(swapped)
    both = small(lake / "both.parquet", k=ints(1), new=ints(5), old=ints(77))
    with pytest.raises(InvalidInput, match="has column 'new', which was renamed"):
        table.add_files(both)
    assert table.scan().to_arrow().num_rows == 0
    table.add_files(both, copy=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "new": 5, "old": 77}]


def test_a_column_that_was_dropped_and_added_again_is_another_one(session, lake):
    table = session.create_table("r", sl.Schema.from_ddl("k INT KEY\nv int?"))
    table.alter(drop_columns=["v"])
    table.alter(add_columns={"v": "int?"})
    with pytest.raises(InvalidInput, match="has column 'v', which was renamed or added again"):
        table.add_files(small(lake / "v.parquet", k=ints(1), v=ints(5)))
    table.add_files(small(lake / "k.parquet", k=ints(2)))
    assert table.scan().to_arrow().to_pylist() == [{"k": 2, "v": None}]


def test_a_split_reads_no_keys_of_a_file_that_was_changed(session, lake):
    table = session.create_table("s", sl.Schema.from_ddl("k INT KEY\nv int?"))
    path = small(lake / "s.parquet", k=ints(*range(10)), v=ints(*[1] * 10))
    table.add_files(path)
    small(path, k=ints(*range(100, 110)), v=ints(*[1] * 10))
    before = table.at().resolved.snapshot_id
    for split in (
        lambda: table.maintenance.split(threshold=3), lambda: table.maintenance.split(at=5),
        lambda: table.maintenance.split(threshold=3, dry_run=True),
    ):  # fmt: skip
        with pytest.raises(StorageError, match=r"s\.parquet was changed after it was added"):
            split()
    assert session.table("s").at().resolved.snapshot_id == before


UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])


def time_of(*microseconds: int) -> pa.Array:
    return pa.array(microseconds, pa.int64()).view(pa.time64("us"))


@pytest.mark.parametrize(("of_type", "value", "problem"), [
    ("uuid?", pa.array(["hello"]), "'hello'.* cannot become uuid"),
    ("uuid?", pa.array([UUID.upper()]), "has UUIDs in column 'v' that are not written in lower case"),
    ("uuid?", pa.array([UUID.replace("-", "")]), "has UUIDs in column 'v' that are not written in lower case"),
    ("struct<a:int,b:string?>", pa.array([{"a": None, "b": "x"}], STRUCT), "column 'v.a', row 1, is NULL"),
    ("list<struct<a:int,b:string?>>", pa.array([[{"a": None, "b": "x"}]], pa.list_(STRUCT)), "row 1, is NULL"),
    ("string?", NOT_UTF8, "has text that is not UTF-8 in column 'v'"),
    ("list<string>?", pa.ListArray.from_arrays(ints(0, 1), NOT_UTF8), "has text that is not UTF-8 in column 'v'"),
    ("time?", time_of(-5), "has a value in column 'v' that no time is"),
    ("time?", time_of(86_400_000_000), "has a value in column 'v' that no time is"),
])  # fmt: skip
def test_values_that_only_the_type_of_the_table_refuses_are_refused(session, lake, of_type, value, problem):
    table = session.create_table("w", sl.Schema.from_ddl(f"k INT KEY\nv {of_type}"))
    with pytest.raises(InvalidInput, match=problem):
        table.add_files(small(lake / "w.parquet", k=ints(1), v=value))
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(("of_type", "value"), [
    ("uuid?", pa.array([UUID, None])),
    ("list<uuid>", pa.array([[UUID, UUID], []], pa.list_(pa.large_string()))),
    ("struct<a:int,b:string?>?", pa.array([{"a": 1, "b": None}, None], STRUCT)),
    ("map<string,int>", pa.array([[("é", 1)], []], pa.map_(pa.string(), pa.int32()))),
    ("time?", time_of(0, 86_399_999_999)),
    ("decimal(5,2)?", pa.array([1, None], pa.decimal128(5, 2))),
])  # fmt: skip
def test_values_of_such_types_that_fit_are_added(session, lake, of_type, value):
    table = session.create_table("w", sl.Schema.from_ddl(f"k INT KEY\nv {of_type}"))
    table.add_files(small(lake / "w.parquet", k=ints(1, 2), v=value))
    assert table.scan().to_arrow()["v"].to_pylist() == value.to_pylist()


@pytest.mark.parametrize("named", ["", "year=2013"])
def test_a_column_that_only_a_folder_names_is_refused(session, lake, named):
    table = session.create_table("h", sl.Schema.from_ddl("k INT KEY\nv int?"))
    table.alter(add_columns={"year": "int?"})
    (lake / "hive" / "year=2013").mkdir(parents=True)
    small(lake / "hive" / "year=2013" / "a.parquet", k=ints(1), v=ints(1))
    with pytest.raises(InvalidInput, match="has column 'year' only in the name of a folder") as error:
        table.add_files(lake / "hive" / named)
    assert "copy=True" in error.value.hint
    table.add_files(lake / "hive" / named, copy=True)
    assert table.scan().to_arrow()["year"].to_pylist() == [2013]


@pytest.mark.parametrize("value", [
    pa.array([2**30], pa.date32()), pa.array([-(2**30)], pa.date32()),
    pa.array([2**62], pa.timestamp("us", "UTC")), pa.array([-(2**62)], pa.timestamp("us", "UTC")),
])  # fmt: skip
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_time_as_row_key_lies_in_the_years_of_python(session, lake, value, dry_run):
    of_type = "DATE" if pa.types.is_date(value.type) else "TIMESTAMP"
    table = session.create_table("d", sl.Schema.from_ddl(f"d {of_type} KEY\nv int?"), split_points=["2000-01-01"])
    path = small(lake / "d.parquet", d=value, v=ints(1))
    if dry_run:
        (refusal,) = table.add_files(path, dry_run=True).plan.refused
        assert "is out of range" in refusal.problem
        return
    with pytest.raises(InvalidInput, match="is out of range") as error:
        table.add_files(path)
    assert "years 1 to 9999" in error.value.hint


# Files that are moved into the table.


def own_files(table: sl.Table) -> list[str]:
    return sorted(each.path for each in table._store.storage.list("data"))


def test_moved_files_are_files_of_the_table_without_a_copy(session, lake):
    table = session.table("t")
    inodes = {path.stat().st_ino for path in lake.rglob("*.parquet")}
    plan = table.add_files(lake, move=True, dry_run=True).plan
    assert "would move 2 files: 200 rows" in repr(plan)
    assert "garbage collection deletes moved files" in repr(plan)
    assert (files_in(lake), own_files(table)) == (["a.parquet", "b.parquet"], [])
    table.add_files(lake, move=True)
    assert content(table) == expected(rows(), rows(100))
    assert files_in(lake) == []
    assert {Path(table._store.storage.locate(path)).stat().st_ino for path in own_files(table)} == inodes
    assert sorted(set(table._store.load().files.active["filename"].to_pylist())) == own_files(table)
    assert not table.maintenance.check(deep=True).findings
    assert not table._store.load().files.active["checksum"].null_count


def test_garbage_collection_deletes_moved_files_once_no_version_needs_them(session, lake):
    table = session.table("t")
    table.add_files(lake / "city=nowhere/a.parquet")
    table.add_files(lake / "city=nowhere/b.parquet", move=True)
    moved = own_files(table)
    table.maintenance.compact("all", engine="local")
    assert not table.maintenance.collect_garbage(dry_run=True).data_files  # the version before needs it
    session._components.clock.advance(timedelta(days=60))
    table.maintenance.expire(dry_run=False, num_retained_min=1, time_retained=timedelta(0))
    assert table.maintenance.collect_garbage(dry_run=True).data_files == tuple(moved)
    report = table.maintenance.collect_garbage(dry_run=False)
    assert (report.data_files, len(report.forgotten)) == (tuple(moved), 1)
    assert files_in(lake) == ["a.parquet"]
    assert content(table) == expected(rows(), rows(100))


@pytest.mark.parametrize("error", [StorageError("the disk is full"), KeyboardInterrupt()])
def test_a_move_that_fails_leaves_all_files_where_they_were(session, lake, monkeypatch, error):
    table = session.table("t")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(type(table._store), "commit", fail)
    with pytest.raises(type(error)):
        table.add_files(lake, move=True)
    monkeypatch.undo()
    assert (files_in(lake), own_files(table)) == (["a.parquet", "b.parquet"], [])
    assert table.scan().count() == 0
    pq.write_table(rows().slice(0, 50).sort_by([("n", "descending")]), lake / "unsorted.parquet")
    with pytest.raises(InvalidInput, match="not sorted"):
        table.add_files(lake, move=True)
    assert (len(files_in(lake)), own_files(table)) == (3, [])


def test_a_move_that_was_killed_after_its_commit_is_finished_by_the_next(session, lake, monkeypatch):
    table = session.table("t")

    class KilledError(BaseException):
        pass

    def kill(*_):
        raise KilledError

    monkeypatch.setattr(type(table._store.storage), "release", kill)
    with pytest.raises(KilledError):
        table.add_files(lake, move=True)
    monkeypatch.undo()
    assert content(table) == expected(rows(), rows(100))
    assert files_in(lake) == ["a.parquet", "b.parquet"]
    with pytest.raises(InvalidInput, match="is in the table already"):
        table.add_files(lake)  # otherwise its rows would be in the table twice
    pq.write_table(rows(200), lake / "c.parquet")
    assert "2 files moved before" in repr(table.add_files(lake, move=True, dry_run=True))
    table.add_files(lake, move=True)
    assert files_in(lake) == []
    assert content(table) == expected(rows(), rows(100), rows(200))
    assert not table.maintenance.check(deep=True).findings


def test_a_sweep_meanwhile_spares_files_that_are_being_moved(session, lake, monkeypatch):
    table = session.table("t")
    for path in lake.rglob("*.parquet"):
        os.utime(path, (1, 1))  # older than any file that a sweep spares
    real = type(table._store).commit

    def sweeping(self, change, **options):
        monkeypatch.undo()
        assert not session.table("t").maintenance.sweep_orphans(dry_run=True).files
        assert not session.table("t").maintenance.sweep_orphans(dry_run=False).files
        return real(self, change, **options)

    monkeypatch.setattr(type(table._store), "commit", sweeping)
    table.add_files(lake, move=True)
    assert content(table) == expected(rows(), rows(100))
    assert not table.maintenance.sweep_orphans(dry_run=False).files
    assert all(Path(table._store.storage.locate(path)).stat().st_mtime > 1 for path in own_files(table))
    assert table.maintenance.check(deep=True).ok


def test_an_old_name_that_cannot_be_deleted_is_reported(session, lake, monkeypatch):
    table = session.table("t")

    def refuse(*_, **__):
        raise PermissionError("not yours")

    monkeypatch.setattr(Path, "unlink", refuse)
    said: list[str] = []
    monkeypatch.setattr(session._components.progress, "finish", lambda line="": said.append(line))
    table.add_files(lake, move=True)
    monkeypatch.undo()
    assert any("2 files could not be removed from the old place" in line for line in said)
    assert content(table) == expected(rows(), rows(100))


def test_a_job_that_is_done_needs_its_files_no_more(session, lake):
    table, given = session.table("t"), lake / "city=nowhere/a.parquet"
    table.add_files(given, move=True, job_id="monday")
    again = table.add_files(given, move=True, job_id="monday")
    assert "done before" in again.done_before
    assert "done before" in table.add_files(given, move=True, job_id="monday", dry_run=True).done_before
    assert "done before" in table.ingest(given, job_id="monday").done_before
    assert content(table) == expected(rows())
    with pytest.raises(NotFound):
        table.add_files(given, move=True, job_id="tuesday")


def test_a_file_that_another_table_or_version_uses_is_not_moved(session, lake):
    table = session.table("t")
    other = session.create_table("other", SCHEMA)
    other.add_files(lake / "city=nowhere/a.parquet")
    other.maintenance.compact("all", engine="local")  # only the version before uses it now
    with pytest.raises(InvalidInput, match=r"a\.parquet is used by table 'other' where it is"):
        table.add_files(lake, move=True)
    table.add_files(lake / "city=nowhere/b.parquet")
    with pytest.raises(InvalidInput, match=r"b\.parquet is used by table 't' where it is"):
        table.add_files(lake / "city=nowhere/b.parquet", move=True)
    assert files_in(lake) == ["a.parquet", "b.parquet"]


def test_what_cannot_be_moved_is_refused(session, lake):
    table = session.table("t")
    (lake / "linked.parquet").symlink_to(lake / "city=nowhere/a.parquet")
    with pytest.raises(InvalidInput, match="was named by a link"):
        table.add_files(lake / "linked.parquet", move=True)
    with pytest.raises(InvalidInput, match="both copied and moved"):
        table.add_files(lake, move=True, copy=True)
    assert files_in(lake) == ["a.parquet", "b.parquet", "linked.parquet"]


def test_a_move_follows_a_split_meanwhile(session, lake, monkeypatch):
    table = session.table("t")
    real = type(table._store).commit

    def split_first(self, change, **options):
        monkeypatch.undo()
        session.table("t").maintenance.split(threshold=20)
        return real(self, change, **options)

    session.table("t").ingest(rows(500))
    monkeypatch.setattr(type(table._store), "commit", split_first)
    table.add_files(lake, move=True)
    assert content(table) == expected(rows(), rows(100), rows(500))
    assert not table.maintenance.check(deep=True).findings
