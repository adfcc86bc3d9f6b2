"""The outcome of a load beyond its snapshot: what was kept back, what breaks expectations, what is left to merge."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sleeper_nb.errors import Action
from sleeper_nb.load.row_checks import JudgedRows
from sleeper_nb.model.jobs import MadeBefore
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Grid
from sleeper_nb.versions.periodic_savepoints import LoadedAndSaved


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class AddedNothing(Snapshot):
    """The current snapshot, after a load that had no rows and made no other.

    Its own card would show rows that an earlier load added.
    """

    @classmethod
    def at(cls, head: Snapshot) -> AddedNothing:
        """Return the current snapshot as the outcome of such a load."""
        return cls(**head.own_parameters())

    def grid(self) -> Grid:
        """Return one sentence."""
        return Grid((), (), footer=f"no rows to add: the table stays at snapshot {self.id:,}")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CheckedLoad(Snapshot):
    """The snapshot that holds the rows of a load, and what the load says of its rows and files.

    Parameters
    ----------
    kept_back
        The number of rows that were kept back.
    quarantine
        The file that has them; None when there are none.
    note
        The outcome: what was kept back, which the history has in the message; for each expectation that rows break, how
        many and the first of them, of which the history has the number.
    runs
        What became of the sorted runs of a bulk load that was not to merge them; "" for other loads.
    to_merge
        What merges the files that such a load added; None where there is nothing to merge.
    nothing
        What the report says instead of the snapshot's card, when the load added no rows.
    """

    note: str
    kept_back: int = 0
    quarantine: str | None = None
    runs: str = ""
    to_merge: Action | None = None
    prefix: str = ""
    nothing: str = ""

    @classmethod
    def of(cls, loaded: Snapshot, note: str, *, kept_back: int = 0, quarantine: str | None = None) -> CheckedLoad:
        """Return a snapshot that a load made, or the current one if it added no rows, with its outcome."""
        nothing = loaded.grid().footer if isinstance(loaded, AddedNothing) else ""
        return cls(**loaded.own_parameters(), note=note, kept_back=kept_back, quarantine=quarantine, nothing=nothing)

    def grid(self) -> Grid:
        """Return the snapshot as a card, below it the lines of the note that its message lacks, and of runs."""
        note = "\n".join(line for line in self.note.splitlines() if line not in (self.message or ""))
        runs = self.runs if self.to_merge is None else f"{self.runs}: {self.to_merge.text(self.prefix)}"
        card = Grid((), ()) if self.nothing else Snapshot.grid(self)
        return replace(card, footer="\n".join(filter(None, (self.nothing, note, runs))))


def has_added(loaded: Snapshot) -> bool:
    """Return whether a load has made the snapshot that it returned."""
    nothing = loaded.nothing if isinstance(loaded, CheckedLoad) else ""
    return not (nothing or isinstance(loaded, AddedNothing | MadeBefore))


def with_broken_expectations(loaded: Snapshot, judged: JudgedRows) -> Snapshot:
    """Return a snapshot that a load made, with what its report says of rows that break expectations, if any do."""
    return CheckedLoad.of(loaded, "\n".join(judged.notes)) if judged.broken else loaded


def noted(loaded: Snapshot, note: str) -> Snapshot:
    """Return a snapshot that a load made, with one more line of its report, if there is something to say."""
    if not note or isinstance(loaded, MadeBefore):
        return loaded
    if isinstance(loaded, CheckedLoad | LoadedAndSaved):
        return replace(loaded, note="\n".join(filter(None, (loaded.note, note))))
    return CheckedLoad.of(loaded, note)


def with_runs(loaded: Snapshot, runs: str, to_merge: Action | None) -> Snapshot:
    """Return a snapshot that a bulk load made, with what became of its sorted runs, if there is something to say."""
    if not runs:
        return loaded
    checked = loaded if isinstance(loaded, CheckedLoad) else CheckedLoad.of(loaded, "")
    return replace(checked, runs=runs, to_merge=to_merge)


def message_with(message: str | None, note: str) -> str | None:
    """Return the message of a commit with a note in brackets; the note alone when there is no message."""
    return f"{message} ({note})" if message and note else message or note or None
