"""Which files statistics prune: never one with a row that meets a predicate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import StatisticsColumns, StatisticsOfRows
from sleeper_nb.read.file_statistics import ExactBounds, exact_bounds, prune_files
from sleeper_nb.read.predicate import And, Comparison, IsIn, IsNull, Or, Predicate
from tests.read.test_predicate import meets
from tests.support.builders import a_file, a_state

SCHEMA = Schema({"key": "string"}, {"sort": "int"}, {"v": "int?", "s": "string?", "other": "int?"})
CHOSEN = StatisticsColumns(("v", "s"))
Rows = list[tuple[int | None, str | None]]
NUMBERS, WORDS = st.integers(-3, 8), st.sampled_from(["", "a", "ab", "b", "é", "\U0010ffff"])
rows = st.lists(st.tuples(st.none() | NUMBERS, st.none() | WORDS), min_size=1, max_size=4)
files = st.lists(st.tuples(rows, st.booleans()), max_size=5)
signs = st.sampled_from(["=", "<", "<=", ">", ">="])
singles = st.one_of(
    st.builds(Comparison, st.just("v"), signs, NUMBERS | st.sampled_from([2**31, -(2**40)])),
    st.builds(Comparison, st.just("s"), signs, WORDS),
    st.builds(IsIn, st.just("v"), st.lists(NUMBERS | st.integers(-500, 500), max_size=120).map(tuple)),
    st.builds(IsIn, st.just("s"), st.lists(WORDS, max_size=3).map(tuple)),
    st.builds(IsNull, st.sampled_from(["v", "s", "other"])),
    st.builds(Comparison, st.just("other"), signs, NUMBERS),
)
predicates = st.recursive(
    singles,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
)


def table_of(of_file: Rows) -> pa.Table:
    v, s = zip(*of_file, strict=True)
    return pa.table({"v": pa.array(v, pa.int32()), "s": pa.array(s, pa.string())})


def state_of(of_files: list[tuple[Rows, bool]], **flags: Any) -> TableState:
    """Return a state with files of some rows, each with statistics or without."""
    references = []
    for number, (of_file, with_statistics) in enumerate(of_files):
        seen = StatisticsOfRows(CHOSEN.fields(SCHEMA))
        seen.see(table_of(of_file))
        found = seen.found() if with_statistics else ()
        references.append(a_file(f"f{number}", rows=len(of_file), statistics=found, **flags))
    return a_state(*references, schema=SCHEMA)


def files_without(predicate: Predicate, state: TableState) -> set[str]:
    """Return the names of the files that are pruned."""
    left = prune_files(predicate, state).files.active["filename"].to_pylist()
    return set(state.files.active["filename"].to_pylist()) - set(left)


@given(files, predicates)
def test_no_file_with_a_row_that_meets_the_predicate_is_pruned(of_files: list[tuple[Rows, bool]], predicate: Predicate):
    gone = files_without(predicate, state_of(of_files))
    for number, (of_file, _) in enumerate(of_files):
        if any(meets(predicate, {"v": v, "s": s, "other": None}) for v, s in of_file):
            assert f"f{number}" not in gone


def test_files_without_such_a_value_are_left_out():
    state = state_of([([(1, "a"), (3, None)], True), ([(5, "b")], True), ([(None, "z")], True), ([(9, "z")], False)])
    for predicate, gone in (
        (Comparison("v", "=", 2), {"f1", "f2"}),
        (Comparison("v", ">", 3), {"f0", "f2"}),
        (Comparison("v", ">=", 3), {"f2"}),
        (Comparison("v", "<", 1), {"f0", "f1", "f2"}),
        (Comparison("v", "<=", 1), {"f1", "f2"}),
        (IsNull("v"), {"f0", "f1"}),
        (IsNull("s"), {"f1", "f2"}),
        (IsIn("v", (5, 7)), {"f0", "f2"}),
        (IsIn("v", tuple(range(4, 300))), {"f0", "f2"}),
        (IsIn("v", (5, "five")), set()),
        (Or((Comparison("v", "=", 5), Comparison("s", "=", "z"))), {"f0"}),
        (Or((Comparison("v", "=", 5), Comparison("other", "=", 1))), set()),
        (And((Comparison("v", "=", 5), Comparison("other", "=", 1))), {"f0", "f2"}),
        (Or((Comparison("v", "=", 5), Comparison("key", ">", "x"))), {"f0", "f2"}),
    ):
        assert files_without(predicate, state) == gone, predicate


@given(st.lists(rows, max_size=5))
def test_exact_ends_are_those_of_all_rows(of_files: list[Rows]):
    state = state_of([(of_file, True) for of_file in of_files])
    values = [v for of_file in of_files for v, _ in of_file]
    known = [v for v in values if v is not None]
    field = next(field for field in SCHEMA.fields if field.name == "v")
    expected = ExactBounds(min(known, default=None), max(known, default=None), len(values) - len(known))
    assert exact_bounds(state, field) == (expected if of_files else None)


def test_ends_are_not_known_where_rows_of_a_file_may_not_count_or_a_file_has_no_statistics():
    v = next(field for field in SCHEMA.fields if field.name == "v")
    one = [(1, "a")]
    assert exact_bounds(state_of([(one, True)]), v) == ExactBounds(1, 1, 0)
    assert exact_bounds(state_of([(one, True), (one, False)]), v) is None
    assert exact_bounds(state_of([(one, True)], only_this_partition=False), v) is None
    assert (
        exact_bounds(state_of([(one, True)]), next(field for field in SCHEMA.fields if field.name == "other")) is None
    )


def test_a_plan_of_rows_whose_sort_keys_python_cannot_hold_is_shown(tmp_path: Path):
    schema = Schema({"k": "int"}, {"st": "timestamp"}, {"v": "int?"})
    far = pa.array([300_000 * 10**12], pa.int64()).cast(pa.timestamp("us", "UTC"))
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema)
        table.ingest(pa.table({"k": pa.array([1], pa.int32()), "st": far, "v": pa.array([1], pa.int32())}))
        assert "row groups" in repr(table.scan(where="v = 1").plan())
