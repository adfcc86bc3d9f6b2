from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.processing import (
    AGGREGATIONS,
    DELETE_COLUMN,
    FILTERS,
    ITERATOR,
    ITERATOR_CONFIG,
    NOTHING,
    AgeOff,
    Aggregation,
    DataProcessing,
    PythonIterator,
)
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema

SCHEMA = Schema(
    {"id": "string", "day": "long"},
    {"time": "timestamp"},
    {"n": "int", "name": "string", "by_page": "map<string,long>"},
)
ALL = "sum(n),max(name),map_sum(by_page)"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def processing(schema: Schema = SCHEMA, **texts: str) -> DataProcessing:
    names = {"filters": FILTERS, "aggregations": AGGREGATIONS, "iterator": ITERATOR, "config": ITERATOR_CONFIG}
    return DataProcessing.of(TableProperties({names[key]: text for key, text in texts.items()}), schema, NOW)


def test_a_table_without_such_properties_gives_rows_as_they_are():
    assert processing().is_nothing
    assert processing().columns(SCHEMA, ["n"]) == ("n",)
    assert NOTHING.is_nothing


def test_properties_are_read_in_sleepers_writing():
    found = processing(
        filters=" ageOff(time, 1000),ageoff( day,0 ) ", aggregations="sum(n), MAX(name) ,map_sum( by_page )"
    )
    assert found.filters == (AgeOff("time", 1000), AgeOff("day", 0))
    assert found.aggregations == (
        Aggregation("sum", "n"), Aggregation("max", "name"), Aggregation("map_sum", "by_page"),
    )  # fmt: skip
    assert processing(iterator="pkg.mod:f", config="a=b, c").iterator == PythonIterator("pkg.mod:f", "a=b, c")
    assert str(found) == "ageOff(time,1000), ageOff(day,0), sum(n), max(name), map_sum(by_page)"


def test_a_row_stays_while_it_is_younger_than_its_greatest_age():
    """Sleeper's boundary: a row that is exactly so old goes."""
    assert AgeOff("day", 1000).oldest_kept(NOW + timedelta(microseconds=999)) == NOW.timestamp() * 1000 - 999


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [(FILTERS, "ageOff", "ageOff(time,86400000)"), (FILTERS, "ageOff(time)", "ageOff(field,milliseconds)"),
     (FILTERS, "ageOff(time,x)", "milliseconds"), (FILTERS, "ageOff(time,-1)", "milliseconds"),
     (FILTERS, "ageOff(time,1),", "ageOff"), (FILTERS, "ageOff(time,1) ageOff(day,1)", "ageOff"),
     (AGGREGATIONS, "sum(n),,max(name)", "sum(visits)"), (AGGREGATIONS, "sum n", "sum(visits)"),
     (ITERATOR_CONFIG, "two\nlines", "one line"), (ITERATOR, " a:b", "function")],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_what_to_write(name: str, text: str, hint: str):
    with pytest.raises(InvalidInput) as error:
        TableProperties({name: text})
    assert name in error.value.message
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(
    ("name", "text", "near"),
    [(FILTERS, "ageOf(time,1)", "ageOff"), (AGGREGATIONS, "summ(n)", "'sum'"), (AGGREGATIONS, "avg(n)", "map_max")],
)
def test_an_unknown_operation_names_the_nearest(name: str, text: str, near: str):
    with pytest.raises(NotFound, match=name) as error:
        TableProperties({name: text})
    assert near in (error.value.hint or "")


@pytest.mark.parametrize(
    ("texts", "kind", "message", "hint"),
    [({"filters": "ageOff(tine,1)"}, NotFound, "no field 'tine'", "time"),
     ({"filters": "ageOff(name,1)"}, InvalidInput, "'name', which is string", "long"),
     ({"aggregations": "sum(m),max(name),map_sum(by_page)"}, NotFound, "no field 'm'", "available"),
     ({"aggregations": "sum(n),max(name)"}, InvalidInput, "'by_page'", "sum(n), max(name), map_max(by_page)"),
     ({"aggregations": "sum(n),map_sum(by_page)"}, InvalidInput, "'name'", "max(name)"),
     ({"aggregations": ALL + ",min(n)"}, InvalidInput, "'n' is combined twice", "one aggregation"),
     ({"aggregations": ALL + ",max(day)"}, InvalidInput, "row key 'day'", "value fields"),
     ({"aggregations": ALL + ",max(time)"}, InvalidInput, "sort key 'time'", "value fields"),
     ({"aggregations": "sum(n),sum(name),map_sum(by_page)"}, InvalidInput, "sum(name) cannot combine", "numbers"),
     ({"aggregations": "sum(n),max(name),sum(by_page)"}, InvalidInput, "map<string,long>", "map_sum, map_min"),
     ({"aggregations": "map_sum(n),max(name),map_sum(by_page)"}, InvalidInput, "map_sum(n)", "sum, min, max")],
)  # fmt: skip
def test_what_does_not_fit_the_schema_is_refused(texts: dict[str, str], kind: Any, message: str, hint: str):
    with pytest.raises(kind) as error:
        processing(**texts)
    assert message in error.value.message
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(
    ("field", "operation"),
    [("int?", "sum"), ("list<int>", "max"), ("map<string,string>", "map_sum"), ("map<double,int>", "map_sum"),
     ("boolean", "sum"), ("date", "sum")],
)  # fmt: skip
def test_values_that_cannot_be_combined_are_refused(field: str, operation: str):
    with pytest.raises(InvalidInput, match="cannot combine"):
        processing(Schema({"k": "int"}, {}, {"v": field}), aggregations=f"{operation}(v)")


def test_the_columns_that_processing_needs_are_read_beside_those_that_are_asked_for():
    assert processing(filters="ageOff(day,1)").columns(SCHEMA, ["n"]) == ("day", "n")
    assert processing(aggregations=ALL).columns(SCHEMA, ["n"]) == ("id", "day", "time", "n")
    assert processing(iterator="a:b").columns(SCHEMA, ["n"]) == SCHEMA.names


def test_compaction_does_only_what_no_later_query_could_miss():
    value_aged = Schema({"k": "string"}, {"t": "long"}, {"seen": "long"})

    def kept(filters: str = "", iterator: str = "", aggregations: str = "") -> tuple[bool, bool, bool]:
        whole = processing(value_aged, filters=filters, iterator=iterator, aggregations=aggregations)
        done = whole.in_compaction(value_aged)
        return bool(done.filters), done.iterator is not None, bool(done.aggregations)

    assert kept("ageOff(t,1)", aggregations="max(seen)") == (True, False, True)
    assert kept("ageOff(seen,1)", aggregations="max(seen)") == (True, False, False)  # sums could not be undone
    assert kept(iterator="a:b") == (False, True, False)
    assert kept(iterator="a:b", aggregations="max(seen)") == (False, True, False)
    assert kept("ageOff(t,1)", "a:b") == (True, False, False)


CHANGING = Schema(
    {"k": "string"}, {"day": "long"},
    {"at": "timestamp?", "n": "int", "name": "string?", "tags": "list<string>?", "begun": "long", "gone": "boolean?"},
)  # fmt: skip


def rules(text: str, deletes: str = "") -> list[str]:
    names = {AGGREGATIONS: text, DELETE_COLUMN: deletes}
    found = DataProcessing.of(TableProperties(names), CHANGING, NOW)
    assert [each.field for each in found.aggregations] == [field.name for field in CHANGING.values]
    return list(map(str, found.aggregations))


def test_a_star_stands_for_all_others_and_a_sequence_keeps_what_wins():
    last = ["last(at,at)", "last(n,at)", "last(name,at)", "last(tags,at)", "last(begun,at)", "last(gone,at)"]
    assert rules("last(*, at)") == rules("max(at),Last(*,at)") == rules("last(at,at),last(*,at)") == last
    assert rules("last(*,at)", "gone") == last
    assert rules("last_not_null(*,at)", "gone") == [
        "last(at,at)", *(f"last_not_null({name},at)" for name in ("n", "name", "tags", "begun")), "last(gone,at)",
    ]  # fmt: skip
    assert rules("sum(n),first(*,begun),min(begun)") == [
        "first(at,begun)", "sum(n)", *(f"first({name},begun)" for name in ("name", "tags", "begun", "gone")),
    ]  # fmt: skip
    assert rules("sum(n),first(name,at),last(*,at)")[0] == "last(at,at)"


@pytest.mark.parametrize(
    ("text", "deletes", "kind", "message", "hint"),
    [("last(n)", "", InvalidInput, "last(n) does not name a field and its sequence", "write last(n,changed_at)"),
     ("last(n,at,k),max(at)", "", InvalidInput, "last(n,at,k)", "last(n,changed_at)"),
     ("first(,at)", "", InvalidInput, "first(,at)", "first(*,changed_at)"),
     ("last(*,att)", "", NotFound, "no field 'att'", "'at'"),
     ("last(*,day)", "", InvalidInput, "cannot compare sort key 'day'", "value field"),
     ("last(k,at),last(*,at)", "", InvalidInput, "cannot combine row key 'k'", "value fields"),
     ("last(*,tags)", "", InvalidInput, "by field 'tags', which is list<string>", "a number, time, string"),
     ("sum(*)", "", InvalidInput, "sum(*) does not name a field", "last, last_not_null, first"),
     ("last(*,at),first(*,begun)", "", InvalidInput, "'*' is combined twice", "one aggregation"),
     ("min(at),last(*,at)", "", InvalidInput, "min(at) contradicts", "leave out min(at), or write max(at)"),
     ("max(begun),first(*,begun)", "", InvalidInput, "max(begun) contradicts", "or write min(begun)"),
     ("last(name,at),sum(n)", "", InvalidInput, "'tags' has no aggregation", "last(tags,at)"),
     ("sum(name),last(*,at)", "", InvalidInput, "sum(name) cannot combine", "declare it as string"),
     ("last(*,at)", "gon", NotFound, "no field 'gon'", "'gone'"),
     ("last(*,at)", "name", InvalidInput, "'name' cannot mark deletes: it is string", "boolean"),
     ("last(*,at)", "k", InvalidInput, "'k' cannot mark deletes: it is a row key", "boolean"),
     ("", "gone", InvalidInput, "'gone' cannot mark deletes: no aggregation has a sequence", "last(*,changed_at)"),
     ("sum(n),last(*,at)", "gone", InvalidInput, "sum(n) cannot be used with deletes", "last(*,at)"),
     ("first(name,at),last(*,at)", "gone", InvalidInput, "first(name,at) cannot be used with", "last(*,at)"),
     ("last(name,begun),last(*,at)", "gone", InvalidInput, "cannot be used with", "of one sequence"),
     ("last_not_null(gone,at),last(*,at)", "gone", InvalidInput, "(gone,at) cannot mark", "last(*,at)")],
)  # fmt: skip
def test_rules_by_a_sequence_that_do_not_fit_are_refused(text: str, deletes: str, kind: Any, message: str, hint: str):
    with pytest.raises(kind) as error:
        rules(text, deletes)
    assert message in error.value.message
    assert hint in (error.value.hint or "")


def test_a_query_reads_what_decides_between_rows_and_no_more():
    def read(text: str, *requested: str, deletes: str = "") -> tuple[str, ...]:
        found = DataProcessing.of(TableProperties({AGGREGATIONS: text, DELETE_COLUMN: deletes}), CHANGING, NOW)
        return found.columns(CHANGING, requested)

    assert read("last(*,at)", "k") == ("k", "day")
    assert read("last(*,at)", "at") == ("k", "day", "at")
    assert read("last(*,at)", "at", deletes="gone") == ("k", "day", "at", "gone")
    assert read("last(*,at)", "name") == CHANGING.names
    assert read("last_not_null(*,at)", "name") == ("k", "day", "at", "name")
    assert read("sum(n),first(name,begun),last(*,at)", "name", "n") == ("k", "day", "n", "name", "begun")


def test_rows_of_a_part_are_kept_apart_only_where_one_row_does_not_say_all():
    def kept(text: str, deletes: str = "") -> tuple[bool, bool]:
        found = DataProcessing.of(TableProperties({AGGREGATIONS: text, DELETE_COLUMN: deletes}), CHANGING, NOW)
        part = found.in_compaction(CHANGING)
        return part.keeps_winners, part.keeps_marks

    assert kept("last(*,at)") == (False, False)
    assert kept("first(name,begun),last(*,at)") == (False, False)
    assert kept("last(*,at)", "gone") == (False, True)
    assert kept("last_not_null(*,at)") == (True, False)
    assert kept("first(name,at),last(*,at)") == (True, False)
