"""Processes that are forked from one that has an open table, before and after it reads rows: what each of them gets.

``python -m tests.whole.forked FOLDER`` prints, as JSON, the answers or errors by moment and work.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Callable
from typing import Any

import sleeper_nb as sl

WAIT_SECONDS = 60


def answer_of(work: Callable[[], Any], answers: Any) -> None:
    try:
        answers.put(repr(work()))
    except sl.SleeperError as error:
        answers.put(f"{type(error).__name__}: {error.message}")


def in_child(work: Callable[[], Any]) -> str:
    """Return what a forked process gets; a process that does not end is killed."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=answer_of, args=(work, answers))
    child.start()
    child.join(WAIT_SECONDS)
    if child.is_alive():
        child.kill()
    return "no answer" if child.exitcode != 0 else str(answers.get())


def main(folder: str) -> None:
    session = sl.connect(folder)
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}), split_points=[5])
    table.ingest([{"k": n, "v": n} for n in range(10)])
    reads = {
        "sql": lambda: session.sql("SELECT max(k) AS k FROM t WHERE v > 1", engine="duckdb").to_dict(),
        "scan": lambda: len(table.scan().to_arrow()),
        "keys": lambda: len(table.scan(keys=[3]).to_arrow()),
        "where": lambda: len(table.scan(where="v = 3").to_arrow()),
        "inspect": lambda: table.inspect.query("SELECT count(*) AS n FROM files").to_dict(),
    }
    works = {**reads, "ingest": lambda: table.ingest([{"k": 20, "v": 20}]).snapshot.rows}
    found = {"before": {name: in_child(work) for name, work in works.items()}}
    for work in reads.values():
        work()
    found["after"] = {name: in_child(work) for name, work in works.items()}
    kept = session.sql("SELECT v FROM t ORDER BY v", engine="duckdb")
    found["after"]["an answer of the parent"] = in_child(lambda: len(kept.to_arrow()))
    found["here"] = {name: repr(work()) for name, work in works.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
