"""`ClearTable`: the table is empty, perhaps with other partitions and another schema, as one more snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sleeper_nb.errors import StateRuleBroken
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import Transaction


@dataclass(frozen=True, slots=True)
class ClearTable(Transaction):
    """All contents go to the garbage collector: Sleeper's reinitialising, in one step.

    Parameters
    ----------
    tree
        The partitions from now on; None when they stay, as they can only with the row keys.
    schema_id, schema
        The schema from now on, under a new id; None when it stays.
    """

    tree: PartitionTree | None = None
    schema_id: int | None = None
    schema: Schema | None = None
    operation: ClassVar[str] = "reinitialise"

    def validate(self, state: TableState) -> None:
        """Partitions are told of by the row keys, so both stay or both are new."""
        if self.tree is not None:
            self.tree.check()
        if self.schema is None:
            return
        if self.tree is None and self.schema.row_keys != state.schema.row_keys:
            now, new = (", ".join(f"{f.name} {f.text}" for f in s.row_keys) for s in (state.schema, self.schema))
            raise StateRuleBroken(
                f"the row keys are {now}, and would be {new}, by which the partitions are not cut",
                hint="make the partitions anew too: delete-partitions true (in Python: delete_partitions=True)",
            )
        if self.schema_id is None or self.schema_id <= state.schema_id:
            raise StateRuleBroken(
                f"schema {self.schema_id} is older than the table's {state.schema_id}", hint="run it again"
            )

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        """Mark every reference ready for garbage collection."""
        files = state.files
        for partition_id, begin, end in files.runs():
            names = state.files.active["filename"].slice(begin, end - begin).to_pylist()
            files = files.with_removed(names, partition_id, point.snapshot_id, point.time)
        if self.schema is not None:
            files = files.of_schema(self.schema)
        return state.at(
            point,
            files=files,
            tree=self.tree or state.tree,
            schema=self.schema or state.schema,
            schema_id=self.schema_id or state.schema_id,
            schema_checksum=self.schema.checksum if self.schema else state.schema_checksum,
        )
