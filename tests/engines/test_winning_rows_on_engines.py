"""Tables that loads change: the same rows on each engine, before and after compactions, as a plain model in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound
from tests.support.builders import START
from tests.support.examples import examples
from tests.support.winning_rows import ORDERED, Rules, model, plain, rules

AGGREGATIONS, DELETE_COLUMN = "sleeper.table.aggregations", "sleeper.table.aggregations.delete.column"
SMALL_JOBS = {"sleeper.table.compaction.files.batch.size": "2"}
PEOPLE = sl.Schema(
    {"id": "string"}, {}, {"changed_at": "long", "name": "string?", "town": "string?", "gone": "boolean?"}
)
LAST = {AGGREGATIONS: "last(*,changed_at)"}
DELETING = {**LAST, DELETE_COLUMN: "gone"}
Rows = list[dict[str, Any]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock) -> Any:
    with sl.connect(tmp_path, clock=clock) as opened:
        yield opened


def created(session: sl.Session, made: Rules) -> sl.Table:
    properties = {AGGREGATIONS: made.aggregations, **SMALL_JOBS}
    if made.delete_column:
        properties[DELETE_COLUMN] = made.delete_column
    return session.create_table("t", made.schema, [1], properties=properties)


def duckdb_rows(session: sl.Session, query: str = "select * from t") -> Rows:
    return session.sql(query, engine="duckdb").to_arrow().to_pylist()


@examples(15)
@given(st.data(), st.booleans())
def test_queries_and_compactions_in_any_order_give_the_models_rows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, is_native: bool
):
    made = data.draw(rules(ORDERED) if is_native else rules())
    rows: Rows = []
    versions: dict[int, list[str]] = {}
    with sl.connect(tmp_path_factory.mktemp("w"), clock=ManualClock(START)) as session:
        table = created(session, made)
        steps = data.draw(st.lists(st.sampled_from(["load", "load", "basic", "size-ratio"]), max_size=6))
        for step in [*steps, "all"]:
            if step == "load":
                loaded = data.draw(st.lists(made.rows(), min_size=1, max_size=4))
                table.ingest(pa.Table.from_pylist(loaded, made.schema.arrow))
                rows = rows + loaded
            else:
                table.maintenance.compact(step, engine="local")
            wanted = model(rows, made)
            versions[table.at().resolved.snapshot_id] = plain(wanted)
            assert plain(table.scan().to_arrow().to_pylist()) == plain(wanted)
            assert plain(duckdb_rows(session)) == plain(wanted)
            assert table.scan().count() == duckdb_rows(session, "select count(*) n from t")[0]["n"] == len(wanted)
            some = data.draw(st.lists(st.sampled_from(made.schema.names), min_size=1, unique=True))
            few = plain({name: row[name] for name in some} for row in wanted)
            assert plain(table.scan(columns=some).to_arrow().to_pylist()) == few
            assert plain(duckdb_rows(session, f"select {', '.join(some)} from t")) == few
        for version, before in versions.items():
            assert plain(table.at(version).scan().to_arrow().to_pylist()) == before
            assert plain(duckdb_rows(session, f"select * from t version as of {version}")) == before
        assert table.maintenance.check(deep=True).findings == ()


def person(id_: str, changed_at: int, name: str | None = None, **others: Any) -> dict[str, Any]:
    return {"id": id_, "changed_at": changed_at, "name": name, "town": None, "gone": None, **others}


def people(session: sl.Session, properties: dict[str, str], *loads: Rows) -> sl.Table:
    table = session.create_table("people", PEOPLE, properties=properties)
    for rows in loads:
        table.ingest(rows)
    return table


def names(session: sl.Session) -> dict[str, str | None]:
    """Return the names by id, which are the same by SQL and by a scan."""
    scanned = session.table("people").scan().to_arrow().to_pylist()
    found = duckdb_rows(session, "select * from people")
    assert plain(found) == plain(scanned)
    return {row["id"]: row["name"] for row in scanned}


@pytest.mark.parametrize("strategy", ["all", "size-ratio"])
def test_three_loads_of_the_same_keys_are_one_row_of_each_key(session: sl.Session, strategy: str):
    loads = [[person(id_, at, f"{id_}{at}") for id_ in "abc"] for at in (2, 3, 1)]
    table = people(session, {**LAST, "sleeper.table.compaction.strategy.sizeratio.ratio": "1"}, *loads)
    assert names(session) == {"a": "a3", "b": "b3", "c": "c3"}
    assert duckdb_rows(session, "select name from people where id = 'b'") == [{"name": "b3"}]
    assert duckdb_rows(session, "select id from people where name = 'b2'") == []
    table.maintenance.compact(strategy, engine="local")
    (file,) = table.inspect.files()
    assert file["rows"] == 3
    assert names(session) == {"a": "a3", "b": "b3", "c": "c3"}
    assert [row["name"] for row in table.at(2).scan().to_arrow().to_pylist()] == ["a2", "b2", "c2"]


def test_a_diff_has_the_row_before_and_the_row_after_a_load_that_changes_it(session: sl.Session):
    table = people(session, DELETING, [person("a", 1, "old"), person("b", 1, "b"), person("c", 5, "newer")])
    before = table.at().resolved.snapshot_id
    table.ingest([person("a", 2, "new"), person("b", 2, gone=True), person("c", 2, "late")])
    changes = table.changes(before)
    assert [row["name"] for row in changes.removed.to_arrow().to_pylist()] == ["old", "b"]
    assert [row["name"] for row in changes.added.to_arrow().to_pylist()] == ["new"]
    diff = table.diff(before)
    assert (diff.rows_added, diff.rows_removed) == (1, 2)
    merged = table.at().resolved.snapshot_id
    table.maintenance.compact("all", engine="local")
    assert table.changes(merged).count() == (0, 0)


def test_a_key_is_hidden_while_its_last_row_marks_it_as_deleted(session: sl.Session):
    table = people(session, DELETING, [person("a", 1, "a"), person("b", 1, "b")])
    table.ingest([person("a", 2, gone=True), person("z", 1, gone=True)])
    assert names(session) == {"b": "b"}
    assert table.scan().count() == 1
    table.ingest([person("a", 2, "no later than the delete")])
    assert names(session) == {"b": "b"}
    table.ingest([person("a", 3, "back", gone=False)])
    assert names(session) == {"a": "back", "b": "b"}


@pytest.mark.parametrize("rule", ["last(*,changed_at)", "last_not_null(*,changed_at)"])
def test_an_older_row_that_comes_late_stays_hidden_after_any_compaction(session: sl.Session, rule: str):
    """The oldest file is large, so that compaction by size leaves it alone."""
    old = [person("a", 1, "a"), *(person(f"b{n}", 1, "b") for n in range(50))]
    others = ([person(id_, 1, id_)] for id_ in "cde")
    table = people(session, {**DELETING, AGGREGATIONS: rule}, old, [person("a", 3, gone=True)], *others)
    table.maintenance.compact("size-ratio", engine="local")
    assert sorted(file["rows"] for file in table.inspect.files()) == [4, 51]
    table.maintenance.compact("all", engine="local")
    assert [file["rows"] for file in table.inspect.files()] == [54]  # one row of each key, also of the deleted one
    assert "a" not in names(session)
    table.ingest([person("a", 2, "late")])
    assert "a" not in names(session)
    table.maintenance.compact("all", engine="local")
    assert [file["rows"] for file in table.inspect.files()] == [54]
    table.ingest([person("a", 4, "back", gone=False)])
    assert names(session)["a"] == "back"


def test_after_a_split_each_leaf_keeps_its_marks(session: sl.Session):
    """A file that a split left to two leaves belongs to both."""
    old = [person(f"a{n}", 2, "a") for n in range(8)]
    table = people(session, DELETING, old, [person("a1", 3, gone=True), person("a6", 3, gone=True)])
    table.maintenance.split(threshold=4)
    table.maintenance.compact("all", engine="local")
    table.ingest([person(f"a{n}", 1, "late") for n in range(8)])
    assert names(session) == dict.fromkeys(["a0", "a2", "a3", "a4", "a5", "a7"], "a")


def test_values_from_before_a_delete_do_not_come_back(session: sl.Session):
    partial = {AGGREGATIONS: "last_not_null(*,changed_at)", DELETE_COLUMN: "gone"}
    table = people(session, partial, [person("a", 1, "before", town="Ulm")], [person("a", 2, "image", gone=True)])
    table.ingest([person("a", 3, town="Bern", gone=False)])
    table.ingest([person("b", 1, "b")])
    table.ingest([person("b", 2, town="Rom")])
    for _ in range(2):
        assert names(session) == {"a": None, "b": "b"}
        assert duckdb_rows(session, "select town from people order by id") == [{"town": "Bern"}, {"town": "Rom"}]
        table.maintenance.compact("all", engine="local")


def test_a_new_column_has_the_rule_of_all_others(session: sl.Session):
    table = people(session, DELETING, [person("a", 1, "a")])
    table.alter({"age": "int?"})
    table.ingest([{**person("a", 2, "a2"), "age": 7}])
    assert names(session) == {"a": "a2"}
    assert duckdb_rows(session, "select age from people") == [{"age": 7}]
    for change in ({"rename_columns": {"changed_at": "at"}}, {"drop_columns": ["gone"]}):
        with pytest.raises(InvalidInput, match=r"is used by the table's sleeper\.table\.aggregations"):
            table.alter(**change)
    table.alter(rename_columns={"town": "place"}, drop_columns=["name"])
    assert duckdb_rows(session, "select * exclude gone from people") == [
        {"id": "a", "changed_at": 2, "place": None, "age": 7}
    ]


def test_a_table_shows_its_rules_and_a_version_keeps_them(session: sl.Session):
    table = people(session, DELETING, [person("a", 1, "a")], [person("a", 2, gone=True)])
    assert "last(*,changed_at)" in repr(table)
    assert "aggregations.delete.column" in repr(table)
    assert "last(*,changed_at), deletes by gone" in repr(table.scan().plan())
    before = table.at().resolved.snapshot_id
    table.set_properties({DELETE_COLUMN: None})
    assert names(session) == {"a": None}
    assert table.at(before).scan().count() == 0


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [({AGGREGATIONS: "last(*,at)"}, NotFound, "'at'"),
     ({DELETE_COLUMN: "dead"}, NotFound, "'dead'"),
     ({DELETE_COLUMN: "name"}, InvalidInput, "'name' cannot mark deletes: it is string"),
     ({AGGREGATIONS: ""}, InvalidInput, "'gone' cannot mark deletes: no aggregation has a sequence"),
     ({AGGREGATIONS: "last(*,changed_at),min(changed_at)"}, InvalidInput, r"min\(changed_at\) contradicts")],
)  # fmt: skip
def test_rules_that_do_not_fit_are_refused_and_change_nothing(
    session: sl.Session, changes: dict[str, str], kind: Any, message: str
):
    table = people(session, DELETING, [person("a", 1, "a")])
    head = table.at().resolved.snapshot_id
    with pytest.raises(kind, match=message) as error:
        table.set_properties(changes)
    assert error.value.hint
    with pytest.raises(kind, match=message):
        session.create_table("other", PEOPLE, properties={**DELETING, **changes})
    assert session.table("people").at().resolved.snapshot_id == head
    assert len(session.tables()) == 1


EXAMPLE = Rules(
    sl.Schema({"k": "int"}, {}, {"s0": "double?", "a": "double?", "b": "list<int>?", "gone": "boolean?"}),
    (("last", "a", "s0"), ("last_not_null", "b", "s0")),
    "gone",
)


def example(k: int, at: float | None, a: float | None, b: list[int] | None, gone: bool | None = None) -> dict[str, Any]:
    return {"k": k, "s0": at, "a": a, "b": b, "gone": gone}


LOADS = [
    [example(0, 1.0, 0.0, [1]), example(0, None, 9.0, [9]), example(1, -0.0, 1.0, [1, 2])],
    [example(0, 2.0, None, None), example(1, 0.0, None, None, gone=True), example(1, 0.0, 5.0, [])],
    [example(0, 2.0, -0.0, None), example(0, 1.5, 3.0, [7])],
    [example(1, float("nan"), 4.0, None)],
]


@pytest.mark.spark
def test_spark_gives_the_models_rows_before_and_after_its_compactions(
    tmp_path: Path, clock: ManualClock, spark_engine: Any
):
    rows: Rows = []
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session()) as session:
        table = created(session, EXAMPLE)
        for loaded in LOADS:
            table.ingest(loaded)
            rows = rows + loaded
            for strategy in ("basic", None):
                wanted = plain(model(rows, EXAMPLE))
                assert plain(session.sql("select * from t").to_arrow().to_pylist()) == wanted
                assert plain(duckdb_rows(session)) == wanted
                (count,) = session.sql("select count(*) c from t").to_arrow().to_pylist()
                assert count["c"] == len(wanted)
                if strategy:
                    table.maintenance.compact(strategy, engine="spark")
