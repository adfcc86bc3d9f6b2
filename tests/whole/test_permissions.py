"""A warehouse that somebody else made names no code, no file outside it and no address, unless the user allows it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from magics.sleeper import SleeperMagics
from sleeper_nb import cli
from sleeper_nb.commands.home import find_home
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, NotAllowed, SleeperError, StorageError
from sleeper_nb.model.permissions import Permissions
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.places import lies_within

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "long"})
ROWS = [{"city": "rome", "fare": 1}, {"city": "bern", "fare": 2}]
ITERATOR = "sleeper.table.iterator.class.name"
DATA_PATH = "sleeper.table.data.path"


def every(batch: Any, config: str) -> Any:
    return batch


def none(batch: Any, config: str) -> Any:
    return batch.slice(0, 0)


@pytest.fixture
def house(tmp_path, monkeypatch) -> Iterator[Path]:
    """A warehouse with a table; the current folder has a module that leaves a file when it is imported."""
    user = tmp_path / "user"
    user.mkdir()
    (user / "evil.py").write_text("open('pwned', 'w').close()\ndef f(batch, config):\n    return batch.slice(0, 0)\n")
    monkeypatch.chdir(user)
    monkeypatch.syspath_prepend(str(user))
    with sl.connect(tmp_path / "house") as session:
        session.create_table("t", SCHEMA).ingest(ROWS)
    forget_checksums(tmp_path / "house")
    yield tmp_path / "house"
    sys.modules.pop("evil", None)


def forget_checksums(house: Path) -> None:
    """Make the warehouse one of an earlier build, which recorded nothing: what its files say counts."""
    with contextlib.closing(sqlite3.connect(house / "default/catalog.sqlite")) as catalog:
        catalog.executescript(
            "UPDATE tables SET properties_checksum = NULL; UPDATE snapshots SET files_checksum = NULL, "
            "partitions_checksum = NULL, schema_checksum = NULL, processing = NULL, checksum = NULL; "
            "UPDATE savepoints SET checksum = NULL"
        )


def properties_file(house: Path) -> Path:
    (found,) = (house / "default/config/tables").iterdir()
    return found


def edit(house: Path, name: str, value: str) -> None:
    path = properties_file(house)
    path.write_text(f"{path.read_text()}{name}={value}\n")


def table_folder(house: Path) -> Path:
    return house / "default" / properties_file(house).stem.removeprefix("table-")


READS = {
    "scan": lambda session: session.table("t").scan().to_arrow(),
    "count": lambda session: session.table("t").scan().count(),
    "sql": lambda session: session.sql("select * from t", engine="duckdb").to_arrow(),
    "show": lambda session: repr(session.sql("select * from t", engine="duckdb")),
    "compact": lambda session: [
        session.table("t").ingest(ROWS),
        session.table("t").maintenance.compact("all", engine="local"),
    ],
    "changes": lambda session: session.table("t").changes(1, 2).count(),
    "export": lambda session: session.table("t").scan().export("out.parquet"),
    "set": lambda session: session.table("t").set_properties({"sleeper.table.gc.delay.minutes": "3"}),
    "create": lambda session: session.create_table("u", SCHEMA, properties={ITERATOR: "evil:f"}),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", ["evil:f", "an-entry-point"])
def test_an_iterator_runs_only_when_the_user_allows_it(house, read, name):
    edit(house, ITERATOR, name)
    with sl.connect(house) as session:
        with pytest.raises(NotAllowed, match="evil:f" if read == "create" else name) as error:
            READS[read](session)
        assert "iterators = [" in error.value.hint
        assert "sleeper.toml" in error.value.hint
        assert "connect(…, iterators=[" in error.value.hint
    assert not Path("pwned").exists()


def test_a_table_with_a_refused_iterator_can_be_looked_at_and_repaired(house):
    edit(house, ITERATOR, "evil:f")
    with sl.connect(house) as session:
        table = session.table("t")
        assert "evil:f" in repr(table)
        assert len(session.tables()) == 1
        assert "all is well" in repr(table.maintenance.check(deep=True))
        table.set_properties({ITERATOR: None})
        assert session.table("t").scan().count() == 2
    assert not Path("pwned").exists()


def test_what_the_user_allows_runs_by_its_name_or_as_the_function_given_for_it(house):
    edit(house, ITERATOR, "evil:f")
    with sl.connect(house, iterators=["evil:f"]) as session:
        assert session.table("t").scan().count() == 0
    assert Path("pwned").exists()
    Path("pwned").unlink()
    sys.modules.pop("evil")
    with sl.connect(house, iterators={"evil:f": every}) as session:
        assert session.table("t").scan().count() == 2
    with sl.connect(house, iterators=["evil:g"]) as session:
        with pytest.raises(NotAllowed):
            session.table("t").scan().count()
        session.allow({"evil:f": every})
        assert session.table("t").scan().count() == 2
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "given", [{"iterators": "a:b"}, {"iterators": 5}, {"iterators": [5]}, {"iterators": {"a": 5}}, {"data_paths": "/a"},
              {"data_paths": [None]}]
)  # fmt: skip
def test_permissions_of_another_kind_are_refused(tmp_path, given):
    with pytest.raises(InvalidInput) as error:
        sl.connect(tmp_path / "new", **given)
    assert error.value.hint or " takes " in error.value.message


def shown(capsys: Any, *words: str) -> tuple[int, str]:
    code = cli.main(list(words))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_the_users_file_allows_for_the_console_and_for_magics(house, capsys, monkeypatch, shell):
    edit(house, ITERATOR, "evil:f")
    words = ("--warehouse", str(house), "scan", "t")
    code, text = shown(capsys, *words)
    assert (code, 'iterators = ["evil:f"]' in text, Path("pwned").exists()) == (1, True, False)
    SleeperMagics.install(shell)
    shell.run_line_magic("sleeper", f"use {house}")
    with pytest.raises(NotAllowed):
        repr(shell.run_line_magic("sleeper", "scan t"))
    line = next(line for line in text.splitlines() if "iterators = [" in line)
    allowed = line[line.index('iterators = ["') :].split(" and warehouse")[0]
    Path("sleeper.toml").write_text(f'{allowed}\nwarehouse = "{house}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("own").absolute()))
    code, text = shown(capsys, *words)  # the file could have come with the folder
    assert (code, Path("pwned").exists()) == (1, False)
    Path("own/sleeper_nb").mkdir(parents=True)
    Path("own/sleeper_nb/config.toml").write_text(text[text.index("trusted = ") : text.index(" into ")])
    assert shown(capsys, *words)[0] == 0
    shell.run_line_magic("sleeper", f"use {house}")
    assert "0 rows" in repr(shell.run_line_magic("sleeper", "scan t"))
    Path("sleeper.toml").write_text(f'[instances.default]\n{allowed}\nwarehouse = "{house}"\n')
    assert shown(capsys, "scan", "t")[0] == 0
    Path("sleeper.toml").write_text(f'{allowed}\nwarehouse = "elsewhere"\n')  # what it says is of another warehouse
    assert shown(capsys, *words)[0] == 1


@pytest.mark.parametrize("where", ["", "default", "default/config", "default/config/tables"])
def test_a_file_of_settings_in_a_warehouse_is_refused(house, where, monkeypatch, capsys):
    edit(house, ITERATOR, "evil:f")
    folder = house / where
    (folder / "sleeper.toml").write_text(f'iterators = ["evil:f"]\nwarehouse = "{house}"\n[spark]\njars = "x.jar"\n')
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidInput, match="is inside a warehouse"):
        find_home("default", None, {}, folder)
    assert shown(capsys, "scan", "t")[0] == 1
    assert not (folder / "pwned").exists()


def raised(report):
    """Raise the error of the first step that failed; a table that fails does not stop the others."""
    for step in report.failed:
        raise step.error


OPENS = {
    "read": lambda session: session.table("t").scan().to_arrow(),
    "list": lambda session: [table.at().state for table in session.tables()],
    "load": lambda session: session.table("t").ingest(ROWS),
    "delete": lambda session: session.drop_table("t", force=True),
    "maintain": lambda session: raised(session.maintain()),
}


def tree(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("opened", OPENS)
@pytest.mark.parametrize("way", ["plain", "dots", "link"])
def test_a_table_lies_outside_the_warehouse_only_where_the_user_allows_it(house, tmp_path, opened, way):
    table_id, other = table_folder(house).name, tmp_path / "mine"
    other.mkdir()
    table_folder(house).rename(other / table_id)
    if way == "link":
        (house / "link").symlink_to(other)
    path = {"plain": str(other), "dots": f"{house}/../mine", "link": f"{house}/link"}[way]
    edit(house, DATA_PATH, path)
    before = tree(other)
    with sl.connect(house) as session:
        with pytest.raises(NotAllowed) as error:
            OPENS[opened](session)
        assert path in error.value.message
        assert "data-paths = [" in error.value.hint
    assert tree(other) == before
    with sl.connect(house, data_paths=[other]) as session:
        OPENS[opened](session)


@pytest.mark.parametrize("folder", ["", "data", "statestore", "statestore/files"])
def test_a_linked_folder_of_a_table_is_a_place_outside(house, tmp_path, folder):
    linked, other = table_folder(house) / folder, tmp_path / "mine"
    linked.rename(other)
    linked.symlink_to(other)
    with sl.connect(house) as session, pytest.raises(NotAllowed, match="outside"):
        session.table("t")
    with sl.connect(house, data_paths=[other]) as session:
        assert session.table("t").scan().count() == 2


@pytest.mark.parametrize("path", ["catalog.sqlite", "config", "config/tables", "config/instance.properties", ""])
def test_a_linked_catalog_or_configuration_is_a_place_outside(house, tmp_path, path):
    linked, other = house / "default" / path, tmp_path / "mine"
    if linked.exists():
        linked.rename(other)
    else:
        other.write_text("sleeper.storage.sync=false\n")
    linked.symlink_to(other)
    before = tree(tmp_path / "mine") if other.is_dir() else other.read_bytes()
    with pytest.raises(NotAllowed, match="outside"):
        sl.connect(house)
    assert before == (tree(tmp_path / "mine") if other.is_dir() else other.read_bytes())


@pytest.mark.parametrize("depth", ["data/partition_x", "data/partition_x/deeper"])
def test_clean_ups_delete_nothing_where_a_link_leads(house, tmp_path, depth):
    other = tmp_path / "mine"
    other.mkdir()
    (other / "precious.parquet").write_text("x")
    os.utime(other / "precious.parquet", (0, 0))
    link = table_folder(house) / depth
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other)
    with sl.connect(house) as session:
        if depth == "data/partition_x":
            with pytest.raises(NotAllowed, match="outside"):
                session.table("t")
        else:
            session._components.catalog.add_garbage(
                table_folder(house).name, [f"{depth}/precious.parquet"], session._components.clock.now()
            )
            assert not session.table("t").maintenance.sweep_orphans(dry_run=False).files
            with pytest.raises(StorageError, match="precious"):
                session.table("t").maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
        session.drop_table("t", force=True)
    assert tree(other) == {str(other / "precious.parquet"): 1}


@pytest.mark.parametrize("folder", ["", "data", "data/partition_x", "data/partition_root", "statestore/files", ".."])
def test_a_link_that_appears_after_a_table_was_opened_leads_no_clean_up_outside(house, tmp_path, folder):
    other, linked, table_id = tmp_path / "mine", (table_folder(house) / folder).resolve(), table_folder(house).name
    with sl.connect(house) as session:
        table = session.table("t")
        table.ingest(ROWS)
        table.maintenance.compact("all", engine="local")
        linked.mkdir(exist_ok=True)
        for name in ("orphan.parquet", "garbage.parquet"):
            (linked / name).write_text("x")
        garbage = f"{folder}/garbage.parquet".lstrip("/.")
        session._components.catalog.add_garbage(table_id, [garbage], session._components.clock.now())
        linked.rename(other)
        linked.symlink_to(other)
        for each in other.rglob("*.parquet"):
            os.utime(each, (0, 0))
        before = {path: Path(path).read_bytes() for path in tree(other) if path.endswith(".parquet")}
        for clean_up in (
            lambda: [check_nothing(table.maintenance.sweep_orphans()), table.maintenance.sweep_orphans(dry_run=False)],
            lambda: table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0)),
            lambda: table.maintenance.expire(dry_run=False),
            lambda: table.maintenance.purge("fare = 1", force=True),
            lambda: session.drop_table("t", force=True),
            session.maintain,
        ):
            with contextlib.suppress(SleeperError):
                clean_up()
    assert {path: Path(path).read_bytes() for path in before} == before


def check_nothing(report: Any) -> None:
    assert not report.files


def test_what_cannot_be_deleted_because_of_a_link_is_said_and_deleted_when_the_link_is_gone(house, tmp_path):
    data = table_folder(house) / "data"
    with sl.connect(house) as session:
        table, garbage = session.table("t"), "data/partition_root/garbage.parquet"
        (data / "partition_root" / "garbage.parquet").write_text("x")
        session._components.catalog.add_garbage(data.parent.name, [garbage], session._components.clock.now())
        data.rename(tmp_path / "mine")
        data.symlink_to(tmp_path / "mine")
        with pytest.raises(StorageError, match=f"{data} is a symbolic link, or its target has changed") as error:
            table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
        assert "replace the link" in error.value.hint
        data.unlink()
        (tmp_path / "mine").rename(data)
        assert table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0)).data_files == (garbage,)
        assert not (data / "partition_root" / "garbage.parquet").exists()
        assert table.scan().count() == 2


def test_a_link_to_another_table_of_the_warehouse_lets_no_clean_up_into_it(house):
    mine = table_folder(house)
    with sl.connect(house) as session:
        session.create_table("u", SCHEMA).ingest(ROWS)
        (theirs,) = (f for f in (house / "default").glob("*/data/partition_*") if mine not in f.parents)
        for each in theirs.iterdir():
            os.utime(each, (0, 0))
        (mine / "data" / "partition_x").symlink_to(theirs)
        assert not session.table("t").maintenance.sweep_orphans(dry_run=False).files
        assert not session.table("t").maintenance.check().orphans
        assert session.table("u").scan().count() == 2


def test_a_linked_folder_that_is_allowed_is_checked_and_nothing_in_it_is_deleted(house, tmp_path):
    linked, other = table_folder(house) / "statestore" / "files", tmp_path / "mine"
    linked.rename(other)
    linked.symlink_to(other)
    (other / "mine.txt").write_text("x")
    os.utime(other / "mine.txt", (0, 0))
    with sl.connect(house, data_paths=[other]) as session:
        table = session.table("t")
        assert table.maintenance.check().ok
        assert not table.maintenance.sweep_orphans(dry_run=False).files
    assert (other / "mine.txt").exists()


@pytest.mark.parametrize("folder", ["data", "statestore/files"])
def test_a_purge_of_rows_behind_a_link_is_refused_before_it_starts_and_works_once_they_are_moved(
    house, tmp_path, folder
):
    linked, other = table_folder(house) / folder, tmp_path / "mine"
    linked.rename(other)
    linked.symlink_to(other)
    before = tree(other)
    with sl.connect(house, data_paths=[other]) as session:
        table = session.table("t")
        plan = table.maintenance.purge("city = 'rome'", dry_run=True)
        assert plan.linked == (f"the link {linked} to {other}",)
        assert f"{plan.linked[0]}: the purge is refused" in repr(plan)
        for force in (False, True):
            with pytest.raises(
                StorageError, match=f"through the link {linked} to {other}, .*; nothing was changed"
            ) as e:
                table.maintenance.purge("city = 'rome'", force=force)
            assert "replace the link with the folder that it points to" in e.value.hint
        assert (table.at().state.snapshot_id, tree(other)) == (plan.change.since, before)
    linked.unlink()
    other.rename(linked)
    with sl.connect(house) as session:
        assert session.table("t").maintenance.purge("city = 'rome'", force=True).complete
        assert session.table("t").scan().to_arrow().to_pylist() == [{"city": "bern", "fare": 2}]


def test_a_purge_of_rows_that_are_not_behind_the_link_is_done(house, tmp_path):
    (tmp_path / "mine").mkdir()
    (table_folder(house) / "data" / "partition_x").symlink_to(tmp_path / "mine")
    with sl.connect(house, data_paths=[tmp_path / "mine"]) as session:
        assert session.table("t").maintenance.purge("city = 'rome'", force=True).complete


@pytest.mark.parametrize("folder", ["data", "data/partition_root", "statestore/files"])
def test_the_deletion_of_a_table_names_what_stays_behind_a_link(house, tmp_path, folder):
    linked, other = table_folder(house) / folder, tmp_path / "mine"
    linked.rename(other)
    linked.symlink_to(other)
    before = tree(other)
    with sl.connect(house, data_paths=[other]) as session:
        with pytest.raises(ConfirmationNeeded, match=f"; what stays: {other}, where links lead") as error:
            session.drop_table("t")
        done = session.drop_table("t", force=True)
    for report in (error.value.plan, done):
        assert report.linked == (str(other),)
        assert f"stays: what a link leads to  {other}" in repr(report)
    assert (tree(other), linked.parent.exists()) == (before, False)


def test_deleting_a_table_whose_folder_is_a_link_deletes_nothing_where_it_leads(house, tmp_path):
    linked, other = table_folder(house), tmp_path / "mine"
    linked.rename(other)
    linked.symlink_to(other)
    before = tree(other)
    with sl.connect(house) as session, contextlib.suppress(SleeperError):
        session.drop_table("t", force=True)
    assert tree(other) == before


def test_a_linked_warehouse_is_one_place(house, tmp_path):
    (tmp_path / "link").symlink_to(house)
    with sl.connect(tmp_path / "link") as session:
        assert session.table("t").scan().count() == 2
        session.create_table("u", SCHEMA, properties={DATA_PATH: str(house / "below")}).ingest(ROWS)


def test_creating_a_table_outside_says_the_line_before_anything_is_made(tmp_path):
    with sl.connect(tmp_path / "house") as session:
        with pytest.raises(NotAllowed, match="outside"):
            session.create_table("t", SCHEMA, properties={DATA_PATH: str(tmp_path / "other")})
        assert not len(session.tables())
        assert not tree(tmp_path / "house" / "default" / "config")
        session.allow(data_paths=[tmp_path / "other"])
        session.create_table("t", SCHEMA, properties={DATA_PATH: str(tmp_path / "other" / "below")}).ingest(ROWS)


@pytest.mark.parametrize(
    ("address", "root", "within"),
    [("s3://b/w/x", "s3://b/w", True), ("s3://b/w", "s3://b/w", True), ("s3://b/w2", "s3://b/w", False),
     ("s3://b/w/../x", "s3://b/w", False), ("s3://other/w", "s3://b/w", False), ("/b/w", "s3://b/w", False),
     ("/b/w/x", "/b/w", True), ("/b/w/../x", "/b/w", False), ("/b", "/", True), ("s3://b", "/", False),
     ("file:///b/w", "/b/w", True)],
)  # fmt: skip
def test_what_lies_within_a_place(address, root, within):
    assert lies_within(address, root) is within


BAD = ["../evil.parquet", "/etc/passwd", "data/../../evil.parquet", "..", "data/./x.parquet", "a\0b"]


@pytest.mark.parametrize("path", BAD)
def test_a_storage_opens_nothing_outside_its_folder(tmp_path, path):
    (tmp_path / "evil.parquet").write_bytes(b"x")
    storage = Storage(tmp_path / "in")
    changes = (
        storage.below, storage.delete, storage.list, storage.folders, storage.delete_all,
        lambda p: storage.write(p, b"y"), lambda p: storage.write_new(p, b"y"),
    )  # fmt: skip
    reads = (storage.locate, storage.read, storage.size, storage.stamped, storage.has, storage.input,
             lambda p: storage.dataset(["good", p]))  # fmt: skip
    for use in (*changes, *reads):
        # files with a whole address are read where the user allows it (`Table.add_files`)
        expected = NotAllowed if use in reads and path.startswith("/") else StorageError
        with pytest.raises(expected, match=r"is not below|is outside the warehouse"):
            use(path)
    assert (tmp_path / "evil.parquet").read_bytes() == b"x"


def rewritten(path: Path, old: str, new: str) -> None:
    rows = pq.read_table(path).to_pylist()
    schema = pq.read_schema(path)
    assert old in str(rows)
    changed = [{k: v.replace(old, new) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(changed, schema=schema), path)


USES = {
    "scan": lambda table: table.scan().to_arrow(),
    "sql": lambda table: table.scan().to_duckdb().fetchall(),
    "compact": lambda table: [table.ingest(ROWS), table.maintenance.compact("all", engine="local")],
    "gc": lambda table: table.maintenance.collect_garbage(dry_run=False),
    "at": lambda table: table.at(2).scan().to_arrow(),
}


@pytest.mark.parametrize("use", USES)
def test_references_that_lead_outside_are_refused_and_found_by_check(house, tmp_path, use):
    folder = table_folder(house)
    (data,) = (folder / "data").rglob("*.parquet")
    name = data.relative_to(folder).as_posix()
    outside = tmp_path / "mine.parquet"
    data.rename(outside)
    for metadata in (folder / "statestore/files").iterdir():
        if name in str(pq.read_table(metadata).to_pylist()):
            rewritten(metadata, name, "../../../mine.parquet")
    with sl.connect(house) as session:
        table = session.table("t")
        try:
            USES[use](table)
        except SleeperError as error:
            assert "mine.parquet" in error.message  # noqa: PT017 - garbage collection may have nothing to do with it
        else:
            assert use == "gc"
        assert "mine.parquet" in repr(table.maintenance.check())
    assert outside.is_file()


@pytest.mark.parametrize("column", ["table_id", "metadata", "savepoint"])
def test_rows_of_the_catalog_that_lead_outside_are_refused(house, tmp_path, column):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("x")
    with sl.connect(house) as session:
        session.table("t").create_savepoint("kept")
    connection = sqlite3.connect(house / "default" / "catalog.sqlite")
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    for each in tables:
        for _, name, *_ in connection.execute(f"pragma table_info({each})").fetchall():
            old, new = {
                "table_id": (table_folder(house).name, "../../mine"),
                "metadata": ("statestore/", "../../../mine/"),
                "savepoint": ("statestore/", "/../../mine/"),
            }[column]
            if column == "table_id" or (each.startswith("savepoint")) == (column == "savepoint"):
                column_name = f'"{name}"'
                connection.execute(
                    f"update {each} set {column_name} = replace({column_name}, ?, ?) "
                    f"where typeof({column_name}) = 'text'",
                    (old, new),
                )
    for each in ("snapshots", "savepoints"):  # as if an earlier build had written them
        connection.execute(f"update {each} set checksum = null")
    connection.commit()
    connection.close()
    before = tree(tmp_path / "mine")
    version = "savepoint.kept" if column == "savepoint" else 2
    with sl.connect(house) as session:
        with pytest.raises(SleeperError):
            session.table("t").scan(version=version).to_arrow()
        if column == "table_id":
            with pytest.raises(SleeperError):
                session.drop_table("t", force=True)
    assert tree(tmp_path / "mine") == before


def test_a_file_of_split_points_that_properties_name_is_the_users_to_name(house, tmp_path):
    (tmp_path / "points").write_text("m\n")
    edit(house, "sleeper.table.splits.file", str(tmp_path / "points"))
    with sl.connect(house) as session:
        with pytest.raises(NotAllowed, match="points") as error:
            session.admin.reinitialise("t", delete_partitions=True, dry_run=True)
        assert "splits_file=" in error.value.hint
        assert "splits_file=FILE" in error.value.hint
        plan = session.admin.reinitialise(
            "t", delete_partitions=True, splits_file=str(tmp_path / "points"), dry_run=True
        )
        assert plan
        session.create_table("u", SCHEMA, properties={"sleeper.table.splits.file": str(tmp_path / "points")})


def test_permissions_add_up():
    more = Permissions.of({"a": every}, ["/x"]).with_more(Permissions.of(["a", "b"], ["/x", "s3://b"]))
    assert (more.iterators, more.data_paths) == ({"a": every, "b": None}, ("/x", "s3://b"))
    assert Path(Permissions.of((), ["x"]).data_paths[0]).is_absolute()


@pytest.mark.spark
def test_spark_hands_permissions_to_its_processes_and_imports_nothing_that_files_name(house, spark_engine):
    edit(house, ITERATOR, "evil:f")
    kept = json.dumps({"type": "struct", "fields": [{"name": "filename", "nullable": True, "metadata": {}, "type": {
        "type": "udt", "pyClass": "evil.f", "serializedClass": "", "sqlType": "string"}}]})  # fmt: skip
    for metadata in (table_folder(house) / "statestore/files").iterdir():
        rows = pq.read_table(metadata)
        named = {**(rows.schema.metadata or {}), b"org.apache.spark.sql.parquet.row.metadata": kept.encode()}
        pq.write_table(rows.replace_schema_metadata(named), metadata)
    spark = spark_engine.session()
    with sl.connect(house, spark=spark) as session:
        assert len(session.sql("select filename, bytes from t$files").to_arrow()) == 1
        with pytest.raises(NotAllowed):
            session.sql("select * from t").to_arrow()
        with pytest.raises(Exception, match="iterators = \\["):
            spark.read.format("sleeper").option("table", "t").load().count()
        assert not Path("pwned").exists()
        session.allow({"evil:f": none})
        assert session.sql("select count(*) as n from t").to_arrow()["n"].to_pylist() == [0]
        assert spark.read.format("sleeper").option("table", "t").load().count() == 0
    assert not Path("pwned").exists()
