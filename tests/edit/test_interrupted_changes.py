"""A change of rows that is interrupted at any write leaves the version before it, or the one after it, and no file."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from sleeper_nb.errors import StorageError
from tests.support.builders import EMBEDDED, a_store, data_files, in_order, ingest, reachable, reopened, rows_of
from tests.support.builders import scan as read
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer

HOW = {"vectors": ALWAYS_VECTORS, "files": NEVER_VECTORS}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize(("fault", "after"), [(interrupt, False), (interrupt, True), (lose_answer, False)])
def test_an_interrupt_at_any_write_leaves_no_file(tmp_path: Path, kind: str, how: str, fault, after: bool):
    for number in count(1):
        store = a_store(tmp_path / str(number), points=["h", "p"], kind=kind)
        ingest(store, rows_of("a", "b", "e", "i", "k", "z"))
        ingest(store, rows_of("c", "j", "q"))
        files, head, rows = data_files(store), store.head(), in_order(read(store).to_pylist())
        trap = Trap(number, fault, after=after, only=("output", "write", "write_new", "commit"))
        failing = reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap))
        edits = {
            "delete": lambda row: row["key"] in "bq",
            "update": lambda row: {**row, "key": "y"} if row["key"] in "ai" else None,
            "insert": rows_of("d", "x"),
        }
        try:
            change(failing, **edits, settings=HOW[how])
        except (KeyboardInterrupt, StorageError):
            new = reopened(store)
            is_done = new.head().id != head.id
            expected = in_order(rows_of("c", "d", "e", "j", "k", "x", "y", "y", "z")) if is_done else rows
            assert in_order(read(new).to_pylist()) == expected, trap.calls
            assert data_files(store) == files if not is_done else data_files(store) <= reachable(new), trap.calls
        if len(trap.calls) < number:
            break
    assert number > 5
