"""Every way to change rows, each as a job with an id, and the rows that it leaves: for tests that let it fail midway.

The table has the column ``key``, each key once, and ``n``. With `PROPERTIES`, its files of some rows lose one by a
deletion vector, and are written again without several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sleeper_nb as sl
from sleeper_nb.edit.row_editor import ChangeReport

PROPERTIES = {
    "sleeper.table.deletion.vector.file.bytes.min": "0",
    "sleeper.table.deletion.vector.percent.max": "25",
}
Numbers = dict[str, int]
"""The column n by key."""


@dataclass(frozen=True)
class RowEdit:
    """A change of rows, and what the table has after it; a second run would change other rows, if it ran."""

    run: Callable[[sl.Table], ChangeReport]
    after: Callable[[Numbers], Numbers]


def _without(keys: str) -> Callable[[Numbers], Numbers]:
    return lambda rows: {key: n for key, n in rows.items() if key not in keys}


def _rows(numbers: Numbers) -> list[dict[str, object]]:
    return [{"key": key, "n": n} for key, n in numbers.items()]


def _delete(where: str, job_id: str, keys: str) -> RowEdit:
    return RowEdit(lambda table: table.delete(where, job_id=job_id), _without(keys))


def _merge(table: sl.Table) -> ChangeReport:
    merge = table.merge(_rows({"a": 50, "n": 51, "new": 52}))
    merge = merge.when_matched_delete("target.key = 'n'").when_matched_update({"n": "target.n + source.n"})
    merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete("target.key = 'o'")
    return merge.execute(job_id="merge-1")


def _merged(rows: Numbers) -> Numbers:
    added = {"a": 50, "new": 52} if "n" in rows else {"a": 50, "n": 51, "new": 52}
    return {**_without("no")(rows), **{key: rows.get(key, 0) + n for key, n in added.items()}}


ROW_CHANGES: dict[str, RowEdit] = {
    "delete with a vector": _delete("key = 'a'", "delete-1", "a"),
    "delete with a new file": _delete("key IN ('a', 'b', 'e', 'n')", "delete-2", "aben"),
    "update": RowEdit(
        lambda table: table.update({"n": "n + 100"}, "key IN ('b', 'z')", job_id="update-1"),
        lambda rows: {key: n + 100 if key in "bz" else n for key, n in rows.items()},
    ),
    "merge": RowEdit(_merge, _merged),
    "overwrite": RowEdit(
        lambda table: table.overwrite(_rows({"e": 70, "ee": 71}), "key BETWEEN 'e' AND 'f'", job_id="overwrite-1"),
        lambda rows: {key: n for key, n in rows.items() if not "e" <= key <= "f"} | {"e": 70, "ee": 71},
    ),
    "upsert": RowEdit(
        lambda table: table.upsert(_rows({"f": 80, "q": 81}), job_id="upsert-1"),
        lambda rows: {**rows, "f": 80, "q": 81},
    ),
}
