"""Declared tables: `apply` makes them, changes their properties, and does nothing the second time."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb import cli
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.progress import Silent
from sleeper_nb.session import Session
from sleeper_nb.session.apply import read_declarations
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import START
from tests.support.faults import DeadError, Trap, TrappedCatalog, TrappedStorage

DELAY = "sleeper.table.gc.delay.minutes"
DECLARED = f"""
[tables.trips]
schema = '''
city STRING KEY
pickup TIMESTAMP SORT
fare DOUBLE NULL
'''
split-points = ["g", "n"]

[tables.trips.properties]
"{DELAY}" = 30
snapshot.time-retained = "30 d"

[tables.sales]
row-keys = {{id = "long", part = "bytearray"}}
values = {{note = "string?"}}
split-points = [5, "10"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tables.toml"
    path.write_text(DECLARED)
    return path


def state_of(session):
    return {
        table.name: (table.schema, table.at().resolved.snapshot_id, table.at().properties, table.at().state.tree)
        for table in session.tables()
    }


def test_declared_tables_are_made_and_again_nothing_changes(session, file):
    planned = session.admin.apply(file, dry_run=True)
    assert len(session.tables()) == 0
    assert planned.to_dict() == {"tables": {"trips": "create", "sales": "create"}, "left": [], "dry_run": True}
    done = session.admin.apply(file)
    assert done.plans == planned.plans
    trips = session.table("trips")
    assert trips.schema == sl.Schema({"city": "string"}, {"pickup": "timestamp"}, {"fare": "double?"})
    assert (trips.at().properties[DELAY], trips.at().properties["snapshot.time-retained"].days) == (30, 30)
    assert trips.at().state.tree.split_points() == ("g", "n")
    assert session.table("sales").at().state.tree.split_points() == (5, 10)
    before = state_of(session)
    assert session.admin.apply(file).to_dict()["tables"] == {"trips": "nothing", "sales": "nothing"}
    assert state_of(session) == before


def test_properties_that_differ_are_changed_and_others_are_left(session, file):
    session.admin.apply(file)
    session.table("trips").set_properties({DELAY: "5", "snapshot.num-retained.min": "3"})
    session.create_table("mine", sl.Schema({"k": "int"}))
    planned = session.admin.apply(file, dry_run=True)
    assert f"{DELAY}=30 (was 5)" in repr(planned)
    assert "not declared, so not changed: mine" in repr(planned)
    assert "nothing was changed" in repr(planned)
    assert session.table("trips").at().properties[DELAY] == 5
    assert session.admin.apply(file).to_dict()["tables"] == {"trips": "change", "sales": "nothing"}
    assert session.table("trips").at().properties[DELAY] == 30
    assert session.table("trips").at().properties["snapshot.num-retained.min"] == 3
    assert session.admin.apply(file).to_dict()["tables"] == {"trips": "nothing", "sales": "nothing"}


def test_a_tree_that_was_split_since_is_left_as_it_is(session, file):
    session.admin.apply(file)
    session.table("trips").maintenance.split(at="z")
    assert session.admin.apply(file).to_dict()["tables"]["trips"] == "nothing"
    assert session.table("trips").at().state.tree.split_points() == ("g", "n", "z")


@pytest.mark.parametrize(
    ("there", "says", "hint"),
    [
        ({"schema": "city INT KEY, note STRING"}, r"−note, .*city row key int → row key string", "table.alter(…)"),
        ({"properties": {"sleeper.table.statestore.classname": "TransactionLogStateStore"}}, "metadata", "migrate"),
    ],
)
def test_a_table_that_cannot_be_as_declared_stops_all(session, file, there, says, hint):
    if "schema" in there:
        session.create_table("trips", sl.Schema.from_ddl(there["schema"]))
        declared = file
    else:
        session.admin.apply(file)
        session.create_table("zebra", sl.Schema({"k": "int"}))
        same = {"schema": "city STRING KEY, pickup TIMESTAMP SORT, fare DOUBLE NULL"}
        declared = {"tables": {"trips": {**same, **there}, "sales": {"schema": "id LONG KEY"}}}
    before = state_of(session)
    with pytest.raises(InvalidInput, match="'trips' cannot be made as declared") as error:
        session.admin.apply(declared)
    assert hint in error.value.hint
    assert state_of(session) == before
    shown = session.admin.apply(declared, dry_run=True)
    assert shown.cannot[0].declared.name == "trips"
    if "schema" in there:
        assert all(part in shown.cannot[0].says for part in ("−note", "+fare value double?", "city row key int →"))
        assert session.admin.apply(declared, skip_conflicts=True).to_dict()["tables"] == {
            "trips": "cannot",
            "sales": "create",
        }
        assert session.table("sales").schema.names == ("id", "part", "note")
        assert session.admin.apply(declared, skip_conflicts=True).failed == ("trips",)
        assert not shown.failed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tables = \n", "line 1, column"),
        ("x = 1\n", "line 1 of .*no setting 'x'"),
        ("# none\n", "declares no table"),
        ("[tables.t]\nschema = 'k INT KEY'\nsplitpoints = [1]\n", "line 3 of .*no setting 'splitpoints'"),
        ("[tables.t]\nschema = 'k SOON KEY'\n", "line 1 of .*table 't'.*unknown field type 'SOON'"),
        ("[tables.t]\nschema = 'k INT KEY'\nvalues = {a = 'int'}\n", "give the columns exactly once"),
        ("[tables.t]\n", "give the columns exactly once"),
        ("[tables.t]\nrow-keys = {k = 'double'}\n", "cannot be a double"),
        ("[tables.t]\nschema = 'k INT KEY'\nsplit-points = 5\n", "not a list"),
        ("[tables.t]\nschema = 'k INT KEY'\n[tables.t.properties]\nsnapshot.time-retained = '7'\n", "line 4 of"),
        ("[tables.t]\nschema = 'k INT KEY'\n[tables.t.properties]\n'snapshot.time' = '7 d'\n", "line 4 of .*no prop"),
        ("[tables.t]\nschema = 'k INT KEY'\n[tables.t.properties]\na = [1]\n", "not a string or integer"),
        ("[tables.t]\nschema = 'k INT KEY'\n[tables.T]\nschema = 'k INT KEY'\n", "differ only in case"),
        ("tables = 3\n", "declares no table"),
        ("[tables]\nt = 3\n", "line 2 of .*not a table"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_line(text, said):
    with pytest.raises(InvalidInput, match=said) as error:
        read_declarations(text, "tables.toml")
    assert error.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        {"split-points": ["n", "g"]},
        {"split-points": ["x", 3]},
        {"properties": {"sleeper.table.splits.file": "nowhere.txt"}},
        {"properties": {"sleeper.table.aggregations": "sum(nothing)"}},
    ],
)
def test_what_a_new_table_cannot_have_is_found_before_any_is_made(session, wrong):
    good = {"schema": "k STRING KEY"}
    with pytest.raises(InvalidInput, match="'bad' cannot be made as declared"):
        session.admin.apply({"tables": {"good": good, "bad": {**good, **wrong}}})
    with pytest.raises(InvalidInput, match="is not a valid table name"):
        session.admin.apply({"tables": {"good": good, "1": good}})
    assert len(session.tables()) == 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_call_shows_no_half_table_and_applying_again_completes(tmp_path, file, after):
    def die():
        raise DeadError

    for at in range(1, 40):
        folder, clock = tmp_path / str(at), ManualClock(START, seed=at)
        with sl.connect(folder, clock=clock) as session:
            session.create_table("trips", read_declarations(DECLARED, "")[0].schema)
        trap = Trap(at, die, after=after)
        catalog = TrappedCatalog(SqliteCatalog(folder / "default" / "catalog.sqlite"), trap)
        storage = TrappedStorage(Storage(folder / "default"), trap)
        died = False
        with Session("default", storage, catalog, clock=clock, progress=Silent(), author=None, spark=None,
                     spark_config={}) as session:  # fmt: skip
            try:
                session.admin.apply(file)
            except DeadError:
                died = True
        with sl.connect(folder, clock=ManualClock(START, seed=99)) as session:
            assert all(table.scan().count() == 0 for table in session.tables())
            session.admin.apply(file)
            assert session.admin.apply(file).to_dict()["tables"] == {"trips": "nothing", "sales": "nothing"}
            assert [table.name for table in session.tables()] == ["sales", "trips"]
        if not died:
            assert at > 3
            return
    pytest.fail("it never ended")


def test_a_file_that_is_not_there_is_named(session, tmp_path):
    with pytest.raises(NotFound, match=r"no file .*none\.toml"):
        session.admin.apply(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(InvalidInput, match="UTF-8"):
        session.admin.apply(tmp_path / "latin.toml")


def test_the_same_on_the_console_and_in_a_notebook(file, monkeypatch, capsys, shell):
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    assert cli.main(["apply", str(file), "--dry-run"]) == 0
    assert "create" in capsys.readouterr().out
    assert cli.main(["apply", str(file)]) == 0
    assert "created" in capsys.readouterr().out
    shell.run_line_magic("sleeper", "use warehouse")
    assert shell.run_line_magic("sleeper", f"apply {file}").to_dict()["tables"] == {
        "trips": "nothing",
        "sales": "nothing",
    }
    file.write_text(DECLARED.replace("fare DOUBLE", "fare FLOAT"))
    assert cli.main(["apply", str(file)]) == 1
    assert "hint: sleeper alter trips" in capsys.readouterr().err


def test_a_table_that_was_altered_can_be_declared_as_it_is_now(session):
    columns = {"row-keys": {"id": "long"}, "values": {"a": "int?", "b": "int?"}}
    session.admin.apply({"tables": {"trips": columns}})
    session.table("trips").alter(drop_columns=["a"], rename_columns={"b": "c"}, add_columns={"a": "string?"})
    now = {"row-keys": {"id": "long"}, "values": {"c": "int?", "a": "string?"}}
    (plan,) = session.admin.apply({"tables": {"trips": {**now, "properties": {DELAY: "45"}}}}).plans
    assert plan.action == "change"
    (again,) = session.admin.apply({"tables": {"trips": {**now, "properties": {DELAY: "45"}}}}).plans
    assert again.action == "nothing"
    other = {**now, "values": {"a": "string?", "c": "int?"}}
    with pytest.raises(InvalidInput, match="the order of columns"):
        session.admin.apply({"tables": {"trips": other}})
