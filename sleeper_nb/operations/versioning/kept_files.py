"""What a version alone keeps: the data files that would be garbage if it were let go."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.files import FileReferences, Totals

NOTHING = Totals()


def kept_alone(files: FileReferences, retained: Collection[int]) -> dict[int, Totals]:
    """Return for each retained version the files, their rows and bytes that no other one and no reader of today needs.

    A file is live in the snapshots [added, removed) of its references. It is kept by one version alone when that is the
    only retained one in all of its intervals, and no partition refers to it now. Versions that keep nothing alone are
    left out. Pure; as columns, so a million references stay quick.

    Parameters
    ----------
    files
        Of the current state, which tracks every file until garbage collection has taken it.
    retained
        The numbers of the retained snapshots, and of those that savepoints save.
    """
    waiting = files.ready_for_gc
    if not waiting.num_rows or not retained:
        return {}
    versions = np.array(sorted(set(retained)))
    first = np.searchsorted(versions, waiting["added_snapshot"].to_numpy())
    behind = np.searchsorted(versions, waiting["removed_snapshot"].to_numpy())
    live = behind > first
    found = pa.table(
        {
            "filename": waiting["filename"].filter(pa.array(live)),
            "first": first[live],
            "last": behind[live] - 1,
            "rows": waiting["rows"].filter(pa.array(live)),
            "bytes": waiting["bytes"].filter(pa.array(live)),
        }
    )
    sums = [("first", "min"), ("last", "max"), ("rows", "sum"), ("bytes", "max")]
    each = found.group_by("filename").aggregate(sums)
    alone = pc.and_(
        pc.equal(each["first_min"], each["last_max"]),
        pc.invert(pc.is_in(each["filename"], files.active["filename"].combine_chunks())),
    )
    kept = each.filter(alone).group_by("first_min").aggregate(
        [("filename", "count"), ("rows_sum", "sum"), ("bytes_max", "sum")]
    )  # fmt: skip
    counts = (kept[name].to_pylist() for name in ("filename_count", "rows_sum_sum", "bytes_max_sum"))
    totals = map(Totals, *counts)
    return {int(versions[i]): total for i, total in zip(kept["first_min"].to_pylist(), totals, strict=True)}
