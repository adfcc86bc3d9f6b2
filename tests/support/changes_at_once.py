"""Processes that change rows of one table at once, and an oracle: the same changes, one by one, in a dictionary.

Each process notes what was acknowledged, and as which snapshot. Whatever happened at once, the table must be what the
changes make of it in the order of their snapshots, and each must have counted the rows that it changes in that order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sleeper_nb as sl
from sleeper_nb.errors import ConflictError, InvalidInput, NotFound, SleeperError, StateRuleBroken, StorageError

SCHEMA = sl.Schema({"k": "int"}, {}, {"n": "int"})
KEYS, FAR = 24, 1000
NOW = timedelta(0)
Rows = dict[int, list[int]]
"""The values of n by key: several where a key has several rows."""
Counts = tuple[int, int, int]
"""Rows that were inserted, updated and deleted."""


@dataclass(frozen=True)
class Change:
    """What one process asks for: a name of `CHANGES` or ``rollback``, and the values."""

    name: str
    keys: tuple[int, ...]
    value: int = 0


@dataclass(frozen=True)
class Done:
    """A change that was acknowledged: its snapshot, and the counts that it reported; None where it has none."""

    snapshot: int
    change: Change
    counts: Counts | None = None


@dataclass(frozen=True)
class Team:
    """What every process of a race needs to know.

    Parameters
    ----------
    place
        The arguments of `connect`.
    unique
        Whether the table has unique keys.
    changes
        How many each process asks for.
    """

    place: tuple[str, ...]
    unique: bool
    changes: int

    def session(self) -> sl.Session:
        return sl.connect(*self.place)


# What a change does to the table, and to the oracle.


def source(change: Change) -> list[dict[str, int]]:
    return [{"k": key, "n": change.value} for key in change.keys]


def add(table: sl.Table, change: Change) -> Any:
    merge = table.merge(source(change), on=["k"])
    return merge.when_matched_update({"n": "target.n + source.n"}).when_not_matched_insert_all().execute()


def missing(table: sl.Table, change: Change) -> Any:
    return table.merge(source(change), on=["k"]).when_not_matched_insert_all().execute()


def replace(table: sl.Table, change: Change) -> Any:
    first, last = min(change.keys), max(change.keys)
    return table.overwrite(source(change)[:1], where=f"k BETWEEN {first} AND {last} OR k = {change.keys[0]}")


def model_add(rows: Rows, change: Change) -> Counts:
    return _matched(rows, change, lambda n: n + change.value)


def model_set(rows: Rows, change: Change) -> Counts:
    return _matched(rows, change, lambda _: change.value)


def _matched(rows: Rows, change: Change, new: Callable[[int], int]) -> Counts:
    inserted = updated = 0
    for key in change.keys:
        updated, inserted = updated + len(rows.get(key, ())), inserted + (key not in rows)
        rows[key] = [new(n) for n in rows[key]] if key in rows else [change.value]
    return inserted, updated, 0


def model_missing(rows: Rows, change: Change) -> Counts:
    new = [key for key in change.keys if key not in rows]
    rows.update({key: [change.value] for key in new})
    return len(new), 0, 0


def model_delete(rows: Rows, change: Change) -> Counts:
    return 0, 0, sum(len(rows.pop(key, ())) for key in change.keys)


def model_replace(rows: Rows, change: Change) -> Counts:
    gone = [key for key in rows if min(change.keys) <= key <= max(change.keys)]
    deleted = sum(len(rows.pop(key)) for key in gone)
    rows[change.keys[0]] = [change.value]
    return 1, 0, deleted


def model_move(rows: Rows, change: Change) -> Counts:
    moved = {key: rows.pop(key) for key in change.keys if key in rows}
    for key, values in moved.items():
        rows[key + FAR] = [*rows.get(key + FAR, ()), *values]
    return 0, sum(map(len, moved.values())), 0


def model_append(rows: Rows, change: Change) -> None:
    for key in change.keys:
        rows.setdefault(key, []).append(change.value)


def in_list(change: Change) -> str:
    return f"k IN ({', '.join(map(str, change.keys))})"


CHANGES: Mapping[str, tuple[Callable[[sl.Table, Change], Any], Callable[[Rows, Change], Counts | None]]] = {
    "add": (add, model_add),
    "set": (lambda table, change: table.upsert(source(change)), model_set),
    "missing": (missing, model_missing),
    "delete": (lambda table, change: table.delete(in_list(change)), model_delete),
    "replace": (replace, model_replace),
    "move": (lambda table, change: table.update({"k": f"k + {FAR}"}, in_list(change)), model_move),
    "append": (lambda table, change: table.ingest(source(change)), model_append),
}


# The processes.


def change_rows(team: Team, number: int) -> tuple[list[Done], list[str]]:
    """Change rows as one of several processes; return what was acknowledged, and the errors of what was not."""
    choose, done, failed = random.Random(number), [], []  # noqa: S311 - for tests
    with team.session() as session:
        table = session.table("t")
        for at in range(team.changes):
            name = choose.choices(list(CHANGES), (6, 3, 2, 3, 1, 1, 3))[0]
            keys = tuple(choose.sample(range(KEYS), choose.randint(1, 4)))
            if name == "append" and team.unique:
                keys = (-1 - number * FAR - at,)
            change = Change(name, keys, number * FAR + at + 1)
            try:
                report = CHANGES[name][0](table, change)
            except (ConflictError, InvalidInput, NotFound, StateRuleBroken, StorageError) as error:
                failed.append(f"{name}: {type(error).__name__}: {error.message}")
                continue
            if name == "append":
                done.append(Done(report.snapshot_id, change))
            elif report.snapshot is not None:
                done.append(Done(report.snapshot.id, change, (report.inserted, report.updated, report.deleted)))
    return done, failed


def keep_up(team: Team, number: int) -> tuple[list[Done], list[str]]:
    """Compact, split, expire, collect garbage without delay, and roll back, while others change rows."""
    done, failed = [], []
    with team.session() as session:
        table = session.table("t")
        for at in range(team.changes):
            try:
                if at % 4 == 3:
                    to = max(2, table._store.head().id - 2)
                    report = table.rollback(to)
                    if report.snapshot is not None:
                        done.append(Done(report.snapshot.id, Change("rollback", (), to)))
                else:
                    _clean(table, at)
            except SleeperError as error:
                failed.append(f"upkeep: {type(error).__name__}: {error.message}")
    return done, failed


def _clean(table: sl.Table, at: int) -> None:
    if at % 4 == 0:
        table.maintenance.compact(strategy="all", engine="local")
    elif at % 4 == 1:
        table.maintenance.split(threshold=6)
    table.maintenance.expire(dry_run=False, time_retained=NOW, num_retained_min=4)
    table.maintenance.collect_garbage(dry_run=False, delay=NOW)


# The oracle.


def replayed(acknowledged: Sequence[Done]) -> Iterator[tuple[Done, Rows, Counts | None]]:
    """Yield each change in the order of the snapshots, with the rows and the counts that it leads to."""
    versions: dict[int, Rows] = {2: {}}
    rows: Rows = {}
    for done in sorted(acknowledged, key=lambda each: each.snapshot):
        counts = None
        if done.change.name == "rollback":
            rows = versions[max(number for number in versions if number <= done.change.value)]
        else:
            rows = {key: list(values) for key, values in rows.items()}
            counts = CHANGES[done.change.name][1](rows, done.change)
        versions[done.snapshot] = rows
        yield done, rows, counts


def judge(table: sl.Table, acknowledged: Sequence[Done]) -> None:
    """Hold that a table is what the acknowledged changes make of it, in each version that is left."""
    states: dict[int, Counter[tuple[int, int]]] = {0: Counter()}
    for done, rows, counts in replayed(acknowledged):
        assert done.counts == counts, f"{done} changes {counts} in its place"
        states[done.snapshot] = Counter((key, n) for key, values in rows.items() for n in values)
    snapshots = sorted(table.history(), key=lambda each: each.id)
    for snapshot in snapshots:
        found = table.scan(version=snapshot.id).to_arrow()
        expected = states[max(number for number in states if number <= snapshot.id)]
        assert Counter(zip(found["k"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected, snapshot
