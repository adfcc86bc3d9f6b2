from __future__ import annotations

from sleeper_nb.model.file_reference import files_schema
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.schema import Schema
from tests.support.builders import KEYED, START, a_file


def with_files(*files) -> FileReferences:
    return FileReferences.none(KEYED).with_added(files, 1, START)


def test_references_come_back_as_they_were_given_by_partition():
    files = [
        a_file("z", "p", job_id="j"),
        a_file("a", "q", only_this_partition=False),
        a_file("b", "p", rows_exact=False),
    ]
    references = with_files(*files)
    assert references.active_in({"p", "q"}) == (files[0], files[2], files[1])
    assert references.table.schema == files_schema(KEYED)
    assert references.active_in({"q"}) == (files[1],)
    assert references.active_in(()) == ()


def test_the_keys_of_files_have_the_types_of_the_row_keys():
    schema = Schema({"i": "int", "b": "bytearray"})
    assert files_schema(schema).field("max_b").type == "binary"
    assert files_schema(schema).field("min_i").type == "int32"


def test_removing_ends_the_interval_of_one_partition_only():
    references = with_files(a_file("f", "p"), a_file("f", "q")).with_removed(["f"], "p", 5, START)
    assert [r.partition_id for r in references.active_in({"p", "q"})] == ["q"]
    gone = references.ready_for_gc.to_pylist()
    assert [(r["partition_id"], r["added_snapshot"], r["removed_snapshot"]) for r in gone] == [("p", 1, 5)]


def test_removing_twice_keeps_the_first_end():
    references = with_files(a_file("f", "p")).with_removed(["f"], "p", 5, START).with_removed(["f"], "p", 6, START)
    assert references.ready_for_gc["removed_snapshot"].to_pylist() == [5]


def test_removing_no_file_changes_nothing():
    references = with_files(a_file("f", "p"))
    assert references.with_removed([], "p", 5, START).table == references.table


def test_a_file_is_known_until_it_is_forgotten():
    references = with_files(a_file("f", "p"), a_file("f", "q")).with_removed(["f"], "p", 5, START)
    references = references.with_removed(["f"], "q", 6, START)
    assert references.knows("f")
    assert not references.without(["f"]).knows("f")
    assert references.without([]).table == references.table
