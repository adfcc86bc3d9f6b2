"""Cost of a version clause compared with the same query without one: DuckDB, a table of 1,000 snapshots.

``python -m benchmarks.version_clause [--snapshots 1000] [--rows 100] [--rounds 60]``: each round runs every
variant in random order; printed are the median of the differences within a round, and the difference of the least
times, which varies least on a busy machine. Nine ingests and a compaction alternate, so every version has 1 to 10
files. A clause that names the current snapshot reads the same files as the query without one: the difference is the
clause itself. A clause that names another version each time must also read its metadata.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import sleeper_nb as sl
from benchmarks.writers import rows
from sleeper_nb.model.snapshots import Moment

SQL = "SELECT count(*), max(value) FROM t{} WHERE key % 7 = 3"
BARE = "no clause"
EACH = 50
"""Every so many snapshots, one is saved."""
WARMED_UP = 5


def filled(folder, state_store, given):
    """Return a session with a table of so many snapshots."""
    session = sl.connect(folder, properties={"sleeper.storage.sync": "false"})
    table = session.create_table("t", sl.Schema({"key": "long"}, values={"value": "string"}), state_store=state_store)
    for number in range(given.snapshots - 1):
        if number % 10 == 9:
            table.maintenance.compact("all", engine="local")
        else:
            table.ingest(rows(1, number, given.rows))
    for number in range(1, given.snapshots, EACH):
        table.create_savepoint(f"s{number}", snapshot=number)
    return session


def clauses(session, number):
    """Return the clauses of one round, by what they are called."""
    head, *older = session.table("t").history()
    chosen = older[number % len(older)]
    return {
        BARE: "",
        "the current snapshot": f" VERSION AS OF {head.id}",
        "another snapshot": f" VERSION AS OF {chosen.id}",
        "a moment": f" TIMESTAMP AS OF '{Moment(chosen.time)}'",
        "an expression": f" TIMESTAMP AS OF TIMESTAMP '{Moment(chosen.time)}' + INTERVAL 1 MILLISECOND".replace(
            " UTC", ""
        ),
        "a savepoint": f" VERSION AS OF 'savepoint.s{1 + 50 * (chosen.id // 50)}'",
    }


def measured(session, given):
    """Return for each way the milliseconds of every round."""
    chosen, found = random.Random(6), {}  # noqa: S311 - the same versions each run
    for number in range(given.rounds + WARMED_UP):
        ways = list(clauses(session, chosen.randrange(given.snapshots)).items())
        for called, clause in chosen.sample(ways, len(ways)):
            began = time.perf_counter()
            session.sql(SQL.format(clause), engine="duckdb").to_arrow()
            spent = 1000 * (time.perf_counter() - began)
            if number >= WARMED_UP:
                found.setdefault(called, []).append(spent)
    return {called: found[called] for called, _ in ways}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--snapshots", type=int, default=1000)
    options.add_argument("--rows", type=int, default=100)
    options.add_argument("--rounds", type=int, default=60)
    given = options.parse_args()
    for state_store in ("S3StateStore", "TransactionLogStateStore"):
        with tempfile.TemporaryDirectory() as name, filled(Path(name), state_store, given) as session:
            found = measured(session, given)
        bare = found[BARE]
        print(f"{state_store}: {given.snapshots} snapshots, {given.rounds} rounds")
        for called, times in found.items():
            more = statistics.median(time - without for time, without in zip(times, bare, strict=True))
            print(
                f"  {called:22} {statistics.median(times):6.1f} ms   in a round {more:+5.1f} ms   "
                f"least {min(times):6.1f} ms {min(times) - min(bare):+5.1f} ms"
            )


if __name__ == "__main__":
    main()
