"""How far a stream has read a table: what Spark keeps in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sleeper_nb.errors import StateRuleBroken, StorageError

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in the history of a table.

    Spark asks a query that failed in its first batch where it begins once more, while the end of that batch stands in
    the checkpoint. So the end says by itself which full state the batch begins with.

    Parameters
    ----------
    table_id
        The table's id, which no other table ever has.
    full_state
        The snapshot whose full state is given first.
    snapshot
        The last snapshot whose rows were given; `full_state` at first.
    full_state_done
        Whether the full state was given.
    """

    table_id: str
    full_state: int
    snapshot: int
    full_state_done: bool

    def to_dict(self) -> dict[str, Any]:
        """Return what Spark writes as JSON."""
        return {
            "version": FORMAT,
            "table": self.table_id,
            "fullState": self.full_state,
            "snapshot": self.snapshot,
            "fullStateDone": self.full_state_done,
        }

    @classmethod
    def of(cls, body: Mapping[str, Any], table_id: str, table: str) -> Offset:
        """Read what `to_dict` wrote, for a table.

        Raises
        ------
        StorageError
            When it is no offset, or one that a later release wrote.
        StateRuleBroken
            When it is of another table.
        """
        unreadable = f"cannot read the stream's checkpoint: {dict(body)}"
        if body.get("version") != FORMAT:
            raise StorageError(unreadable, hint="upgrade sleeper-nb")
        try:
            numbers = int(body["fullState"]), int(body["snapshot"])
            found = cls(str(body["table"]), *numbers, full_state_done=bool(body["fullStateDone"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(unreadable, hint="begin anew, with another checkpoint") from error
        if found.table_id != table_id:
            raise StateRuleBroken(
                f"the stream's checkpoint is of another table, which had the name {table!r} before",
                hint="begin anew, with another checkpoint",
            )
        return found
