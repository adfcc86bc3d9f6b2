"""The same answers on Arrow, DuckDB and Spark, before and after compaction, against a plain model in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
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

SCHEMA = sl.Schema(
    {"page": "string", "n": "int"},
    {"at": "timestamp"},
    {"visits": "int", "bytes": "long", "cost": "decimal(12,2)", "longest": "double", "first": "string",
     "by": "map<string,long>", "raw": "bytearray"},
)  # fmt: skip
FILTER = {"sleeper.table.filters": "ageOff(at,3600000)"}
COMBINE = {
    "sleeper.table.aggregations":
        "sum(visits),sum(bytes),sum(cost),max(longest),min(first),map_sum(by),max(raw)",
}  # fmt: skip
ALLOWED = ("tests.support.iterators:at_most", "__main__:keep", "no.module:f")
ITERATE = {"sleeper.table.iterator.class.name": "tests.support.iterators:at_most", "sleeper.table.iterator.config": "2"}
PROCESSINGS = {
    "filter": FILTER, "combine": COMBINE, "both": {**FILTER, **COMBINE}, "iterate": ITERATE,
    "iterate and filter": {**ITERATE, **FILTER}, "all": {**ITERATE, **FILTER, **COMBINE},
}  # fmt: skip
PAGES = ["", "a", "m", "é", "\U0001f600"]
REDUCE: dict[str, Callable[[list[Any]], Any]] = {
    "visits": sum, "bytes": sum, "cost": sum, "longest": max, "first": min, "raw": max,
    "by": lambda maps: sorted({k: sum(dict(m).get(k, 0) for m in maps) for m in maps for k in dict(m)}.items()),
}  # fmt: skip


def row(page: str, n: int, minutes: int, visits: int) -> dict[str, Any]:
    return {
        "page": page, "n": n, "at": START - timedelta(minutes=minutes), "visits": visits, "bytes": visits * 2**33,
        "cost": Decimal(visits) / 4, "longest": visits / 2, "first": str(visits),
        "by": [("all", 1), (str(visits), visits)], "raw": bytes([visits * 50]),
    }  # fmt: skip


ROWS = st.lists(
    st.builds(row, st.sampled_from(PAGES), st.integers(0, 1), st.sampled_from([0, 30, 60, 90]), st.integers(0, 5)),
    max_size=10,
)


def expected(rows: list[dict[str, Any]], properties: dict[str, str], now: datetime) -> list[dict[str, Any]]:
    """The plain model."""
    if "sleeper.table.filters" in properties:
        rows = [each for each in rows if each["at"] > now - timedelta(hours=1)]
    if "sleeper.table.iterator.class.name" in properties:
        rows = [each for each in rows if each["visits"] <= 2]
    if "sleeper.table.aggregations" not in properties:
        return rows
    groups: dict[Any, list[dict[str, Any]]] = {}
    for each in rows:
        groups.setdefault((each["page"], each["n"], each["at"]), []).append(each)
    return [
        g[0] if len(g) == 1 else g[0] | {name: reduce([each[name] for each in g]) for name, reduce in REDUCE.items()}
        for g in groups.values()
    ]


PLAIN: dict[str, Callable[[Any], Any]] = {
    "by": lambda v: sorted(dict(v).items()), "raw": bytes, "at": lambda v: v.astimezone(UTC), "cost": float,
}  # fmt: skip


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """One text for each row, in an order of its own: engines write some values in ways of their own."""
    return sorted(repr([(name, PLAIN.get(name, lambda v: v)(v)) for name, v in sorted(row.items())]) for row in rows)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def filled(session: sl.Session, batches: list[list[dict[str, Any]]], properties: dict[str, str]) -> sl.Table:
    table = session.create_table("t", SCHEMA, ["m"], properties=properties)
    for rows in batches:
        table.ingest(pa.Table.from_pylist(rows, SCHEMA.arrow))
    return table


def duckdb_rows(session: sl.Session) -> list[dict[str, Any]]:
    return session.sql("select * from t", engine="duckdb").to_arrow().to_pylist()


@examples(8)
@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from(sorted(PROCESSINGS)), st.sampled_from([0, 30, 31, 90]))
def test_every_query_gives_the_plain_models_rows_before_and_after_compaction(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]], kind: str, later: int
):
    clock = ManualClock(START)
    rows = [each for batch in batches for each in batch]
    with sl.connect(tmp_path_factory.mktemp("w"), clock=clock, iterators=ALLOWED) as session:
        table = filled(session, batches, PROCESSINGS[kind])
        for moment in (0, later):  # compacted at the first, so that some rows grow old behind it
            clock.advance(timedelta(minutes=moment))
            model = expected(rows, PROCESSINGS[kind], clock.now())
            few = [each for each in model if each["visits"] > 1]
            for _ in range(2):
                scan = table.scan()
                assert plain(scan.to_arrow().to_pylist()) == plain(model)
                assert (scan.count(), scan.head(100).num_rows) == (len(model), len(model))
                assert plain(duckdb_rows(session)) == plain(model)
                assert plain(scan.to_duckdb().to_arrow_table().to_pylist()) == plain(model)
                some = table.scan(columns=["visits", "page"], where="visits > 1", region={"page": ("a", None)})
                wanted = sorted((each["visits"], each["page"]) for each in few if each["page"] >= "a")
                for found in (some.to_arrow(), some.to_duckdb().to_arrow_table()):
                    assert sorted(zip(*found.to_pydict().values(), strict=True)) == wanted
                table.maintenance.compact(strategy="all", engine="local")
        assert table.maintenance.check(deep=True).findings == ()
        assert plain(duckdb_rows(session)) == plain(model)


TYPES = sl.Schema(
    {"k": "string"}, {"t": "long"},
    {"i": "int", "l": "long", "d": "decimal(12,2)", "b": "boolean", "s": "string", "x": "bytearray", "f": "double",
     "g": "float", "day": "date", "at": "timestamp"},
)  # fmt: skip
COMBINED = "sum(i),sum(l),sum(d),max(b),min(s),max(x),min(f),max(g),min(day),max(at)"
NAN = float("nan")


def test_duckdb_gives_the_same_combined_rows_of_every_type(tmp_path: Path, clock: ManualClock):
    with sl.connect(tmp_path, clock=clock, iterators=ALLOWED) as session:
        table = session.create_table(
            "t", TYPES, ["m"],
            properties={"sleeper.table.aggregations": COMBINED, "sleeper.table.filters": "ageOff(t,3600000)"},
        )  # fmt: skip
        now = int(START.timestamp() * 1000)
        for number, f in enumerate((1.5, NAN, -2.0)):
            table.ingest([
                {"k": k, "t": now - age, "i": number, "l": 2**40 * number, "d": Decimal(number) / 4, "b": number == 1,
                 "s": ["é", "z", "\uffff"][number], "x": [b"\x7f", b"\x80", b""][number], "f": f, "g": f,
                 "day": date(2026, 1, 1 + number), "at": START + timedelta(microseconds=number)}
                for k in PAGES for age in (0, 3_599_999, 3_600_000)
            ])  # fmt: skip
        found = session.sql("select * from t order by k, t", engine="duckdb")
        arrow = table.scan().to_arrow().sort_by([("k", "ascending"), ("t", "ascending")])
        assert found.to_arrow().num_rows == 10
        assert repr(found.to_arrow().drop_columns("at").to_pylist()) == repr(arrow.drop_columns("at").to_pylist())
        assert found.to_arrow()["at"].cast(arrow["at"].type) == arrow["at"]
        assert found.to_arrow()["f"].to_pylist() == [-2.0] * 10
        assert all(math.isnan(value) for value in arrow["g"].to_pylist())


@pytest.mark.parametrize("value", [{"i": 2**31 - 1}, {"l": 2**63 - 1}, {"d": Decimal("9999999999.99")}])
def test_no_engine_wraps_a_sum_that_does_not_fit(tmp_path: Path, clock: ManualClock, value: dict[str, Any]):
    schema = sl.Schema({"k": "string"}, {}, {"i": "int", "l": "long", "d": "decimal(12,2)"})
    aggregations = {"sleeper.table.aggregations": "sum(i),sum(l),sum(d)"}
    with sl.connect(tmp_path, clock=clock, iterators=ALLOWED) as session:
        table = session.create_table("t", schema, properties=aggregations)
        for _ in range(2):
            table.ingest([{"k": "a", "i": 1, "l": 1, "d": Decimal(1), **value}])
        for run in (
            table.scan().to_arrow,
            lambda: duckdb_rows(session),
            lambda: table.maintenance.compact("all", engine="local"),
        ):
            with pytest.raises(InvalidInput, match=r"too large for|out of range|[Cc]ould not cast|can't be cast"):
                run()
        assert table.scan(columns=["k"]).to_arrow().num_rows == 1
        assert len(table.inspect.files()) == 2


EXAMPLE = [
    [row(page, n, minutes, n + 1) for page in PAGES for n in (0, 1) for minutes in (0, 30, 60)],
    [row(page, n, minutes, 2) for page in PAGES for n in (0, 1) for minutes in (30, 60, 90)],
    [row(page, 0, 0, 5) for page in PAGES],
]


@pytest.mark.spark
@pytest.mark.parametrize("kind", sorted(PROCESSINGS))
def test_spark_gives_the_plain_models_rows_before_and_after_its_compaction(
    tmp_path: Path, clock: ManualClock, spark_engine: Any, kind: str
):
    model = expected([each for batch in EXAMPLE for each in batch], PROCESSINGS[kind], START)
    assert model
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session(), iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, PROCESSINGS[kind])
        for _ in range(2):
            assert plain(session.sql("select * from t").to_arrow().to_pylist()) == plain(model)
            (count,) = session.sql("select count(*) c, sum(visits) v from t where page >= 'a'").to_arrow().to_pylist()
            few = [each["visits"] for each in model if each["page"] >= "a"]
            assert (count["c"], count["v"]) == (len(few), sum(few))
            some = table.scan(columns=["n"], where="visits > 1", keys="é").to_spark()
            assert sorted(each.n for each in some.collect()) == sorted(
                each["n"] for each in model if each["visits"] > 1 and each["page"] == "é"
            )
            table.maintenance.compact(strategy="all", engine="spark")
        assert table.maintenance.check(deep=True).findings == ()


@pytest.mark.spark
def test_a_table_whose_rows_are_all_too_old_is_empty_everywhere(tmp_path: Path, clock: ManualClock, spark_engine: Any):
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session(), iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, {**FILTER, **COMBINE})
        clock.advance(timedelta(days=1))
        for _ in range(2):
            assert table.scan().to_arrow().num_rows == 0
            assert duckdb_rows(session) == []
            assert session.sql("select * from t").to_arrow().num_rows == 0
            table.maintenance.compact(strategy="all", engine="spark")
        assert len(table.inspect.files()) == 0


@pytest.mark.spark
def test_an_error_of_an_iterator_is_short_on_every_engine(tmp_path: Path, clock: ManualClock, spark_engine: Any):
    broken = {**ITERATE, "sleeper.table.iterator.config": "no number"}
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session(), iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, broken)
        head = table.at().resolved.snapshot_id
        for run in (
            table.scan().to_arrow,
            lambda: duckdb_rows(session),
            lambda: session.sql("select * from t").to_arrow(),
            lambda: table.maintenance.compact(strategy="all", engine="local"),
            lambda: table.maintenance.compact(strategy="all", engine="spark"),
        ):
            with pytest.raises(InvalidInput, match="at_most' failed: ValueError: invalid literal") as error:
                run()
            assert error.value.hint == "correct the function; no row was changed"
            assert "\n" not in error.value.message
        assert table.at().resolved.snapshot_id == head


@pytest.mark.spark
def test_a_function_of_the_notebook_runs_in_sparks_tasks(
    tmp_path: Path, clock: ManualClock, spark_engine: Any, monkeypatch: pytest.MonkeyPatch
):
    """`__main__` is another module in a worker."""
    import __main__

    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def keep(batch, config):\n    return batch.slice(0, 1)\n", space)  # noqa: S102 - as a cell of a notebook
    monkeypatch.setattr(__main__, "keep", space["keep"], raising=False)
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session(), iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, {"sleeper.table.iterator.class.name": "__main__:keep"})
        assert session.sql("select count(*) c from t").to_arrow().to_pylist()[0]["c"] > 0
        table.maintenance.compact(strategy="all", engine="spark")


def test_an_old_version_is_read_with_the_processing_of_today(tmp_path: Path, clock: ManualClock):
    with sl.connect(tmp_path, clock=clock, iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, {**FILTER, **COMBINE})
        table.maintenance.compact(strategy="all", engine="local")
        for version in range(2, 5):
            model = expected([each for batch in EXAMPLE[: version - 1] for each in batch], {**FILTER, **COMBINE}, START)
            assert plain(table.at(version).scan().to_arrow().to_pylist()) == plain(model)
            sql = f"select * from t version as of {version}"
            assert plain(session.sql(sql, engine="duckdb").to_arrow().to_pylist()) == plain(model)
        clock.advance(timedelta(days=1))
        assert table.scan(version=2).count() == 0


@pytest.mark.parametrize(
    ("properties", "kind", "message"),
    [({"sleeper.table.filters": "ageOff(att,1)"}, NotFound, "'att'"),
     ({"sleeper.table.filters": "ageOff(page,1)"}, InvalidInput, "'page'"),
     ({"sleeper.table.aggregations": "sum(visits)"}, InvalidInput, "'bytes'"),
     ({"sleeper.table.aggregations": "add(visits)"}, NotFound, "'add'"),
     ({"sleeper.table.iterator.class.name": "no.module:f"}, InvalidInput, "no.module")],
)  # fmt: skip
def test_a_table_is_not_made_with_properties_that_do_not_fit(
    tmp_path: Path, properties: dict[str, str], kind: Any, message: str
):
    with sl.connect(tmp_path, iterators=ALLOWED) as session:
        with pytest.raises(kind, match=message) as error:
            session.create_table("t", SCHEMA, properties=properties)
        assert error.value.hint
        assert not len(session.tables())


def test_properties_that_were_edited_are_held_to_the_schema_when_they_are_accepted(tmp_path: Path, clock: ManualClock):
    with sl.connect(tmp_path, clock=clock, iterators=ALLOWED) as session:
        rows = filled(session, EXAMPLE, {}).scan().to_arrow()
        file = next(tmp_path.rglob("table-*.properties"))
        file.write_text(f"{file.read_text()}\nsleeper.table.filters=ageOff(seen,1000)\n")
        table = session.table("t")
        assert table.scan().to_arrow().equals(rows)
        assert "sleeper.table.filters" in repr(table)  # the change that waits can be seen
        with pytest.raises(NotFound, match="no field 'seen'"):
            table.accept_properties()
        assert table.scan().to_arrow().equals(rows)


def test_a_table_shows_what_it_does_with_rows(tmp_path: Path, clock: ManualClock):
    with sl.connect(tmp_path, clock=clock, iterators=ALLOWED) as session:
        table = filled(session, EXAMPLE, {**FILTER, **ITERATE})
        shown = repr(table)
        assert [line.split()[:1] for line in shown.splitlines()[5:8]] == [
            ["filters"], ["iterator.class.name"], ["iterator.config"],
        ]  # fmt: skip
        assert "rows in files" in shown
        assert table.to_dict()["processing"] == {**FILTER, **ITERATE}
        assert "ageOff(at,3600000)" in repr(table.scan().plan())
        assert table.at().processing.filters[0].max_age_ms == 3_600_000


def test_a_relation_of_combined_rows_has_the_columns_that_are_asked_for(tmp_path: Path):
    schema, one = sl.Schema({"k": "long"}, {}, {"u": "uuid", "v": "long"}), "00000000-0000-0000-0000-000000000001"
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema, properties={"sleeper.table.aggregations": "max(u),sum(v)"})
        for _ in range(2):
            table.ingest([{"k": 1, "u": one, "v": 2}])
        assert table.scan(["v", "v"]).to_duckdb().fetchall() == [(4, 4)]
        assert table.scan([]).to_duckdb().fetchall() == table.scan().to_duckdb().fetchall()
        assert table.scan(["u"]).to_duckdb().types == ["UUID"]
