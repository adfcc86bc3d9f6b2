"""About how many requests some work would send to S3 and DynamoDB, for dry runs; nothing is asked to find out.

The numbers are those that `benchmarks.request_costs` counts, by file and by commit. They are for work that succeeds at
its first attempt on files of a few MB; a test compares them with what is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.state_store_base import StateStore

PART = 10 << 20
"""From this size on, an object is uploaded in parts of it."""
REFERENCE_BYTES = 36
"""Of one file reference in the metadata of a version."""
_REMOVED, _ADDED = 4, 2
"""Write units of an item of `DynamoDBStateStore` that is moved to another table, or written."""


@dataclass(frozen=True, slots=True)
class RequestEstimate:
    """About how many requests, and request units of DynamoDB."""

    puts: int
    gets: int
    write_units: int
    read_units: int

    def __str__(self) -> str:
        units = f"{self.write_units:,} write and {self.read_units:,} read units of DynamoDB"
        return f"about {self.puts:,} PUT and {self.gets:,} GET of S3, {units}"


def objects(size: int) -> int:
    """Return how many requests write an object of so many bytes."""
    return 1 if size < PART else 2 + math.ceil(size / PART)


@dataclass(frozen=True, slots=True)
class CommitCosts:
    """What commits of a table cost, by its state store."""

    state_store: str
    references: int

    @classmethod
    def of(cls, store: StateStore, state: TableState) -> CommitCosts | None:
        """Return those of a table in S3 at a version; None of one in a folder."""
        return None if store.storage.local else cls(store.name, state.totals().files)

    def ingest(self, files: int) -> RequestEstimate:
        puts, units = self._commit(files, 0)
        return RequestEstimate(files + puts, 1, units, 5)

    def compaction(self, inputs: int, jobs: int, written: int) -> RequestEstimate:
        """Return what jobs cost that merge so many files into one each, of so many bytes in all."""
        if not jobs:
            return RequestEstimate(0, 1, 0, 5)
        puts, units = self._commit(jobs, inputs)
        more = (jobs - 1) * (self._commit(1, 1)[0])  # each job is a commit of its own
        written_objects = jobs * objects(written // jobs)
        return RequestEstimate(written_objects + puts + more, 4 * inputs, units + 4 * (jobs - 1) + 11 * jobs, 14 * jobs)

    def change(self, files: int, leaves: int) -> RequestEstimate:
        """Return what a change costs that takes rows out of so many files, and brings rows to so many leaves."""
        puts, units = self._commit(files + leaves, files)
        return RequestEstimate(files + leaves + puts, 3 + 6 * files, units, 5)

    def _commit(self, added: int, removed: int) -> tuple[int, int]:
        if self.state_store == "S3StateStore":
            return objects(self.references * REFERENCE_BYTES), 4
        if self.state_store == "DynamoDBStateStore":
            return 0, 4 + _ADDED * added + _REMOVED * removed
        return 0, 6


def query(files: int) -> RequestEstimate:
    return RequestEstimate(0, 1 + 3 * files, 0, 3)
