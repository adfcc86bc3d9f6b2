from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    SleeperError,
    StateRuleBroken,
)
from sleeper_nb.model.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
    check_processing,
    evolved,
    for_later_files,
    mapped,
    reads_files_of,
    widens,
)
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Field, FieldType, Schema, parse_type
from sleeper_nb.model.transactions import SetSchema, from_entry, to_entry
from tests.support.builders import START, a_state, point_after

TRIPS = Schema({"city": "string"}, {"time": "timestamp"}, {"fare": "double", "tip": "int?"})
NOTE = AddColumn(Field("note", FieldType("string"), nullable=True))

names = st.sampled_from(["a", "A", "b", "B", "c", "a__2", "a__3", "b__2__2", "K", "k"])
changes = st.one_of(
    st.builds(
        AddColumn,
        st.builds(Field, names, st.sampled_from([FieldType("int"), FieldType("string")]), nullable=st.just(value=True)),
    ),
    st.builds(RenameColumn, names, names),
    st.builds(DropColumn, names),
    st.builds(WidenColumn, names, st.sampled_from([FieldType("long"), FieldType("double")])),
)


@given(st.lists(changes, max_size=14), st.booleans())
def test_no_sequence_of_changes_gives_two_fields_one_name_or_one_column(steps, advancing):
    schema, number, known, meant = Schema({"k": "string"}, {}, {"a": "int", "b": "string?"}), 1, set(), {}
    for change in steps:
        number += advancing  # also where ids were no help
        try:
            after = evolved(schema, [change], number + 1)
        except SleeperError:
            continue
        for every in ([f.name for f in after.fields], [*(f.column for f in after.fields), *after.retired]):
            assert len({name.casefold() for name in every}) == len(every)
        columns = {f.column for f in after.fields}
        new = columns - {f.column for f in schema.fields}
        assert not new & known  # a column that was ever there is never another one
        known |= columns
        meant |= {f.column: f.type for f in after.fields if f.column in new}
        assert all(widens(meant.get(f.column, f.type), f.type) for f in after.fields)
        assert Schema.from_json(after.to_json()) == after
        assert reads_files_of(schema, after)
        assert after.in_files.names == tuple(f.column for f in after.fields)
        SetSchema(2, after).validate(replace(a_state(schema=schema), schema=schema))
        schema = after


def test_a_table_that_was_never_altered_has_the_json_and_columns_of_ever():
    assert TRIPS.in_files is TRIPS
    assert not TRIPS.is_altered
    assert set(TRIPS.to_json()).isdisjoint({"storedName", "retiredColumns"})
    assert "tored" not in TRIPS.to_json() + repr(TRIPS)


def test_a_rename_keeps_the_column_and_back_again_is_as_before():
    renamed = evolved(TRIPS, [RenameColumn("fare", "price")], 2)
    assert renamed.to_dict()["values"] == {"price": "double", "tip": "int?"}
    assert renamed.in_files.names == TRIPS.names
    assert renamed.is_renamed
    assert renamed != TRIPS
    assert evolved(renamed, [RenameColumn("price", "fare")], 3) == TRIPS
    assert evolved(TRIPS, [RenameColumn("fare", "Fare")], 2).values[0].column == "fare"


def test_a_name_that_files_have_used_is_given_to_no_other_column():
    dropped = evolved(TRIPS, [DropColumn("tip")], 2)
    assert dropped.retired == ("tip",)
    again = evolved(dropped, [AddColumn(Field("Tip", FieldType("string"), nullable=True))], 3)
    assert again.values[-1] == Field("Tip", FieldType("string"), nullable=True, stored="Tip__3", late=True)
    swapped = evolved(TRIPS, [RenameColumn("tip", "old"), AddColumn(Field("tip", FieldType("int"), nullable=True))], 2)
    assert [field.column for field in swapped.values] == ["fare", "tip", "tip__2"]
    assert evolved(TRIPS, [NOTE], 2).values[-1].column == "note"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (DropColumn("tpi"), NotFound, "did you mean 'tip'"),
        (RenameColumn("city", "town"), InvalidInput, "row key 'city' cannot be renamed"),
        (DropColumn("time"), InvalidInput, "sort key 'time' cannot be dropped"),
        (RenameColumn("tip", "FARE"), AlreadyExists, "column 'fare' already exists"),
        (AddColumn(Field("Time", FieldType("int"), nullable=True)), AlreadyExists, "column 'time' already exists"),
        (AddColumn(Field("note", FieldType("string"))), InvalidInput, 'write "note string\\?"'),
        (RenameColumn("tip", "a b"), InvalidInput, "'a b' is not a valid field name"),
    ],
)
def test_what_cannot_be_changed_says_why(change, kind, words):
    with pytest.raises(kind, match=words):
        evolved(TRIPS, [change], 2)


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("int", "long", True),
        ("int", "double", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(9,3)", True),
        ("decimal(5,2)", "decimal(5,3)", False),
        ("long", "int", False),
        ("long", "double", False),
        ("date", "timestamp", False),
        ("string", "bytearray", False),
        ("int", "int?", True),
        ("int?", "int", False),
        ("tinyint", "smallint", True),
        ("smallint", "int", True),
        ("tinyint", "decimal(3,0)", True),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(9,0)", False),
        ("long", "decimal(19,0)", True),
        ("long", "decimal(20,2)", False),
        ("int", "float", False),
        ("string", "uuid", False),
        ("list<int>", "list<long>", True),
        ("map<string,int>", "map<string,long>", False),
        ("struct<a:int>", "struct<a:long,b:string?>", True),
        ("struct<a:int>", "struct<a:int,b:string>", False),
        ("struct<a:int?>", "struct<a:int>", False),
        ("struct<a:int,b:int>", "struct<b:int,a:int>", False),
        ("struct<a:int,b:int>", "struct<a:int>", False),
    ],
)
def test_an_old_version_is_read_with_another_type_where_no_value_is_lost(old, new, fits):
    then, now = (Schema({"k": "string"}, {}, {"v": kind}) for kind in (old, new))
    if fits:
        read = mapped(then, now).values[0]
        assert (read.type, read.column) == (now.values[0].type, "v")
        assert read.late == (parse_type(old.rstrip("?")) != parse_type(new.rstrip("?")))
        return
    with pytest.raises(InvalidInput, match="column 'v' was ") as caught:
        mapped(then, now)
    assert all(text in str(caught.value) for text in (old, new))


def test_an_old_version_is_not_read_with_other_keys_or_without_a_needed_column():
    one = Schema({"k": "string"}, {}, {"v": "int"})
    for other in (Schema({"k": "int"}), Schema({"j": "string"}), Schema({"k": "string"}, {"s": "int"}),
                  Schema({"k": "string", "j": "int"})):  # fmt: skip
        with pytest.raises(InvalidInput, match="row keys or sort keys of the version differ"):
            mapped(one, other)
    with pytest.raises(InvalidInput, match="has no column 'w', which is not nullable"):
        mapped(one, Schema({"k": "string"}, {}, {"w": "int"}))
    read = mapped(one, Schema({"k": "string"}, {}, {"w": "int?"}))
    assert read.values == (Field("w", FieldType("int"), nullable=True, late=True),)
    dropped = evolved(one, [DropColumn("v")], 2)
    read = mapped(dropped, Schema({"k": "string"}, {}, {"v": "int?"}))
    assert read.values[0].column != "v"  # its files have another v


def test_files_of_later_schemas_may_lack_any_value():
    assert all(field.nullable and field.late for field in for_later_files(TRIPS).values)
    assert for_later_files(TRIPS).row_keys == TRIPS.row_keys


def test_a_change_of_what_processing_names_is_refused():
    properties = TableProperties({FILTERS: "ageOff(time,1000)"})
    check_processing(DataProcessing.of(properties, TRIPS, START), [NOTE, DropColumn("tip")])
    counts = Schema({"k": "string"}, {}, {"at": "timestamp", "n": "int"})
    old = DataProcessing.of(TableProperties({FILTERS: "ageOff(at,1000)"}), counts, START)
    with pytest.raises(InvalidInput, match=f"'at' is used by the table's {FILTERS}\nhint: .*ageOff\\(at,1000\\)"):
        check_processing(old, [DropColumn("at")])
    check_processing(old, [RenameColumn("n", "m")])
    sums = DataProcessing.of(TableProperties({AGGREGATIONS: "max(at),sum(n)"}), counts, START)
    with pytest.raises(InvalidInput, match=f"'n' is used by the table's {AGGREGATIONS}"):
        check_processing(sums, [RenameColumn("n", "m")])
    with pytest.raises(InvalidInput, match="no aggregation can combine the nulls of a new column 'note'"):
        check_processing(sums, [NOTE])


def test_a_schema_is_set_only_on_what_it_was_made_of():
    state = a_state(schema=TRIPS)
    change = SetSchema(2, evolved(TRIPS, [NOTE, DropColumn("tip")], 2))
    change.validate(state)
    after = change.apply(state, point_after(state))
    assert (after.schema_id, after.schema, after.snapshot_id) == (2, change.schema, 2)
    assert (after.files, after.tree) == (state.files, state.tree)
    other = SetSchema(3, evolved(TRIPS, [RenameColumn("fare", "price")], 3))
    for stale in (change, other):  # the first has the same id, the second forgets a column
        with pytest.raises(StateRuleBroken, match="was changed in the meantime"):
            stale.validate(after)
    with pytest.raises(StateRuleBroken):
        SetSchema(2, Schema({"k": "int"})).validate(state)
    with pytest.raises(StateRuleBroken):
        SetSchema(2, Schema(TRIPS.row_keys, TRIPS.sort_keys, [*TRIPS.values, Field("x", FieldType("int"))])).validate(
            state
        )


def test_the_log_keeps_the_schema():
    change = SetSchema(7, evolved(TRIPS, [NOTE, RenameColumn("tip", "tips"), DropColumn("fare")], 7))
    assert from_entry(to_entry(change, 7, START), 7) == (change, START)
