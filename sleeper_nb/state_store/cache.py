"""The last few states of a table, which never change, so that they need not be read again."""

from __future__ import annotations

import threading
from collections import OrderedDict

from sleeper_nb.model.state import TableState

KEPT = 8


class StateCache:
    """States by the number of their snapshot; the least recently used ones are forgotten. Safe between threads."""

    def __init__(self) -> None:
        self._states: OrderedDict[int, TableState] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, snapshot_id: int) -> TableState | None:
        """Return the state of a snapshot, if it is remembered."""
        with self._lock:
            if snapshot_id in self._states:
                self._states.move_to_end(snapshot_id)
            return self._states.get(snapshot_id)

    def newest(self, at: int) -> TableState | None:
        """Return the newest remembered state at or before a snapshot."""
        with self._lock:
            number = max((number for number in self._states if number <= at), default=None)
            return None if number is None else self._states[number]

    def put(self, state: TableState) -> TableState:
        """Remember a state, and return it."""
        with self._lock:
            self._states[state.snapshot_id] = state
            self._states.move_to_end(state.snapshot_id)
            while len(self._states) > KEPT:
                self._states.popitem(last=False)
            return state
