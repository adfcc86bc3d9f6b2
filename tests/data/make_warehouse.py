"""Make a small warehouse with every type, operation and file format: python -m tests.data.make_warehouse first FOLDER.

With ``edited`` in place of ``first``, tables whose rows were changed.

Two files of it are not kept, as each opening makes them again: ``default/catalog.sqlite-reserve``, of 256 KiB for a
full disk, and ``default/catalog.sqlite-turns``, for locks.
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.progress import SILENT

VALUES = {
    "long": "long?", "blob": "bytearray?", "real": "double?", "half": "float?", "yes": "boolean?",
    "price": "decimal(10,2)?", "words": "list<string>?", "counts": "map<string,long>?",
}  # fmt: skip
SCHEMA = sl.Schema({"id": "int", "name": "string"}, {"day": "date", "at": "timestamp"}, VALUES)
SAVEPOINT = "before"
MINUTE = timedelta(minutes=1)
VECTORS = {"sleeper.table.deletion.vector.percent.max": "100", "sleeper.table.deletion.vector.file.bytes.min": "0"}
"""A change of rows keeps each file, however small, and writes which of its rows are gone."""


def row(number: int, word: str) -> dict[str, Any]:
    """Return the row of a key; the values of every fifth are null."""
    at = datetime(2026, 1, 1, number, tzinfo=UTC)
    keys = {"id": number, "name": word, "day": date(1970, 1, 1 + number), "at": at}
    if number % 5 == 0:
        return keys | dict.fromkeys(VALUES)
    return keys | {
        "long": 2**40 + number,
        "blob": bytes([0, number]),
        "real": number / 8,
        "half": number / 4,
        "yes": number % 2 == 0,
        "price": Decimal(number) / 4,
        "words": [word, None, "é"],
        "counts": [(word, number)],
    }


def rows(word: str, *numbers: int) -> list[dict[str, Any]]:
    """Return rows of one word."""
    return [row(number, word) for number in numbers]


def make(folder: str) -> None:
    """Make the tables ``full``, ``log`` and ``moved``: one of each state store, and one that was migrated."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    session = sl.connect(folder, clock=clock, progress=SILENT, author="ann")
    session.set_properties({"sleeper.default.table.gc.delay.minutes": "20"})
    for name, kind in (("full", "S3StateStore"), ("log", "TransactionLogStateStore"), ("moved", "S3StateStore")):
        settings = {"snapshot.num-retained.min": "5"}
        table = session.create_table(name, SCHEMA, [10], state_store=kind, properties=settings)
        table.ingest(rows("first", 1, 2, 5, 11), message="one", job_id="nightly")
        clock.advance(MINUTE)
        table.ingest(rows("second", 3, 12), message="two")
        clock.advance(MINUTE)
        table.create_savepoint(SAVEPOINT, message="before the compaction")
        if name != "moved":
            table.maintenance.compact("all", engine="local")
            clock.advance(MINUTE)
            table.ingest(rows("third", 4, 15), message="three")
            table.maintenance.split(at=5)
            clock.advance(MINUTE)
            table.rollback(SAVEPOINT, message="undo")
            table.ingest(rows("last", 6), message="last")
            table.set_properties({"sleeper.table.compaction.files.batch.size": "7"})
            table.alter(add_columns={"note": "string?"}, rename_columns={"real": "number"})
        clock.advance(MINUTE)
    session.admin.migrate("moved", "TransactionLogStateStore", message="to a log")
    session.table("moved").ingest(rows("last", 6), message="last")
    session.close()


def make_edited(folder: str) -> None:
    """Make the tables ``edited`` and ``edited_log``, one of each state store, whose rows were changed.

    Their files are kept where rows go, whose places are in deletion vectors: one goes by the compaction, others stay.
    """
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    session = sl.connect(folder, clock=clock, progress=SILENT, author="ann")
    for name, kind in (("edited", "S3StateStore"), ("edited_log", "TransactionLogStateStore")):
        edit(session.create_table(name, SCHEMA, [10], state_store=kind, properties=VECTORS), clock)
    session.close()


def edit(table: sl.Table, clock: ManualClock) -> None:
    """Change rows of a table: before a savepoint, between it and a compaction, and after that."""
    table.alter(unique_keys=True, checks={"half_is_small": "half < 100"}, defaults={"long": 7})
    table.ingest(rows("first", 1, 2, 3, 5, 11, 12, 13), message="one", job_id="nightly")
    clock.advance(MINUTE)
    table.delete("id = 2", message="two goes")
    table.create_savepoint(SAVEPOINT, message="before the compaction")
    clock.advance(MINUTE)
    table.maintenance.compact("all", engine="local")
    clock.advance(MINUTE)
    table.update({"long": "long + 1"}, where="id IN (3, 11)", message="one more")
    table.upsert([*rows("first", 1), *rows("second", 4)], message="of a source")
    table.delete("id = 12")
    clock.advance(MINUTE)


if __name__ == "__main__":
    {"first": make, "edited": make_edited}[sys.argv[1]](sys.argv[2])
