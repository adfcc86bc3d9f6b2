"""The outcome of a load whose rows were judged one by one: what was kept back, and what breaks expectations."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.loading.row_checks import JudgedRows
from sleeper_nb.report import Grid


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CheckedLoad(Snapshot):
    """The snapshot that holds the rows of a load, and what the load says of rows that did not fit or were not expected.

    Parameters
    ----------
    kept_back
        The number of rows that were kept back.
    quarantine
        The file that has them; None when there are none.
    note
        The outcome: what was kept back, which the history has in the message; for each expectation that rows break, how
        many and the first of them, of which the history has the number.
    """

    note: str
    kept_back: int = 0
    quarantine: str | None = None

    @classmethod
    def of(cls, loaded: Snapshot, note: str, *, kept_back: int = 0, quarantine: str | None = None) -> CheckedLoad:
        """Return a snapshot that a load made, or the current one if it added no rows, with its outcome."""
        values = {field.name: getattr(loaded, field.name) for field in fields(Snapshot)}
        return cls(**values, note=note, kept_back=kept_back, quarantine=quarantine)

    def grid(self) -> Grid:
        """Return the snapshot as a card, with the note below unless its message has it."""
        return replace(Snapshot.grid(self), footer="" if self.note in (self.message or "") else self.note)


def with_broken_expectations(loaded: Snapshot, judged: JudgedRows) -> Snapshot:
    """Return a snapshot that a load made, with what its report says of rows that break expectations, if any do."""
    return CheckedLoad.of(loaded, "\n".join(judged.notes)) if judged.broken else loaded


def message_with(message: str | None, note: str) -> str | None:
    """Return the message of a commit with a note in brackets; the note alone when there is no message."""
    return f"{message} ({note})" if message and note else message or note or None
