"""Publishing a version: what other engines then find, what is refused, and what a crash or another publisher leaves."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, StorageError
from sleeper_nb.model.jobs import PUBLISHED
from sleeper_nb.model.schema import Schema
from sleeper_nb.publish.published import published, unpublish
from sleeper_nb.publish.verify import verify
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.builders import (
    START,
    a_store,
    collect,
    compact,
    ingest,
    keys_in,
    reopened,
    rows_of,
    save,
    scan,
    split,
)
from tests.support.other_engines import by_pyiceberg, files_by_pyiceberg, published_now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> StateStore:
    return a_store(tmp_path / "a b%20c", points=["h", "p"], clock=clock)


def read_keys(address: str, snapshot_id: int | None = None) -> list[str]:
    return sorted(by_pyiceberg(address, snapshot_id)["key"].to_pylist())


def metadata_of(store: StateStore) -> dict[str, Any]:
    there = published(store)
    assert there is not None
    body: dict[str, Any] = json.loads(store.storage.read(there.metadata))
    return body


def test_a_published_version_is_read_by_its_folder(store):
    ingest(store, rows_of("a", "k", "z"))
    report = published_now(store)
    assert (report.snapshot_id, report.main, report.rows, report.data_files) == (2, 2, 3, 3)
    assert report.metadata_address == f"{report.address}/metadata/v1.metadata.json"
    assert read_keys(report.address) == read_keys(report.metadata_address) == ["a", "k", "z"]


def test_publishing_the_same_version_again_writes_nothing(store):
    ingest(store, rows_of("a"))
    published_now(store)
    before = store.storage.list("metadata")
    assert published_now(store).is_nothing
    assert store.storage.list("metadata") == before


def test_an_empty_version_is_published(store):
    assert read_keys(published_now(store).address) == []


def test_only_the_files_that_may_hold_a_key_are_opened(store):
    ingest(store, rows_of("a", "c", "k", "z"))
    address = published_now(store).address
    assert len(files_by_pyiceberg(address, "key == 'k'")) == 1
    assert len(files_by_pyiceberg(address, "key == 'b'")) == 1
    assert files_by_pyiceberg(address, "key == 'd'") == []
    assert len(files_by_pyiceberg(address, "key >= 'k'")) == 2


def test_an_append_adds_a_manifest_and_uses_the_others_again(store):
    ingest(store, rows_of("a", "k", "z"))
    published_now(store)
    first = {each.path for each in store.storage.list("metadata")}
    ingest(store, rows_of("b"))
    address = published_now(store).address
    new = {each.path for each in store.storage.list("metadata")} - first
    assert sum(path.endswith(("-m0.avro", "-m1.avro")) for path in new) == 1
    snapshots = StaticTable.from_metadata(address).metadata.snapshots
    assert [each.summary.operation.value for each in snapshots] == ["append", "append"]
    assert read_keys(address) == ["a", "b", "k", "z"]


def test_a_file_that_leaves_share_after_a_split_is_listed_once(tmp_path, clock):
    store = a_store(tmp_path, clock=clock)
    ingest(store, rows_of("a", "k", "z"))
    split(store, at="h")
    report = published_now(store)
    assert (report.data_files, report.delete_files, report.rows) == (1, 0, 3)


def test_rows_of_a_shared_file_that_one_leaf_has_compacted_are_deleted_in_it(tmp_path, clock):
    store = a_store(tmp_path, clock=clock)
    ingest(store, rows_of("a", "k", "z"))
    ingest(store, rows_of("b"))
    split(store, at="h")
    leaf = next(each.id for each in store.load().tree.leaves if ("a", 0) in each.region)
    compact(store, partition_id=leaf)
    report = published_now(store)
    assert (report.data_files, report.delete_files, report.rows) == (2, 1, 4)
    assert read_keys(report.address) == ["a", "b", "k", "z"]


def test_savepoints_are_tags_and_the_newest_version_is_main(store, clock):
    ingest(store, rows_of("a"))
    saved = save(store, "half")
    save(store, "main")
    ingest(store, rows_of("k"))
    published_now(store)
    report = published_now(store, saved)
    assert (report.main, dict(report.tags)) == (3, {"half": 2, "savepoint.2": 2})
    assert read_keys(report.address) == ["a", "k"]
    half = StaticTable.from_metadata(report.address).scan().use_ref("half").to_arrow()
    assert half["key"].to_pylist() == ["a"]


def test_garbage_collection_keeps_the_files_of_the_newest_until_they_are_superseded(store, clock):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    old = published_now(store)
    compact(store)
    expire_all_but_the_newest(store, clock)
    collect(store)
    assert read_keys(old.address) == ["a", "b"]
    new = published_now(store)
    clock.advance(timedelta(days=6))
    collect(store)
    assert read_keys(new.address, old.snapshot_id) == ["a", "b"]
    clock.advance(timedelta(days=2))
    assert len(collect(store).data_files) == 2
    ingest(store, rows_of("c"))
    newest = published_now(store)
    assert read_keys(newest.address) == ["a", "b", "c"]
    assert old.snapshot_id not in {each["snapshot-id"] for each in metadata_of(store)["snapshots"]}


def expire_all_but_the_newest(store: StateStore, clock: ManualClock) -> None:
    clock.advance(timedelta(days=30))
    expire_snapshots(store, Retention(timedelta(0), 1), dry_run=False)


def test_unpublishing_releases_the_files_and_leaves_nothing(store, clock):
    ingest(store, rows_of("a"))
    published_now(store)
    report = unpublish(store)
    assert report.snapshots == (2,)
    assert store.storage.list("metadata") == ()
    assert published(store) is None
    assert store.catalog.leases(store.table_id) == ()
    assert unpublish(store).files == 0
    assert keys_in(scan(store)) == ["a"]


def test_the_tag_of_a_deleted_savepoint_goes_with_the_next_publication(store, clock):
    ingest(store, rows_of("a"))
    saved = save(store, "half")
    published_now(store)
    store.catalog.delete_savepoint(store.table_id, saved.id, clock.now())
    assert published_now(store).tags == {}


def test_what_another_engine_has_written_is_hidden_only_when_forced(store):
    ingest(store, rows_of("a"))
    published_now(store)
    body = metadata_of(store)
    body["snapshots"].append({**body["snapshots"][0], "snapshot-id": 77, "summary": {"operation": "append"}})
    store.storage.write("metadata/v2.metadata.json", json.dumps(body).encode())
    store.storage.write("metadata/version-hint.text", b"2")
    with pytest.raises(ConfirmationNeeded, match=r"v2\.metadata\.json of table 'table', with 1 snapshot 77"):
        published_now(store)
    report = published_now(store, force=True)
    assert report.metadata == "metadata/v3.metadata.json"
    assert read_keys(report.address) == ["a"]
    assert [each["snapshot-id"] for each in metadata_of(store)["snapshots"]] == [2]


def test_a_moved_table_is_published_again_with_new_addresses(store, tmp_path):
    ingest(store, rows_of("a"))
    published_now(store)
    moved = (tmp_path / "a b%20c").rename(tmp_path / "moved")
    store = a_store(moved, create=False)
    there = published(store)
    assert there is not None
    assert there.is_moved
    report = published_now(store)
    assert not report.is_nothing
    assert read_keys(report.address) == ["a"]


@pytest.mark.parametrize("place", ["a#b", "a?b", "a\tb"])
def test_a_folder_whose_address_readers_would_cut_is_refused(tmp_path, place):
    store = a_store(tmp_path / place)
    with pytest.raises(InvalidInput, match="where other engines end an address"):
        published_now(store)
    assert store.storage.list("metadata") == ()


def test_a_crash_at_each_write_leaves_the_older_version_readable(store, monkeypatch):
    ingest(store, rows_of("a", "k"))
    address = published_now(store).address
    storage = store.storage
    expected = [["a", "k"], ["a", "b", "k"]]
    ingest(store, rows_of("b"))
    for step in range(20):
        left = [step]

        def failing(call, left=left):
            def wrapped(*arguments: Any) -> Any:
                if left[0] == 0:
                    raise StorageError("the power went out", hint="")
                left[0] -= 1
                return call(*arguments)

            return wrapped

        with monkeypatch.context() as patched:
            for name in ("write", "write_new", "delete"):
                patched.setattr(storage, name, failing(getattr(storage, name)))
            try:
                published_now(store)
            except StorageError:
                assert read_keys(address) in expected
                continue
        break
    assert step > 3
    assert read_keys(published_now(reopened(store)).address) == ["a", "b", "k"]


def test_the_second_of_two_publishers_takes_the_next_number(store, monkeypatch):
    ingest(store, rows_of("a"))
    older = store.head()
    ingest(store, rows_of("k"))
    storage, create = store.storage, store.storage.write_new
    other = reopened(store)

    def after_another(path: str, content: bytes) -> bool:
        monkeypatch.undo()
        published_now(other, older)
        return create(path, content)

    monkeypatch.setattr(storage, "write_new", after_another)
    report = published_now(store)
    assert (report.metadata, report.main) == ("metadata/v2.metadata.json", 3)
    assert read_keys(report.address) == ["a", "k"]
    assert read_keys(report.address, older.id) == ["a"]
    leases = [each for each in store.catalog.leases(store.table_id) if each.purpose == PUBLISHED]
    assert sorted(each.snapshot_id for each in leases) == [2, 3]


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("moment", ["before", "after", "hint"])
def test_a_table_that_is_unpublished_meanwhile_is_published_whole(store, monkeypatch, moment, is_new):
    ingest(store, rows_of("a"))
    if not is_new:
        published_now(store)
    ingest(store, rows_of("k"))
    other = reopened(store)
    create, write = store.storage.write_new, store.storage.write

    def unpublishing(path: str, content: bytes) -> bool:
        if moment == "before":
            monkeypatch.undo()
            unpublish(other)
        made = create(path, content)
        if moment == "after":
            monkeypatch.undo()
            unpublish(other)
        return made

    def pointing(path: str, content: bytes) -> None:
        if path.endswith(".text"):
            monkeypatch.undo()
            unpublish(other)
        write(path, content)

    monkeypatch.setattr(store.storage, "write_new", unpublishing)
    if moment == "hint":
        monkeypatch.setattr(store.storage, "write", pointing)
    report = published_now(store)
    assert read_keys(report.address) == ["a", "k"]
    assert [each.snapshot_id for each in store.catalog.leases(store.table_id)] == [3]
    assert verify(store) == ()


def test_a_new_tag_goes_into_what_others_have_published_again_meanwhile(store, monkeypatch):
    ingest(store, rows_of("a", "k"))
    published_now(store)
    save(store, "half")
    other, create = reopened(store), store.storage.write_new

    def late(path: str, content: bytes) -> bool:
        monkeypatch.undo()
        unpublish(other)
        ingest(other, rows_of("b"))
        published_now(other)
        return create(path, content)

    monkeypatch.setattr(store.storage, "write_new", late)
    report = published_now(store, store.catalog.snapshots(store.table_id)[-2])
    assert read_keys(report.address) == ["a", "b", "k"]
    assert read_keys(report.address, 2) == ["a", "k"]
    assert report.tags == {"half": 2}
    assert verify(store) == ()


@pytest.mark.parametrize("name", ["list", "delete", "delete_all"])
def test_what_is_published_while_a_table_is_unpublished_goes_or_is_whole(store, monkeypatch, name):
    ingest(store, rows_of("a"))
    published_now(store)
    ingest(store, rows_of("k"))
    other, call = reopened(store), getattr(store.storage, name)

    def publishing(*arguments: Any) -> Any:
        monkeypatch.undo()
        done = call(*arguments)
        published_now(other)
        return done

    monkeypatch.setattr(store.storage, name, publishing)
    unpublish(store)
    assert published(store) is None
    assert store.storage.list("metadata") == ()
    assert store.catalog.leases(store.table_id) == ()


def test_a_table_can_be_published_after_unpublishing_was_interrupted(store, monkeypatch):
    for key in "ak":
        ingest(store, rows_of(key))
        published_now(store)
    for left in range(6):
        delete, done = store.storage.delete, []

        def failing(path: str, delete=delete, done=done, left=left) -> None:
            if len(done) == left:
                raise StorageError("the power went out", hint="")
            done.append(path)
            delete(path)

        def one_by_one(folder: str, failing=failing) -> None:
            files = sorted(
                (each.path for each in store.storage.list(folder)), key=lambda path: not path.endswith("avro")
            )
            for path in files:
                failing(path)

        with monkeypatch.context() as patched:
            patched.setattr(store.storage, "delete", failing)
            patched.setattr(store.storage, "delete_all", one_by_one)
            with pytest.raises(StorageError):
                unpublish(store)
        assert read_keys(published_now(reopened(store)).address) == ["a", "k"]


def test_an_older_hint_is_set_right_by_the_next_publication(store):
    ingest(store, rows_of("a"))
    published_now(store)
    ingest(store, rows_of("k"))
    address = published_now(store).address
    store.storage.write("metadata/version-hint.text", b"1")
    assert read_keys(address) == ["a"]
    published_now(store)
    assert read_keys(address) == ["a", "k"]


def test_files_that_nothing_names_any_more_are_deleted(store, clock, tmp_path):
    ingest(store, rows_of("a"))
    published_now(store, retained=timedelta(0))
    left, others = f"metadata/{'a' * 32}-m0.avro", "metadata/5e-6f-m0.avro"
    store.storage.write(left, b"of a crash")
    store.storage.write(others, b"of another program")
    clock.advance(timedelta(days=40000))  # files have the system's time
    ingest(store, rows_of("k"))
    address = published_now(store, retained=timedelta(0)).address
    paths = {each.path for each in store.storage.list("metadata")}
    assert others in paths
    assert not paths & {left, "metadata/v1.metadata.json"}
    assert read_keys(address) == ["a", "k"]


def test_a_publisher_that_was_stopped_for_long_is_not_harmed_by_one_that_writes_nothing(store, clock, monkeypatch):
    ingest(store, rows_of("a"))
    published_now(store)
    older = store.head()
    ingest(store, rows_of("k"))
    other, create = reopened(store), store.storage.write_new

    def late(path: str, content: bytes) -> bool:
        monkeypatch.undo()
        clock.advance(timedelta(days=40000))  # files have the system's time
        assert published_now(other, older).is_nothing
        assert len(store.catalog.leases(store.table_id)) == 2
        return create(path, content)

    monkeypatch.setattr(store.storage, "write_new", late)
    assert read_keys(published_now(store).address) == ["a", "k"]
    assert verify(store) == ()


@pytest.mark.parametrize("move", [False, True])
def test_a_file_with_field_ids_of_its_own_is_refused(tmp_path, move):
    others = tmp_path / "others"
    others.mkdir()
    ids = {"k": "7", "v": "1"}
    columns = [pa.field(n, pa.int64(), n == "v", {"PARQUET:field_id": number}) for n, number in ids.items()]
    pq.write_table(pa.table([[1, 2], [3, 4]], schema=pa.schema(columns)), others / "x.parquet")
    with sl.connect(tmp_path / "w", data_paths=[others]) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": "long?"}))
        table.add_files(others / "x.parquet", move=move)
        with pytest.raises(InvalidInput, match="has field ids of the program that wrote it"):
            published_now(table._store)


@pytest.mark.parametrize("move", [False, True])
def test_files_that_were_added_are_read_where_they_are(tmp_path, move):
    others = tmp_path / "others"
    others.mkdir()
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    pq.write_table(pa.table([[1, 2], [3, None]], schema=columns), others / "x.parquet")
    with sl.connect(tmp_path / "w", data_paths=[others]) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": "long?"}))
        table.add_files(others / "x.parquet", move=move)
        assert by_pyiceberg(published_now(table._store).address).to_pylist() == table.scan().to_arrow().to_pylist()


WIDENED = [("int?", "double"), ("int?", "decimal(12,2)"), ("decimal(6,2)?", "decimal(8,3)")]


@pytest.mark.parametrize(("old", "new"), WIDENED)
def test_a_wider_type_that_iceberg_lacks_is_refused_while_an_older_file_lives(tmp_path, old, new):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": old}))
        table.ingest([{"k": 1, "v": 2}, {"k": 2, "v": None}])
        published_now(table._store)
        table.alter(types={"v": new})
        table.ingest([{"k": 3, "v": 5}])
        with pytest.raises(InvalidInput, match=r"column 'v' is .*, and still .* in some files") as refused:
            published_now(table._store)
        assert refused.value.hint == "write its rows again: table.update({'v': 'v'}, force=True)"
        table.update({"v": "v"}, force=True)
        report = published_now(table._store)
        assert by_pyiceberg(report.address).sort_by("k").to_pylist() == table.scan().to_arrow().to_pylist()
        assert report.warnings == (
            "snapshot 2 is no longer published: its column 'v' is " + old.rstrip("?").replace(",", ", "),
        )


def test_a_wider_type_is_refused_where_the_older_schema_is_lost(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": "int?", "text": "string?"}))
        table.ingest([{"k": 1, "v": 2, "text": "a"}])
        table.alter(types={"v": "double"}, add_columns={"late": "decimal(6,2)?"})
        table.ingest([{"k": 2, "v": 0.5, "text": "b"}])
        table._store.storage.delete("schema/schema-1")
        store = reopened(table._store)
        with pytest.raises(InvalidInput, match=r"column 'v' is double, and still int in some files"):
            published_now(store)
        table.update({"v": "v"}, force=True)
        report = published_now(reopened(table._store))
        assert by_pyiceberg(report.address).sort_by("k").to_pylist() == table.scan().to_arrow().to_pylist()


def test_a_table_with_times_is_published_with_a_warning(tmp_path):
    store = a_store(tmp_path, Schema({"k": "long"}, {}, {"t": "time?"}))
    assert published_now(store).warnings == ("Spark cannot open the table: t is a time, which Spark does not have",)


def test_a_table_with_aggregations_is_published_once_it_is_compacted(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": "long"}))
        table.set_properties({"sleeper.table.aggregations": "sum(v)"})
        for value in (1, 2):
            table.ingest([{"k": 1, "v": value}, {"k": value + 1, "v": 5}])
        settings = {"processing": table.at().processing}
        with pytest.raises(
            InvalidInput, match=r"queries of table 'table' return other rows .* because of sum\(v\)"
        ) as no:
            published_now(table._store, **settings)
        assert no.value.hint is not None
        assert "compact('all')" in no.value.hint
        table.maintenance.compact("all")
        rows = by_pyiceberg(published_now(table._store, **settings).address)
        assert rows.sort_by("k").to_pylist() == table.scan().to_arrow().to_pylist()


def test_a_table_whose_rows_age_is_published_with_a_warning(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock(START)) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"at": "timestamp?", "v": "double?"}))
        table.set_properties({"sleeper.table.filters": "ageOff(at,1000)"})
        table.ingest([{"k": 1, "at": START, "v": float("nan")}, {"k": 2, "at": START - timedelta(1), "v": 1.0}])
        with pytest.raises(InvalidInput, match="return other rows"):
            published_now(table._store, processing=table.at().processing)
        table.ingest([{"k": 3, "at": START, "v": 1.0}])
        table.maintenance.compact("all")
        report = published_now(table._store, processing=table.at().processing)
        assert sorted(by_pyiceberg(report.address)["k"].to_pylist()) == [1, 3]
        assert report.warnings == (
            "other engines still read the rows that ageOff(at,1000) drops from now on, until you publish again",
        )


def test_a_lost_answer_leaves_metadata_whose_files_are_there(store, monkeypatch):
    ingest(store, rows_of("a"))
    address = published_now(store).address
    ingest(store, rows_of("k"))
    create = store.storage.write_new

    def lost(path: str, content: bytes) -> bool:
        create(path, content)
        raise StorageError("the answer was lost", hint="")

    with monkeypatch.context() as patched:
        patched.setattr(store.storage, "write_new", lost)
        with pytest.raises(StorageError):
            published_now(store)
    assert read_keys(address) == ["a"]
    assert read_keys(f"{address}/metadata/v2.metadata.json") == ["a", "k"]
    assert published_now(store).is_nothing
    assert read_keys(address) == ["a", "k"]


def test_a_file_with_other_names_inside_its_lists_is_refused(tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    rows = pa.table({"k": [1, 2], "v": [[1], [2, 3]]}, pa.schema([("k", pa.int64()), ("v", pa.list_(pa.int64()))]))
    pq.write_table(rows, others / "x.parquet", use_compliant_nested_type=False)
    with sl.connect(tmp_path / "w", data_paths=[others]) as session:
        table = session.create_table("t", Schema({"k": "long"}, {}, {"v": "list<long>?"}))
        table.add_files(others / "x.parquet")
        with pytest.raises(InvalidInput, match="has lists or maps with other names inside"):
            published_now(table._store)
