"""References whose statistics are still unread give what references with all columns give."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa
from hypothesis import given

from sleeper_nb.model.file_reference import without_statistics
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.statistics import ColumnStatistics, reference_names
from sleeper_nb.model.transactions import Rollback
from tests.model.test_files_changes import PARTITIONS, steps
from tests.support.builders import KEYED, START, a_file, a_state


@dataclass
class Unread:
    """Columns of statistics that count how often they are read."""

    rows: pa.Table
    reads: list[int] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def read(self) -> pa.Table:
        self.reads.append(self.rows.num_rows)
        return self.rows


def lazily(table: pa.Table) -> tuple[FileReferences, Unread]:
    later = [name for name in table.column_names if name in reference_names(table.schema)]
    unread = Unread(table.select(later))
    return FileReferences.of(without_statistics(table), unread), unread


def described(name: str, partition: str, number: int):
    return a_file(
        name, partition, rows=number, statistics=(ColumnStatistics("time", "timestamp", number, number + 1, 0),)
    )


def assert_alike(lazy: FileReferences, eager: FileReferences) -> None:
    """Compare first what needs no statistics, then the rest."""
    assert lazy.schema == eager.schema
    assert lazy.active_without_statistics == without_statistics(eager.active)
    assert lazy.runs == eager.runs
    assert lazy.by_partition() == eager.by_partition()
    assert lazy.totals == eager.totals
    for names in ({each} for each in PARTITIONS):
        rows = lazy.active_rows_without_statistics_in(names)
        assert rows == without_statistics(eager.active_rows_in(names))
    assert lazy.ready_for_gc == eager.ready_for_gc
    assert lazy.untracked(["f1-0", "never"]) == eager.untracked(["f1-0", "never"])


@given(steps)
def test_changes_of_both_give_the_same(all_steps):
    eager = lazy = FileReferences.none(KEYED)
    for number, step in enumerate(all_steps, 1):
        when = START + timedelta(minutes=number)
        if step[0] == "add":
            new = [described(f"f{number}-{i}", partition, i) for i, partition in enumerate(step[1])]
            eager, lazy = (each.with_added(new, number, when) for each in (eager, lazy))
        elif step[0] == "remove":
            names = [each.filename for each in eager.active_in([step[1]])][: step[2]]
            eager, lazy = (each.with_removed(names, step[1], number, when) for each in (eager, lazy))
        elif step[0] == "forget":
            names = eager.ready_for_gc["filename"].to_pylist()[: step[1]]
            eager, lazy = (each.without(names) for each in (eager, lazy))
        else:
            table = eager.table.combine_chunks()
            eager, (lazy, _) = FileReferences.of(table), lazily(table)
        assert_alike(lazy, eager)
    assert lazy.table == eager.table
    assert lazy.active_in(PARTITIONS) == eager.active_in(PARTITIONS)


def test_they_are_read_once_and_only_when_something_needs_them():
    files = FileReferences.none(KEYED).with_added(
        [described(f"f{i}", PARTITIONS[i % 3], i) for i in range(9)], 2, START
    )
    lazy, unread = lazily(files.table)
    assert_alike(lazy, files)
    assert lazy.knows("f3")
    assert lazy.data_totals == files.data_totals
    assert lazy.active_without_statistics.column_names == without_statistics(files.active).column_names
    assert not unread.reads
    assert lazy.active_in({"p"}) == files.active_in({"p"})
    assert lazy.table == files.table
    assert unread.reads == [9]


def test_additions_and_comparisons_leave_them_unread():
    first = FileReferences.none(KEYED).with_added(
        [described(f"f{i}", PARTITIONS[i % 3], i) for i in range(9)], 2, START
    )
    eager, (lazy, unread) = first, lazily(first.table)
    for number in range(3, 203):  # many become columns before they are read
        new = [described(f"f{number}-0", PARTITIONS[number % 3], number)]
        eager, lazy = (each.with_added(new, number, START) for each in (eager, lazy))
        if number % 50 == 0:
            assert_alike(lazy, eager)
    assert lazy.unshared(first) == eager.unshared(first)
    assert lazy.table_without_statistics == without_statistics(eager.table)
    assert not unread.reads
    assert lazy.table == eager.table
    assert unread.reads == [9]


def test_a_rollback_brings_them_back():
    files = FileReferences.none(KEYED).with_added(
        [described(f"f{i}", PARTITIONS[i % 3], i) for i in range(9)], 2, START
    )
    then = replace(a_state(), files=lazily(files.table)[0])
    now = replace(then, files=files.with_removed(["f0", "f3"], PARTITIONS[0], 3, START), snapshot_id=3)
    back = Rollback.between(now, then)
    assert [each.filename for each in back.references] == ["f0", "f3"]
    assert all(each.statistics for each in back.references)
    assert back.removed == ()


def test_those_of_a_wider_type_are_read_before_they_are_widened():
    files = FileReferences.none(KEYED).with_added(
        [a_file("f1", "p", statistics=(ColumnStatistics("value", "int", 1, 2, 0),))], 2, START
    )
    wide = a_file("f2", "q", statistics=(ColumnStatistics("value", "long", 2**40, 2**41, 0),))
    lazy, _ = lazily(files.table)
    assert lazy.with_added([wide], 3, START).table == files.with_added([wide], 3, START).table
