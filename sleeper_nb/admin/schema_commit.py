"""Commit a changed schema: its file is written before the commit, and deleted again when the commit fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from sleeper_nb.errors import OutcomeUnknown, SleeperError
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Transaction
from sleeper_nb.state_store.commit_queue import Announce
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=Transaction)


class SchemaCommit(Generic[C]):
    """A change with a new schema, which is planned again when another commit has changed the schema.

    Parameters
    ----------
    make
        Returns the new schema, from a state and the id of the new schema.
    change
        Returns the change, from a state, the id of the new schema, and the new schema.
    announce
        As in `StateStore.commit`.
    """

    def __init__(
        self,
        store: StateStore,
        make: Callable[[TableState, int], Schema],
        change: Callable[[TableState, int, Schema], C],
        announce: Announce | None = None,
    ) -> None:
        self._store, self._make, self._change, self._announce = store, make, change, announce
        self._planned: tuple[TableState, C] | None = None
        self._written: tuple[int, Schema] | None = None

    def commit(
        self, *, author: str | None, message: str | None = None, expectations: str | None = None
    ) -> tuple[TableState, C, Snapshot]:
        """Commit the change; return the state that it changed, the change, and the new snapshot."""
        try:
            described = {"author": author, "message": message, "expectations": expectations}
            snapshot = self._store.commit(self._plan, **described, announce=self._announce)
        except OutcomeUnknown:
            raise  # the table may use the schema: its file must stay
        except SleeperError:  # only these: after an interrupt, another thread may still commit the schema
            self._discard()
            raise
        assert self._planned is not None  # noqa: S101 - a commit has planned
        return *self._planned, snapshot

    def _plan(self, state: TableState) -> C:
        """Return the change of a state; write the schema's file when the state has another schema than before."""
        if self._written is None or self._planned is None or state.schema_id != self._planned[0].schema_id:
            written = self._store.history.write_new_schema(
                lambda schema_id: self._make(state, schema_id), state.schema_id
            )
            if self._written is not None:
                logger.info("table %s: another commit changed the schema; planning again", self._store.table_id)
                self._discard()
            self._written = written
        change = self._change(state, *self._written)
        self._planned = state, change
        return change

    def _discard(self) -> None:
        if self._written is not None:
            self._store.storage.delete(paths.schema(self._written[0]))
