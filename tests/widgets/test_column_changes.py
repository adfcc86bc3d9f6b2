"""Columns of two versions: bars of both, NULLs and distinct values, against plain counting."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

import sleeper_nb as sl
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.column_changes import ColumnComparison

SCHEMA = sl.Schema(
    {"k": "int"},
    values={
        "n": "int?", "d": "double?", "s": "string?", "b": "boolean?", "day": "date?", "at": "timestamp?",
        "l": "list<int>?", "m": "map<string,int>?", "st": "struct<a:int,b:string>?", "p": "decimal(6,2)?",
    },
)  # fmt: skip


def row(k):
    if k % 5 == 0:
        return {"k": k}
    return {
        "k": k, "n": k % 7, "d": float("nan") if k % 11 == 0 else k / 4, "s": f"<{k % 3}>", "b": k % 2 == 0,
        "day": date(2026, 1, 1 + k % 28), "at": datetime(2026, 1, 1, k % 24, tzinfo=UTC), "l": [k % 2, 1],
        "m": [("a", k % 2)], "st": {"a": k % 4, "b": "x"}, "p": k,
    }  # fmt: skip


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path / "w") as opened:
        yield opened


def compared(session, table, before, after):
    return ColumnComparison(table.at(before), table.at(after))


def test_counts_are_those_of_each_version_and_bars_hold_the_values_of_both(session):
    table = session.create_table("t", SCHEMA, [50])
    versions = {1: [], 2: [row(k) for k in range(100)], 3: [row(k) for k in range(300)]}
    table.ingest(versions[2])
    table.ingest([row(k) for k in range(100, 300)])
    for before, after in ((2, 3), (3, 2), (1, 3), (3, 3)):
        comparison = compared(session, table, before, after)
        for change in comparison.of(comparison.names, Watch()):
            name, bars = change.name, change.after.bars
            for side, number in ((change.before, before), (change.after, after)):
                values = [each.get(name) for each in versions[number]]
                filled = [value for value in values if value is not None]
                assert (side.rows, side.nulls) == (len(values), len(values) - len(filled)), name
                assert side.distinct == len(set(map(repr, filled))), name
                if bars is not None:
                    assert side.bars == bars
                    assert sum(side.counts) == sum(value == value for value in filled), name  # noqa: PLR0124 - NaN
            assert (bars is None) == (name in {"l", "m", "st"}), name


def test_columns_are_followed_by_their_files_where_they_are_renamed_widened_added_and_dropped(session):
    table = session.create_table("t", sl.Schema({"k": "int"}, values={"a": "int", "gone": "int?"}))
    table.ingest([{"k": k, "a": k, "gone": 1} for k in range(10)])
    before = table.history()[0].id
    table.alter(rename_columns={"a": "b"})
    table.alter(types={"b": "long"})
    table.alter(drop_columns=["gone"])
    table.alter(add_columns={"gone": "string?"})
    table.ingest([{"k": 99, "b": 2**40, "gone": "x"}])
    after = table.history()[0].id
    found = {each.name: each for each in compared(session, table, before, after).of(["b", "gone"], Watch())}
    assert (found["b"].before.distinct, found["b"].after.distinct) == (10, 11)
    assert (sum(found["b"].before.counts), sum(found["b"].after.counts)) == (10, 11)
    assert (found["gone"].before, found["gone"].after.nulls) == (None, 10)


def test_the_values_of_a_bad_load_are_among_the_bars_although_others_are_more_frequent(session):
    table = session.create_table("t", sl.Schema({"k": "int"}, values={"s": "string"}))
    table.ingest([{"k": k, "s": f"usual {k % 8}"} for k in range(800)])
    table.overwrite([{"k": k, "s": f"bad {k % 8}"} for k in range(80)], force=True)
    (change,) = compared(session, table, 2, 3).of(["s"], Watch())
    assert {mark.split()[0] for mark in change.after.bars.marks} == {"usual", "bad"}
