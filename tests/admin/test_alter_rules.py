"""Rules that an existing table gets or loses: its rows are checked first, and those that others load meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.admin.alter import alter
from sleeper_nb.clock import Clock
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.engine import EngineSettings
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.load.sources import find_sources, read_sources
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.evolution import AddCheck, SchemaAlteration, SetNotNull
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.schema import Check
from sleeper_nb.progress import SILENT, Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.table.configuring import new_rules
from tests.support.builders import compact, ingest, rows_of, scan
from tests.support.interleavings import Outcome, Stage, Template, explore

KINDS = (("S3StateStore", "sqlite"), ("TransactionLogStateStore", "sqlite"), ("DynamoDBStateStore", "memory"))
SCHEMA = sl.Schema({"id": "string"}, {}, {"fare": "double?", "n": "int?"})


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    made = session.create_table("t", SCHEMA, ["h"])
    made.ingest([{"id": "a", "fare": 1.0, "n": 1}, {"id": "k", "fare": None, "n": 2}])
    return made


def refused(action: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        action()


def test_a_default_is_for_rows_that_are_loaded_from_now_on(table):
    table.alter({"note": {"type": "string?", "default": "new", "comment": "why"}}, defaults={"n": 7})
    table.ingest([{"id": "b"}])
    assert table.scan(["id", "n", "note"]).to_arrow().to_pylist() == [
        {"id": "a", "n": 1, "note": None},  # older rows have NULL
        {"id": "b", "n": 7, "note": "new"},
        {"id": "k", "n": 2, "note": None},
    ]
    table.alter(defaults={"n": None, "remark": "later"}, rename_columns={"note": "remark"})
    table.ingest([{"id": "c"}])
    assert table.scan(["n", "remark"], keys=["c"]).to_arrow().to_pylist() == [{"n": None, "remark": "later"}]
    assert table.at(2).schema == SCHEMA


def test_a_default_applies_to_the_new_name_of_a_column(table):
    done = table.alter(rename_columns={"fare": "price"}, defaults={"price": "1.5"}, comments={"price": "in dollars"})
    assert "price double? DEFAULT 1.5 COMMENT 'in dollars'" in repr(done)
    refused(lambda: table.alter(defaults={"fare": 1}), NotFound, "no column 'fare'")
    refused(lambda: table.alter(defaults={"price": "x"}), InvalidInput, "default of column 'price': no double")
    refused(lambda: table.alter(defaults={"id": "x"}), InvalidInput, "row key 'id' cannot be")
    refused(lambda: table.alter(comments={"prize": "x"}), NotFound, "no column 'prize'")


def test_not_null_needs_rows_without_null(table):
    before = table.history()[0].id
    refused(
        lambda: table.alter(not_null={"fare": True}), InvalidInput,
        r"column 'fare' is NULL in a row of the table: id = 'k', fare = NULL; nothing was changed",
    )  # fmt: skip
    refused(lambda: table.alter(not_null={"fare": True}, dry_run=True), InvalidInput, "id = 'k'")
    assert table.history()[0].id == before
    table.alter(not_null={"n": True})
    refused(lambda: table.ingest([{"id": "z", "n": None}]), InvalidInput, "column 'n' has 1 null")
    refused(lambda: table.ingest([{"id": "z"}]), InvalidInput, "missing column 'n'")
    table.ingest([{"id": "z", "n": 3}])
    table.maintenance.compact("all", engine="local")
    assert table.scan(["n"]).to_arrow()["n"].to_pylist() == [1, 2, 3]
    assert table.maintenance.check(deep=True).findings == ()
    table.alter(not_null={"n": False})
    table.ingest([{"id": "zz"}])
    refused(lambda: table.alter(not_null={"n": True}), InvalidInput, "id = 'zz'")
    refused(lambda: table.alter(not_null={"id": False}), InvalidInput, "row key 'id' cannot be made nullable")


def test_an_added_column_becomes_not_null_when_all_rows_have_it(session):
    table = session.create_table("u", SCHEMA)
    table.alter({"note": "string?"})
    table.alter(not_null={"note": True})
    table.ingest([{"id": "a", "note": "x"}])
    assert table.scan(["note"]).to_arrow()["note"].to_pylist() == ["x"]


def test_a_check_needs_rows_that_meet_it(table):
    refused(lambda: table.alter(checks={"big": "fare > 5"}), InvalidInput,
            r"check 'big' \(fare > 5\) is false in a row of the table: id = 'a', fare = 1.0")  # fmt: skip
    table.alter(checks={"positive": "fare > 0"})
    refused(lambda: table.ingest([{"id": "b", "fare": -1.0}]), InvalidInput, "check 'positive'")
    refused(lambda: table.alter(checks={"Positive": "fare > 1"}), AlreadyExists, "already exists")
    refused(lambda: table.alter(checks={"positiv": None}), NotFound, "no check 'positiv'")
    refused(lambda: table.alter(drop_columns=["fare"]), InvalidInput, "used by check 'positive'")
    refused(lambda: table.alter(rename_columns={"fare": "p"}), InvalidInput, "used by check 'positive'")
    refused(lambda: table.rollback(2), InvalidInput, "not checked by check 'positive'")
    table.alter(rename_columns={"fare": "p"}, checks={"positive": None, "p_positive": "p > 0"})
    refused(lambda: table.ingest([{"id": "b", "p": -1.0}]), InvalidInput, "check 'p_positive'")
    table.alter(checks={"p_positive": None})
    table.ingest([{"id": "b", "p": -1.0}])
    table.rollback(2)
    assert table.at().plan().rows == 2


def test_a_check_reads_only_files_that_may_break_it(session):
    table = session.create_table("u", sl.Schema({"id": "string"}, {}, {"n": "int"}))
    table.set_properties({"sleeper.table.statistics.columns": "n"})
    table.ingest([{"id": "a", "n": 1}])
    table.ingest([{"id": "b", "n": 100}])
    for file in table.inspect.files():
        table._store.storage.delete(file["filename"])
    table.alter(checks={"small": "n < 1000"})  # the files are gone: their statistics are enough
    refused(lambda: table.alter(checks={"smaller": "n < 50"}), NotFound, "not found|no file|does not exist|gone")


def test_rows_that_no_partition_reads_count_for_not_null(session):
    """Engines read whole row groups; a column without NULL must have none there."""
    table = session.create_table("u", SCHEMA)
    table.ingest([{"id": "a", "n": None}, {"id": "z", "n": 1}])
    table.maintenance.split(at="m")
    refused(lambda: table.alter(not_null={"n": True}), InvalidInput, "id = 'a'")


def test_the_command_does_what_python_does(session, table):
    context = Context("console", connect=sl.connect, session=session)

    def run(line: str) -> Any:
        return COMMANDS.parse_line(line).run(context)

    line = 'alter t --default fare=0.5 --set-not-null n --add-check "small: n < 100" --comment fare="in dollars"'
    assert run(f"{line} --dry-run").dry_run
    run(f'{line} --table-comment "Taxi trips" --unique-keys true --add-column "note string? DEFAULT \'x\'"')
    schema = table.schema
    assert schema.to_dict() == {
        "row_keys": {"id": "string"},
        "sort_keys": {},
        "values": {
            "fare": {"type": "double?", "default": "0.5", "comment": "in dollars"},
            "n": "int",
            "note": {"type": "string?", "default": "x"},
        },
        "checks": {"small": "n < 100"},
        "comment": "Taxi trips",
        "unique_keys": True,
    }
    for word in ("Taxi trips", "n < 100", "in dollars", "unique keys"):
        assert word in repr(run("describe t"))
    assert "in dollars" in repr(run("describe t --fields"))
    run('alter t --drop-default fare --drop-not-null n --drop-check small --comment fare= --table-comment ""')
    run("alter t --unique-keys false --drop-column note")
    assert table.schema.to_dict() == SCHEMA.to_dict()
    for wrong, words in (
        ("alter t --default fare", "write --default fare=0"),
        ("alter t --add-check small", "write --add-check"),
        ("alter t --default fare=1 --drop-default fare", "changed twice"),
        ("alter t --unique-keys maybe", "true"),
        ("alter t --set-not-null nn", "no column 'nn'"),
        ('alter t --add-column "k string KEY"', "only value columns"),
    ):
        with pytest.raises(sl.SleeperError, match=words):
            run(wrong)


def test_a_file_declares_rules(session, tmp_path):
    declared = tmp_path / "tables.toml"
    declared.write_text(
        """
[tables.trips]
row-keys = {city = "string"}
values = {fare = {type = "double?", default = 0, comment = "in dollars"}, n = "int"}
checks = {positive = "fare >= 0"}
comment = "Taxi trips"
unique-keys = true
"""
    )
    session.admin.apply(declared)
    ddl = "city STRING KEY, fare DOUBLE NULL DEFAULT 0 COMMENT 'in dollars', n INT, COMMENT 'Taxi trips'"
    of_ddl = f"{ddl}, CONSTRAINT positive CHECK (fare >= 0), UNIQUE KEYS"
    assert session.table("trips").schema == sl.Schema.from_ddl(of_ddl)
    assert [plan.action for plan in session.admin.apply(declared).plans] == ["nothing"]
    session.admin.apply({"tables": {"trips": {"schema": of_ddl}}})
    refused(
        lambda: session.admin.apply({"tables": {"trips": {"schema": ddl}}}),
        InvalidInput,
        "−unique keys|−check positive",
    )
    wrong = {"schema": ddl, "comment": "x"}
    refused(
        lambda: session.admin.apply({"tables": {"trips": wrong}}), InvalidInput, "comment is given together with schema"
    )
    bad = {"row-keys": {"id": "string"}, "checks": {"c": "now() IS NULL"}}
    refused(lambda: session.admin.apply({"tables": {"bad": bad}}), InvalidInput, "check 'c'")
    assert [each.name for each in session.tables()] == ["trips"]


def test_a_table_that_is_created_with_rows_keeps_its_rules(session, tmp_path):
    rules = {"checks": {"positive": "fare > 0"}, "unique_keys": True}
    schema = sl.Schema({"id": "string"}, {}, {"fare": {"type": "double?", "default": 2}}, **rules)
    good, bad, twice = (
        [{"id": key, "fare": fare} for key in keys] for keys, fare in (("ab", 1.0), ("a", -1.0), ("aa", 1.0))
    )
    for rows, words in ((bad, "check 'positive'"), (twice, "id = 'a' occurs 2 times")):
        refused(lambda rows=rows: session.create_table("u", schema, data=rows), InvalidInput, words)
        assert [each.name for each in session.tables()] == []
    made = session.create_table("u", schema, data=good)
    refused(lambda: made.ingest([{"id": "b"}]), InvalidInput, "already")
    other = session.create_table("like", data=[{"id": "x"}], like="u")
    assert other.schema == made.schema
    assert other.scan().to_arrow().to_pylist() == [{"id": "x", "fare": 2.0}]
    refused(lambda: session.create_table("more", data=bad, like="u"), InvalidInput, "check 'positive'")
    assert len(session.admin.plan_table("plan", schema, data=bad).differences) == 1


@pytest.fixture(params=KINDS, ids=" on ".join)
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    return Template(tmp_path, *request.param, lambda store: ingest(store, rows_of("a", value="x")))


SETTINGS = EngineSettings(Clock(), SILENT, local_files=True, session_id="", spark=None, spark_config={})
ENGINES = Engines.of(SETTINGS, lambda _: None)


def load(store: StateStore, value: str | None) -> Any:
    """Load a row as a table does: by the schema that it has before the row is read."""
    schema = store.load().schema
    sources = find_sources(rows_of("b", value=value))
    rows = read_sources(sources, schema, checks=ENGINES.row_checks(schema)).rows
    return ingest_arrow(store, rows, rows_schema=schema)


def altered(store: StateStore, change: SchemaAlteration) -> Any:
    rules = partial(new_rules, ENGINES, [change])
    return alter(store, "table", [change], NOTHING, dry_run=False, rules=rules)


@pytest.mark.parametrize(
    ("change", "value"),
    [(SetNotNull("value", True), None), (AddCheck(Check("x", "value = 'x'")), "y")],  # noqa: FBT003
    ids=["not null", "check"],
)
def test_rows_that_are_loaded_meanwhile_keep_the_new_rule_or_refuse_it(template, change, value):
    refused_ones = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        (lost,) = (name for name, each in outcomes.items() if each.error)
        error = outcomes[lost].error
        assert isinstance(error, InvalidInput | StateRuleBroken), error
        refused_ones.add(lost)
        store = stage.opened()
        rows = scan(store)["value"].to_pylist()
        assert rows == (["x", value] if lost == "alter" else ["x"])
        has_rule = bool(store.load().schema.checks) or not store.load().schema.values[0].nullable
        assert has_rule == (lost == "load")
        compact(store)
        assert check_table(store, "table", deep=True, progress=Silent()).findings == ()

    operations = {
        "load": lambda stage, gate: load(stage.opened(gate), value),
        "alter": lambda stage, gate: altered(stage.opened(gate), change),
    }
    explore(template.copy, operations, check, most_switches=1)
    assert refused_ones == {"load", "alter"}
