"""What is shown is what is there, and small promises of the reference: each was broken once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.cli import main
from sleeper_nb.display.preview import preview
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.maintain.compaction_plan import (
    StrategySettings,
    choose_batches,
    reason,
)
from sleeper_nb.read.scan_plan import PlannedFile
from sleeper_nb.report import Data, Grid
from sleeper_nb.versions.create_savepoint import create_savepoint
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.resolve import resolve
from tests.support.backends import Tables
from tests.support.builders import (
    collect,
    forget_all_but_newest,
    ingest,
    rows_hash,
    rows_of,
    save,
)
from tests.support.charts import chart

SCHEMA = sl.Schema({"key": "string"}, {}, {"note": "string?"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "house") as opened:
        yield opened


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    made = session.create_table("t", SCHEMA)
    made.ingest([{"key": f"k{number:02}", "note": None} for number in range(11)])
    return made


# values on the screen


def test_null_and_a_text_that_says_so_differ_everywhere():
    values = [None, "NULL", "'NULL'", "null", ""]
    texts = [str(Data(value)) for value in values]
    assert texts == ["NULL", "'NULL'", "''NULL''", "null", ""]
    assert len(set(texts)) == len(values)
    rows = pa.table({"v": values})
    shown = preview(rows, "")
    assert [line.strip() for line in shown.text().splitlines()[2:7]] == texts
    cells = shown.html()
    assert '<i style="opacity:0.7;">NULL</i>' in cells
    assert cells.count("<i ") == 1
    drawn = chart(pa.table({"x": [None, "NULL"], "y": [1, 2]}), "bar")
    assert [point.label for point in drawn.points] == ["NULL", "'NULL'"]


@pytest.mark.parametrize("text", ["$a$ and $b$", "$$x$$", r"\(x\)", r"\[x\]", r"\begin{align}x\end{align}"])
def test_no_value_is_typeset_as_maths(text: str):
    page = Grid((text,), ((Data(text),),), text, text).html()
    for opening in ("$", r"\(", r"\[", r"\begin"):
        assert page.count(opening) == page.count(f"<span>{opening[0]}</span>{opening[1:]}") or opening not in page
    assert page.startswith('<div class="tex2jax_ignore mathjax_ignore"')


def test_pictures_hold_no_maths_either(table: sl.Table):
    assert "tex2jax_ignore" in table.inspect.partitions().picture


def test_a_long_value_is_shown_whole_and_leaves_room_for_others():
    long = "".join(f"{number:03}-" for number in range(150))
    shown = preview(pa.table({"long": [long, "short"], "other": ["beside", "it"]}), "")
    lines = shown.text().splitlines()
    assert max(map(len, lines)) < 100
    assert lines[2].endswith("beside")
    assert "".join(line[:80].strip() for line in lines[2:10]) == long
    page = shown.html()
    assert f'<div style="max-width:80ch;overflow-wrap:anywhere;">{long}</div>' in page


def test_a_known_total_is_not_called_at_least(table: sl.Table):
    assert "first 10 of 11 rows" in repr(table.describe())
    assert "at least" not in repr(table.describe())


# savepoints


def test_the_fields_of_the_proposal_make_a_savepoint(table: sl.Table):
    proposed = {"id": 3, "savedSnapshotId": 2, "schemaId": 1, "fullManifestList": "list", "recordCount": 7}
    read = sl.Savepoint.from_json(json.dumps(proposed))
    assert (read.id, read.saved_snapshot_id, read.schema_id) == (3, 2, 1)
    assert (read.full_manifest_list, read.record_count, read.name) == ("list", 7, None)
    for missing in proposed:
        with pytest.raises(InvalidInput, match=missing):
            sl.Savepoint.from_json(json.dumps({name: proposed[name] for name in proposed if name != missing}))
    ours = json.loads(table.create_savepoint().to_json())
    del ours["partitions"]  # of ours none may be missing: the file is damaged
    with pytest.raises(InvalidInput, match="partitions"):
        sl.Savepoint.from_json(json.dumps(ours))


def test_a_manager_of_savepoints_is_made_of_a_table(table: sl.Table):
    made = table.create_savepoint("one")
    manager = sl.SavepointManager(table)
    assert manager.savepoint(1) == made
    assert manager.savepoint_path(1) == table.savepoint_manager.savepoint_path(1)


def test_a_creation_that_fails_spends_no_id(table: sl.Table):
    table.create_savepoint("one")
    table.delete_savepoint("one")
    for failing in (
        lambda: table.create_savepoint("one"),
        lambda: table.create_savepoint("two", snapshot=99),
        lambda: table.create_savepoint("snapshot.1"),
    ):
        with pytest.raises((AlreadyExists, NotFound, InvalidInput)):
            failing()
    assert table.create_savepoint("two").id == 2


@pytest.mark.parametrize("first_goes_first", [True, False])
def test_an_expired_version_can_be_saved_again(tables: Tables, first_goes_first: bool):
    store = tables.opened()
    ingest(store, rows_of("a", "b"))
    one = save(store, "one")
    rows = rows_hash(store, one)
    ingest(store, rows_of("c"))
    forget_all_but_newest(store)
    found = resolve(store.catalog, store.table_id, "t", None)
    found = type(found)(one, found.reference)
    with pytest.raises(AlreadyExists):
        create_savepoint(store, found, name="one", message=None, author=None)
    two = create_savepoint(store, found, name="two", message="again", author="me")
    assert (two.id, two.name, two.message) == (2, "two", "again")
    assert (two.saved_snapshot_id, two.record_count) == (one.saved_snapshot_id, one.record_count)
    goes, stays = (one, two) if first_goes_first else (two, one)
    delete_savepoint(store, goes)
    collect(store)
    assert store.catalog.savepoints(store.table_id) == (stays,)
    assert rows_hash(store, stays) == rows
    with pytest.raises(NotFound, match="deleted in the meantime"):
        create_savepoint(store, type(found)(goes, None), name=None, message=None, author=None)
    assert rows_hash(store, stays) == rows
    store.catalog.close()


# tables, compaction and the console


def test_an_empty_split_points_file_makes_one_partition(session: sl.Session, tmp_path: Path):
    (tmp_path / "points.txt").write_text("")
    made = session.create_table("one", SCHEMA, properties={"sleeper.table.splits.file": str(tmp_path / "points.txt")})
    assert len(made.at().partition_tree.leaves) == 1
    session.admin.reinitialise("one", delete_partitions=True, splits_file=str(tmp_path / "points.txt"), force=True)
    assert len(made.at().partition_tree.leaves) == 1


@pytest.mark.parametrize("key", ["int", "string", "bytearray"])
def test_an_error_about_a_file_outside_the_warehouse_shows_none_of_its_lines(
    session: sl.Session, tmp_path: Path, key: str
):
    (tmp_path / "passwd").write_text("zroot:x:0:0\nroot:x:0:0\n")
    properties = {"sleeper.table.splits.file": str(tmp_path / "passwd")}
    with pytest.raises(InvalidInput, match=r"line \d of .*passwd") as error:
        session.create_table("one", sl.Schema({"k": key}), properties=properties)
    assert "root:x" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize("most", [None, 11])
def test_a_job_says_how_many_files_it_merges(most: int | None):
    files = [PlannedFile(f"f{number}", 1, 1, None) for number in range(200)]
    settings = StrategySettings(batch_size=100)
    for batch in choose_batches("basic", files, settings, most):
        assert reason("basic", batch, settings) == f"a full batch of {len(batch)} files"
    assert len(choose_batches("basic", files, settings, most)[0]) == (most or 100)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)

    def called(*words: str, code: int = 0) -> str:
        assert main(words) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return called


def test_a_schema_in_the_template_of_properties_is_not_ignored(run: Callable[..., str], tmp_path: Path):
    sl.connect(tmp_path / "warehouse", instance="demo").close()
    run("templates")
    template = tmp_path / "templates" / "tableproperties.template"
    line = "sleeper.table.schema=" + SCHEMA.to_json().replace("\n", "")
    template.write_text(template.read_text() + line + "\n")
    said = run("add-table", "demo", "t", code=1)
    assert "sleeper.table.schema" in said
    assert "schema.template" in said
    assert "t" not in run("tables", "--instance", "demo").splitlines()


def test_help_names_what_every_command_takes(run: Callable[..., str]):
    for asked in ("--help", "help"):
        said = run(asked)
        assert all(word in said for word in ("--warehouse", "--instance", "--version"))
    assert "sleeper-nb" in run("--version")


def test_a_version_read_with_the_current_schema_stays_as_it_was_opened(session: sl.Session):
    table = session.create_table("aged", sl.Schema({"key": "string"}, {}, {"age": "long"}))
    table.ingest([{"key": "a", "age": 0}])
    opened = table.at(2, schema="current")
    before = opened.answering.texts
    table.alter({"more": "int?"})
    table.set_properties({"sleeper.table.filters": "ageOff(age,1000)"})
    assert opened.schema.names == ("key", "age")
    assert opened.answering.texts == before
    assert opened.scan().to_arrow().num_rows == 1
    assert table.at(2, schema="current").scan().to_arrow().num_rows == 0
