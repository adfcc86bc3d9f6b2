"""Key space as an answer to the page: leaves in key order, files by the leaves that they touch, what is to be merged.

Columns, not rows: there may be 50,000 leaves and 100,000 files.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.keys import KeyValue, key_text, written_key
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState

if TYPE_CHECKING:
    from sleeper_nb.progress import Watch
    from sleeper_nb.public_types import CompactionReport
    from sleeper_nb.widgets.open_tables import OpenTables

_FOLDER: Final = "^.*/"


class KeySpaceAnswers:
    """Answers `keyspace` and `leaf`, from metadata."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    def keyspace(self, asked: Mapping[str, Any], watch: Watch) -> Generator[dict[str, Any], None, dict[str, Any]]:
        """Return the leaves and files of a version; of the newest one, yield them, then return what is to be merged."""
        table, at = self._tables.table(asked["table"]), self._tables.at(asked["table"], asked["version"])
        number, space = at.resolved.snapshot_id, KeySpace(at.state)
        answer = {"version": number, **space.columns(), "line": f"%sleeper partitions {at.name}@{number}"}
        if table.at().resolved.snapshot_id != number:
            return answer
        yield answer
        watch.check()
        return {**answer, **space.merges(table.maintenance.compact(dry_run=True), answer["files"])}

    def leaf(self, asked: Mapping[str, Any], _: Watch) -> dict[str, Any]:
        """Return the filters that find the rows of a leaf: a range of exact keys for each row key that bounds it."""
        state = self._tables.at(asked["table"], asked["version"]).state
        state.tree.check_is_leaf(asked["leaf"])
        ranges = zip(state.schema.row_keys, state.tree[asked["leaf"]].region.ranges, strict=True)
        return {
            "filters": [
                {"column": key.name, "low": _exact(each.min), "high": _exact(each.max)}
                for key, each in ranges
                if each.min is not None or each.max is not None
            ]
        }


def _exact(value: KeyValue | None) -> str | None:
    return None if value is None else written_key(value)


class KeySpace:
    """The leaves and files of a state, a list for each property of them."""

    def __init__(self, state: TableState) -> None:
        self._state, self._references = state, state.files.active
        self._ids = pa.array([leaf.id for leaf in state.tree.leaves], pa.string())
        self._places = pc.index_in(self._references["partition_id"], value_set=self._ids)
        self._files = _files(self._references, self._places)

    def columns(self) -> dict[str, Any]:
        """Return all but the jobs of a compaction."""
        schema, leaves = self._state.schema, len(self._ids)
        names = ("first", "last", "rows", "bytes", "deleted")
        return {
            "leaves": {
                **_leaves(self._state.tree, self._ids, schema),
                **_totals(self._references, self._places, leaves),
            },
            "files": {
                "name": pc.replace_substring_regex(self._files["filename"], _FOLDER, "").to_pylist(),
                **{name: self._files[name].to_pylist() for name in names},
                "job": [-1] * self._files.num_rows,
            },
            "jobs": [],
        }

    def merges(self, plan: CompactionReport, files: Mapping[str, Any]) -> dict[str, Any]:
        """Return the jobs of a plan, and the columns of the files with the job of each."""
        jobs = plan.jobs
        places = pc.index_in(pa.array([job.partition_id for job in jobs], pa.string()), value_set=self._ids)
        merged = pa.array([name for job in jobs for name in job.filenames], pa.string())
        numbers = pa.array(np.repeat(np.arange(len(jobs)), [len(job.filenames) for job in jobs]), pa.int64())
        of_files = numbers.take(pc.index_in(self._files["filename"], value_set=merged).combine_chunks())
        return {
            "files": {**files, "job": pc.fill_null(of_files, -1).to_pylist()},
            "jobs": [
                {"leaf": place, "files": len(job.filenames), "bytes": sum(each.bytes for each in job.inputs)}
                for job, place in zip(jobs, places.to_pylist(), strict=True)
            ],
        }


def _leaves(tree: PartitionTree, ids: pa.Array, schema: Schema) -> dict[str, list[Any]]:
    """Return the ids, the key ranges and the lower ends of the leaves as text."""
    ranges, lows = [], []
    for dimension, key in enumerate(schema.row_keys):
        ends = [leaf.region.ranges[dimension] for leaf in tree.leaves]
        least, greatest = [each.min for each in ends], [each.max for each in ends]
        texts: dict[Any, str] = {value: key_text(value) for value in {*least, *greatest}}
        if len(texts) == 1:  # no leaf is bounded by this key
            continue
        pairs = list(zip(least, greatest, strict=True))
        ranges.append([_range_text(key.name, each, texts) for each in pairs])
        lows.append(["" if low is None else texts[low] for low in least])
    return {
        "id": ids.to_pylist(),
        "range": _joined(ranges, len(ids), "every key"),
        "low": _joined(lows, len(ids), ""),
    }


def _range_text(key: str, ends: tuple[Any, Any], texts: Mapping[Any, str]) -> str:
    low, high = ends
    if low is None:
        return "" if high is None else f"{key} before {texts[high]}"
    return f"{key} {texts[low]} and after" if high is None else f"{key} {texts[low]} to {texts[high]}"


def _joined(parts: Sequence[list[str]], leaves: int, nothing: str) -> list[str]:
    """Return what row keys say of each leaf, together."""
    if len(parts) == 1:
        return [each or nothing for each in parts[0]]
    return [", ".join(filter(None, each)) or nothing for each in zip(*parts, strict=True)] or [nothing] * leaves


def _totals(references: pa.Table, places: pa.ChunkedArray, leaves: int) -> dict[str, list[int]]:
    place = places.to_numpy()
    is_known = np.isfinite(place.astype("float64"))
    known = place[is_known].astype("int64")

    def summed(name: str) -> list[int]:
        sums: list[int] = np.bincount(known, references[name].to_numpy()[is_known], leaves).astype("int64").tolist()
        return sums

    counts: list[int] = np.bincount(known, minlength=leaves).tolist()
    return {"rows": summed("rows"), "bytes": summed("bytes"), "files": counts}


def _files(references: pa.Table, places: pa.ChunkedArray) -> pa.Table:
    """Return each file once, in key order, with the first and the last leaf that reads it."""
    uses = pa.table(
        {
            "filename": references["filename"],
            "place": places,
            "rows": references["rows"],
            "bytes": references["bytes"],
            "deleted": pc.fill_null(references["deletion_rows"], 0),
        }
    )
    found = uses.group_by("filename", use_threads=False).aggregate(
        [("place", "min"), ("place", "max"), ("rows", "sum"), ("bytes", "max"), ("deleted", "sum")]
    )
    found = found.rename_columns(["filename", "first", "last", "rows", "bytes", "deleted"])
    return found.take(pc.sort_indices(found, [("first", "ascending"), ("last", "ascending")]))
