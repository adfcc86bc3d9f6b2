"""The files that can hold the first rows of a scan, by the least and greatest keys that are recorded of each."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.planning import PlannedFile, PlannedLeaf, ScanPlan

FEW_FILES = 8
"""So many files of a leaf are opened without asking which of them are needed."""


def plan_first_rows(plan: ScanPlan, state: TableState, rows: int) -> ScanPlan:
    """Return a plan without files that hold none of its first `rows` rows; the plan itself when rows are processed.

    Parameters
    ----------
    plan
        A scan of `state`, which gives rows leaf by leaf, in key order within each.
    state
        The version that is scanned.
    rows
        How many rows are wanted.
    """
    if not plan.processing.is_nothing:
        return plan
    leaves: list[PlannedLeaf] = []
    for leaf in plan.leaves:
        if rows <= 0:
            break
        leaves.append(replace(leaf, files=_first_files(leaf, state, rows)))
        rows -= sum(file.rows for file in leaf.files if _is_counted(file))
    return replace(plan, leaves=tuple(leaves))


def _is_counted(file: PlannedFile) -> bool:
    return file.rows_exact and file.region is None


def _first_files(leaf: PlannedLeaf, state: TableState, rows: int) -> tuple[PlannedFile, ...]:
    """Return the files of a leaf that can hold one of its first rows.

    Of the files of which all rows count, those with the smallest greatest keys hold enough rows up to some key. What a
    file without any key up to that one holds comes later.
    """
    if len(leaf.files) <= FEW_FILES:
        return leaf.files
    owners = [leaf.partition.id, *(above.id for above in state.tree.ancestors(leaf.partition.id))]
    used, key = state.files.active_rows_in(owners), state.schema.row_keys[0].name
    counted = pa.array([file.filename for file in leaf.files if _is_counted(file)], pa.string())
    sure = used.filter(pc.and_(pc.is_in(used["filename"], counted), pc.is_valid(used[f"max_{key}"])))
    sure = sure.sort_by(f"max_{key}")
    at = pc.index(pc.greater_equal(pc.cumulative_sum(sure["rows"]), rows), pa.scalar(True)).as_py()  # noqa: FBT003
    if at < 0:
        return leaf.files
    has_early_keys = pc.less_equal(used[f"min_{key}"], sure[f"max_{key}"][at])
    early = set(used["filename"].filter(pc.fill_null(has_early_keys, fill_value=True)).to_pylist())
    return tuple(file for file in leaf.files if file.filename in early)
