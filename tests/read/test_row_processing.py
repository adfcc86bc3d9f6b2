from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import Permissions
from sleeper_nb.model.processing import (
    AGGREGATIONS,
    FILTERS,
    ITERATOR,
    ITERATOR_CONFIG,
    AgeOff,
    Aggregation,
    DataProcessing,
    PythonIterator,
)
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import (
    START,
    a_store,
    compact,
    in_order,
    ingest,
    on_disk,
    reachable,
    scan,
)

OF = {"sum": sum, "min": min, "max": max}
TYPES = {
    "int": st.integers(-1000, 1000), "long": st.integers(-(2**40), 2**40),
    "double": st.integers(-1000, 1000).map(float), "float": st.integers(-1000, 1000).map(float),
    "decimal(10,2)": st.integers(-1000, 1000).map(Decimal),
    "string": st.sampled_from(["", "a", "é", "\uffff", "\U0001f600"]),
    "bytearray": st.sampled_from([b"", b"\x7f", b"\x80", b"\xff"]), "boolean": st.booleans(),
    "date": st.dates(date(1960, 1, 1), date(2040, 1, 1)),
    "timestamp": st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
}  # fmt: skip
SUMMED = ("int", "long", "double", "float", "decimal(10,2)")


def processed(rows: pa.Table, processing: DataProcessing, schema: Schema, size: int = 3) -> list[dict[str, Any]]:
    batches = list(Processor.of(processing, schema)(rows.to_batches(max_chunksize=size)))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema.arrow).to_pylist()


def sorted_rows(schema: Schema, rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema.arrow).sort_by([(name, "ascending") for name in schema.sort_order])


def combined(rows: list[dict[str, Any]], schema: Schema, aggregations: Iterable[Aggregation]) -> list[dict[str, Any]]:
    """The plain model of aggregations: rows are sorted."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in schema.sort_order), []).append(row)
    return [
        group[0]
        if len(group) == 1
        else group[0] | {a.field: one(a, [row[a.field] for row in group]) for a in aggregations}
        for group in found.values()
    ]


def one(aggregation: Aggregation, values: list[Any]) -> Any:
    reduce = OF[aggregation.item_operation]
    if not aggregation.of_maps:
        return reduce(values)
    items: dict[Any, list[Any]] = {}
    for key, item in (pair for value in values for pair in value):
        items.setdefault(key, []).extend([] if item is None else [item])
    return sorted((key, reduce(each)) for key, each in items.items() if each)


@st.composite
def aggregated(draw: st.DrawFn) -> tuple[Schema, tuple[Aggregation, ...], list[dict[str, Any]]]:
    kinds = draw(st.lists(st.sampled_from([*TYPES, "map<string,int>", "map<long,double>"]), min_size=1, max_size=3))
    fields, aggregations, values = {}, [], {}
    for i, kind in enumerate(kinds):
        is_map = kind.startswith("map")
        usable = ("sum", "min", "max") if is_map or kind in SUMMED else ("min", "max")
        aggregations.append(Aggregation(("map_" if is_map else "") + draw(st.sampled_from(usable)), f"v{i}"))
        fields[f"v{i}"], values[f"v{i}"] = kind, TYPES.get(kind)
        if is_map:
            keys = st.sampled_from(["", "a", "é"]) if "string" in kind else st.integers(0, 2)
            items = st.none() | (st.integers(-5, 5) if "int" in kind else st.integers(-5, 5).map(float))
            values[f"v{i}"] = st.dictionaries(keys, items, max_size=3).map(lambda d: list(d.items()))
    schema = Schema({"k": "string", "n": "int"}, {"t": "long"}, fields)
    keys = {"k": st.sampled_from(["", "a", "é"]), "n": st.integers(0, 1), "t": st.integers(0, 1)}
    return schema, tuple(aggregations), draw(st.lists(st.fixed_dictionaries({**keys, **values}), max_size=14))


@given(aggregated(), st.integers(1, 7))
def test_rows_of_equal_keys_become_one_wherever_batches_end(made: Any, size: int):
    schema, aggregations, rows = made
    table = sorted_rows(schema, rows)
    found = processed(table, DataProcessing(aggregations=aggregations), schema, size)
    assert found == combined(table.to_pylist(), schema, aggregations)
    again = pa.Table.from_pylist(found, schema.arrow)
    assert processed(again, DataProcessing(aggregations=aggregations), schema, size) == found


def only(kind: str) -> Schema:
    return Schema({"k": "int"}, {}, {"v": kind})


def summed(kind: str, *values: Any, operation: str = "sum", size: int = 10) -> Any:
    rows = pa.Table.from_pylist([{"k": 1, "v": value} for value in values], only(kind).arrow)
    (row,) = processed(rows, DataProcessing(aggregations=(Aggregation(operation, "v"),)), only(kind), size)
    return row["v"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2**31 - 1), ("int", -(2**31)), ("long", 2**63 - 1), ("long", -(2**63)), ("decimal(4,2)", Decimal("99.99")),
     ("decimal(38,0)", Decimal(10**38 - 1)), ("map<string,int>", [("a", 2**31 - 1)]),
     ("map<int,long>", [(0, 0), (1, 2**63 - 1)])],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 10])
def test_a_sum_that_does_not_fit_is_an_error_that_names_the_key(kind: str, value: Any, size: int):
    with pytest.raises(InvalidInput, match=r"sum\(v\) of k 1 is too large for") as error:
        summed(kind, value, value, operation="map_sum" if kind.startswith("map") else "sum", size=size)
    assert error.value.hint


@pytest.mark.parametrize("size", [1, 10])
def test_sums_up_to_the_ends_of_their_type_are_exact(size: int):
    assert summed("long", 2**63 - 2, 1, size=size) == 2**63 - 1
    assert summed("long", -(2**62), -(2**62), size=size) == -(2**63)
    assert summed("long", 2**53, 1, 1, size=size) == 2**53 + 2
    assert str(summed("decimal(38,2)", Decimal("0.01"), Decimal(10**36 - 1), size=size)) == "9" * 36 + ".01"


def test_sums_that_leave_the_longs_within_a_batch_only_come_back():
    assert summed("long", 2**63 - 1, 2**63 - 1, -(2**63)) == 2**63 - 2
    assert summed("long", 2**63 - 1, 1, -2) == 2**63 - 2


def test_nan_is_greater_than_all_numbers_in_any_order():
    nan = float("nan")
    for values in ((nan, 1.0, 2.0), (1.0, nan, 2.0), (2.0, 1.0, nan)):
        for kind in ("double", "float"):
            assert summed(kind, *values, operation="max", size=1) != summed(kind, *values, operation="max", size=1)
            assert summed(kind, *values, operation="min", size=1) == 1.0
    assert summed("double", nan, nan, operation="min") != summed("double", nan, nan, operation="min")
    assert summed("double", float("inf"), 1.0) == float("inf")


@pytest.mark.parametrize(
    ("kind", "least", "greatest"),
    [("boolean", False, True), ("date", date(1960, 1, 1), date(2026, 1, 1)), ("bytearray", b"\x7f", b"\x80"),
     ("decimal(4,1)", Decimal("-1.0"), Decimal("2.0")), ("timestamp", START - timedelta(1), START)],
)  # fmt: skip
def test_maps_of_any_exact_key_are_combined_in_order_of_their_keys(kind: str, least: Any, greatest: Any):
    maps = [[(greatest, 1), (least, 2)], [(least, 3)], [], [(greatest, None)]]
    assert summed(f"map<{kind},int>", *maps, operation="map_sum") == [(least, 5), (greatest, 1)]
    assert summed(f"map<{kind},double>", *maps, operation="map_min") == [(least, 2.0), (greatest, 1.0)]


@pytest.mark.parametrize(
    ("kind", "least", "middle", "greatest"),
    [("string", "", "a", "é"), ("bytearray", b"", b"\x7f", b"\x80"), ("boolean", False, False, True),
     ("date", date(1960, 1, 1), date(1999, 1, 1), date(2026, 1, 1)), ("time", time(0), time(1), time(23, 59)),
     ("timestamp", START - timedelta(1), START, START + timedelta(1))],
)  # fmt: skip
def test_values_of_maps_that_have_an_order_are_compared(kind: str, least: Any, middle: Any, greatest: Any):
    maps = [[("a", middle), ("b", None)], [("a", greatest), ("b", middle)], [("a", least)]]
    for size in (1, 9):
        assert summed(f"map<string,{kind}>", *maps, operation="map_min", size=size) == [("a", least), ("b", middle)]
        assert summed(f"map<string,{kind}>", *maps, operation="map_max", size=size) == [("a", greatest), ("b", middle)]


def test_maps_keep_their_order_until_they_are_combined():
    schema = only("map<string,int>")
    rows = pa.Table.from_pylist(
        [{"k": 1, "v": [("b", 1), ("a", 2)]}, {"k": 2, "v": []}, {"k": 2, "v": []}], schema.arrow
    )
    found = processed(rows, DataProcessing(aggregations=(Aggregation("map_max", "v"),)), schema)
    assert [row["v"] for row in found] == [[("b", 1), ("a", 2)], []]


def test_rows_that_are_too_old_or_have_no_time_go():
    schema = Schema({"k": "int"}, {}, {"at": "long?", "seen": "timestamp?"})
    now = START + timedelta(microseconds=1500)
    newest = int(now.timestamp() * 1000) - 1000

    def left(field: str, values: list[Any]) -> list[int]:
        rows = pa.Table.from_pylist([{"k": i, field: value} for i, value in enumerate(values)], schema.arrow)
        return [row["k"] for row in processed(rows, DataProcessing((AgeOff(field, 1000),), now=now), schema)]

    assert left("at", [newest, newest + 1, None, 2**63 - 1, -(2**63)]) == [1, 3]
    at = START + timedelta(milliseconds=1) - timedelta(seconds=1)
    assert left("seen", [at, at + timedelta(microseconds=999), at + timedelta(milliseconds=1), None]) == [2]
    assert processed(pa.Table.from_pylist([{"k": 0, "seen": datetime(1, 1, 1, tzinfo=UTC)}], schema.arrow),
                     DataProcessing((AgeOff("seen", 10**18 - 1),), now=now), schema)  # fmt: skip


# --- iterators: what the tests below name --------------------------------------------------------------------------


def last_of_each(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    keys = batch[config]
    return batch.filter(pa.concat_arrays([pc.not_equal(keys[:-1], keys[1:]), pa.array([True])]))


def newest(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    last = dict(zip(batch["page"].to_pylist(), batch["at"].to_pylist(), strict=True))
    return batch.filter(pc.equal(batch["at"], pa.array([last[page] for page in batch["page"].to_pylist()])))


def without(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.filter(pc.not_equal(batch["n"], int(config)))


def fails(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    raise ZeroDivisionError(config)


def upside_down(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))


def moves(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.set_column(0, "key", pa.array([config] * batch.num_rows))


def renames(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.rename_columns(["key", "n", "values"])


def nulls(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.set_column(1, "n", pa.nulls(batch.num_rows, pa.int32()))


def texts(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    return batch.set_column(1, "n", pa.array(["no number"] * batch.num_rows))


def table(batch: pa.RecordBatch, config: str) -> Any:
    return pa.Table.from_batches([batch])


no_function = 7
KEYED = Schema({"key": "string"}, {"n": "int"}, {"value": "string?"})
ROWS = pa.Table.from_pylist([{"key": k, "n": n} for k in "abc" for n in range(4)], KEYED.arrow)


def allowed(name: str, config: str = "") -> PythonIterator:
    return PythonIterator(name, config, Permissions.of([name]))


def iterated(name: str, config: str = "", size: int = 3) -> list[dict[str, Any]]:
    iterator = allowed(name if ":" in name or "." in name else f"{__name__}:{name}", config)
    return processed(ROWS, DataProcessing(iterator=iterator), KEYED, size)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
def test_an_iterator_sees_all_rows_of_a_key_at_once(size: int):
    assert [(row["key"], row["n"]) for row in iterated("last_of_each", "key", size)] == [("a", 3), ("b", 3), ("c", 3)]
    assert iterated("without", "9", size) == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("name", "message"),
    [("fails", "ZeroDivisionError: text"), ("upside_down", "not sorted"), ("moves", "keys outside the range"),
     ("renames", "the columns key, n, values"), ("nulls", "do not fit"), ("texts", "do not fit"),
     ("table", "returned a Table")],
)  # fmt: skip
def test_an_iterator_that_fails_or_breaks_its_promise_is_named(name: str, message: str):
    with pytest.raises(InvalidInput, match=rf"iterator '{__name__}:{name}'.*{message}") as error:
        iterated(name, "text")
    assert error.value.hint


def test_an_iterator_that_is_not_there_names_the_nearest():
    with pytest.raises(NotFound, match="last_of_eac") as error:
        iterated("last_of_eac")
    assert "last_of_each" in (error.value.hint or "")
    with pytest.raises(InvalidInput, match="cannot be imported: ModuleNotFoundError"):
        iterated("no.such.module:f")
    with pytest.raises(InvalidInput, match="is a int"):
        iterated("no_function")
    with pytest.raises(NotFound, match=r"no iterator 'some\.name'") as error:
        iterated("some.name")
    assert "package.module:function" in (error.value.hint or "")


def test_an_iterator_can_be_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "offered-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sleeper_nb.iterators]\nlast.one = {__name__}:last_of_each\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [row["n"] for row in iterated("last.one", "key")] == [3, 3, 3]
    with pytest.raises(NotFound) as error:
        iterated("last.on")
    assert "last.one" in (error.value.hint or "")


# --- in queries and in compaction ----------------------------------------------------------------------------------

VISITS = Schema({"page": "string"}, {"at": "long"}, {"n": "int", "by": "map<string,long>"})
COMBINE = (Aggregation("sum", "n"), Aggregation("map_sum", "by"))
NOW_MS = int(START.timestamp() * 1000)


@pytest.fixture
def visits(tmp_path: Path, clock: ManualClock) -> Iterator[StateStore]:
    store = a_store(tmp_path, VISITS, ["m"], clock=clock)
    for number in range(3):
        ingest(store, [
            {"page": page, "at": NOW_MS - age, "n": number, "by": [(page, 1), ("all", 1)]}
            for page in ("a", "é") for age in (0, 500, 1500)
        ])  # fmt: skip
    yield store
    store.catalog.close()


def at(**parts: Any) -> DataProcessing:
    return DataProcessing(**parts, now=START)


def properties_of(done: DataProcessing) -> TableProperties:
    """Return the properties of a table that say what is done to its rows."""
    lists = {FILTERS: ",".join(map(str, done.filters)), AGGREGATIONS: ",".join(map(str, done.aggregations))}
    if done.iterator is None:
        return TableProperties(lists)
    named = {ITERATOR: done.iterator.name, ITERATOR_CONFIG: done.iterator.config}
    return TableProperties({**lists, **named}, permissions=done.iterator.permissions)


def test_condition_columns_and_limit_are_about_processed_rows(visits: StateStore):
    done = at(filters=(AgeOff("at", 1000),), aggregations=COMBINE)
    assert [row["n"] for row in scan(visits, processing=done).to_pylist()] == [3, 3, 3, 3]
    assert scan(visits, processing=done, where="n = 3 and page = 'a'").num_rows == 2
    assert scan(visits, processing=done, where="n = 2").num_rows == 0
    assert scan(visits, processing=done, columns=["by", "n"], limit=3).schema.names == ["by", "n"]
    assert scan(visits, processing=done, columns=["n"], where="page > 'b'", limit=1).to_pylist() == [{"n": 3}]
    assert scan(visits, processing=done, columns=["n"], where="PAGE = 'a'").to_pylist() == [{"n": 3}] * 2
    assert scan(visits, processing=done, keys="a", columns=["page"]).to_pylist() == [{"page": "a"}] * 2
    assert scan(visits, processing=done, limit=0).num_rows == 0
    for wrong, said in (
        ("pge > 'b'", r"cannot read the condition \"pge > 'b'\": no column 'pge'\nhint: did you mean 'page'\?"),
        ("n >", "cannot read the condition 'n >': syntax error at '>'\nhint: write it in SQL"),
        ("n", "cannot read the condition 'n': it is a value of type int, not true or false"),
        ("cast(page as int) = n", "cannot compute the condition"),
    ):
        with pytest.raises(InvalidInput, match=said) as caught:
            scan(visits, processing=done, where=wrong)
        assert "DataFusion" not in str(caught.value)


def test_a_condition_on_sort_keys_does_not_change_what_an_iterator_sees(visits: StateStore):
    newest = at(iterator=allowed(f"{__name__}:last_of_each", "page"))
    assert scan(visits, processing=newest, where=f'"at" < {NOW_MS}').num_rows == 0
    assert scan(visits, processing=newest, where="page = 'a'", columns=["at"]).to_pylist() == [{"at": NOW_MS}]


def test_a_plan_tells_no_count_of_rows_that_are_processed(visits: StateStore):
    state = visits.load()
    assert scan(visits, processing=at(filters=(AgeOff("at", 1000),))).num_rows == 12
    assert plan_scan(state).rows == 18
    assert plan_scan(state, processing=at(aggregations=COMBINE)).rows is None
    assert "sum(n), map_sum(by)" in repr(plan_scan(state, processing=at(aggregations=COMBINE)))


@pytest.mark.parametrize(
    ("parts", "rows"),
    [({"filters": (AgeOff("at", 1000),)}, 12), ({"aggregations": COMBINE}, 6),
     ({"filters": (AgeOff("at", 1000),), "aggregations": COMBINE}, 4),
     ({"iterator": allowed(f"{__name__}:newest")}, 6),
     ({"iterator": allowed(f"{__name__}:without", "1"), "aggregations": COMBINE}, 12)],
)  # fmt: skip
def test_compaction_changes_no_answer(visits: StateStore, parts: Any, rows: int):
    done = at(**parts)
    before = scan(visits, processing=done)
    made = compact(visits, properties=properties_of(done))
    assert in_order(scan(visits, processing=done).to_pylist()) == in_order(before.to_pylist())
    assert visits.load().totals()[1] == rows
    assert made.rows == 18
    ingest(visits, [{"page": "b", "at": NOW_MS, "n": 4, "by": []}])
    assert scan(visits, processing=done).num_rows == before.num_rows + 1


def test_a_compaction_after_which_no_row_is_left_has_no_output(visits: StateStore):
    gone = at(filters=(AgeOff("at", 0),))
    compact(visits, properties=properties_of(gone))
    assert visits.load().totals()[:2] == (0, 0)
    assert scan(visits, processing=gone).num_rows == 0
    assert scan(visits).num_rows == 0
    assert reachable(visits) <= on_disk(visits)


def test_rows_that_grow_old_later_are_dropped_from_what_was_compacted_before(tmp_path: Path, clock: ManualClock):
    """A sum of old and new rows must not be made by a compaction, as the old ones may have to leave it."""
    value = Schema({"page": "string"}, {}, {"at": "long", "n": "int"})
    store = a_store(tmp_path, value, clock=clock)
    for age in (0, 500):
        ingest(store, [{"page": "a", "at": NOW_MS - age, "n": 1}])
    parts = {"filters": (AgeOff("at", 1000),), "aggregations": (Aggregation("max", "at"), Aggregation("sum", "n"))}
    compact(store, properties=properties_of(DataProcessing(**parts)))
    found = {
        later: scan(store, processing=DataProcessing(**parts, now=START + timedelta(milliseconds=later))).to_pylist()
        for later in (0, 600, 1000)
    }
    assert [[row["n"] for row in rows] for rows in found.values()] == [[2], [1], []]
