"""The one line that stays of a long load: rows, rows a second, and a leaf that got far more than its share. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.report import counted, rate_text

TOLD_ROWS = 100_000
"""A smaller load leaves no line: its snapshot says all."""
SKEW = 4
"""A leaf is skewed from so many times its even share on, or from three quarters of all rows."""


def summary(references: Sequence[FileReference], tree: PartitionTree, schema: Schema, seconds: float) -> str:
    """Return the line for the references that a load added; "" when it added few rows."""
    rows = sum(reference.rows for reference in references)
    if rows < TOLD_ROWS:
        return ""
    files = len({reference.filename for reference in references})
    line = f"{counted(rows, 'row')} in {counted(files, 'file')}{rate_text(rows, seconds)}"
    skew = skewed(references, tree, schema)
    return f"{line}; {skew}" if skew else line


def skewed(references: Sequence[FileReference], tree: PartitionTree, schema: Schema) -> str:
    """Return which leaf got far more rows than its share, and what to do; "" when none did."""
    leaves, rows = len(tree.leaves), sum(reference.rows for reference in references)
    most = max(references, key=lambda reference: reference.rows)
    share = most.rows / rows
    if leaves < 2 or share < min(0.75, SKEW / leaves) or most.partition_id not in tree:
        return ""
    return f"leaf {tree[most.partition_id].region.text(schema)} got {share:.0%} of the rows: split it"
