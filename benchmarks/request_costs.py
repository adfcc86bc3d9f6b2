"""Requests and bytes of each kind of work, by state store and number of files, and their price in a month of use.

``python -m benchmarks.request_costs [--files 10 10000 1000000] [--write]`` prints the page ``docs/costs.md``, or writes
it. S3 is in memory under the real clients of boto3 and Arrow, DynamoDB in memory under the real requests. Files of
a large table do not exist, as no work opens them; those of the leaf at work do.
"""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

import sleeper_nb as sl
from benchmarks.million_files import WIDTH, references
from sleeper_nb.clock import Clock
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition
from sleeper_nb.model.properties import METADATA_CACHE
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles
from tests.servers.memory import MemoryDynamoDB, OnMemory
from tests.servers.memory_s3 import CHEAP, MemoryS3, S3Requests, memory_s3

SIZES = (10, 10_000, 1_000_000)
STORES = ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
MOST_ITEMS = 10_000
"""The largest table of items that is measured; a larger one is scaled, as its items do not fit into memory."""
PAGE = Path(__file__).parents[1] / "docs" / "costs.md"
KIB = 1024
PAGE_BYTES = 2**20
"""Of one answer to a query of DynamoDB."""
FILES_MERGED = 10
ROWS = 1000


INTRODUCTION = """
# What the requests cost
<!-- `python -m docs.regenerate costs` writes this page; do not edit it -->
Requests and bytes of one piece of work on a table in S3 with its catalog in DynamoDB, counted under the real
clients; the state store and the number of files decide. A test counts again what is said of 10 files. `--dry-run`
of `ingest`, `compact`, `sql` and changes of rows says about the same of the work at hand, where the warehouse is in S3.

- An *ingest* loads 1,000 rows of one leaf, a *commit alone* adds one file that is there already, a
  *compaction* merges the 11 files of a leaf, a *change* updates one row by its key. A *query* reads the row of a key.
- A *bulk load* sorts 10,000 rows of one leaf in 10 runs. *Unmerged*, each run is a file, and there is a *compaction*
  to come.
- *First* is in a new session, which knows nothing yet: it opens the instance, and reads the catalog, the properties
  and the table's metadata. All other work is in that session.
- Another writer's commit in between costs the reading of its metadata, as *first* does, and one more attempt.
- Bytes are those of bodies. Request units are those of DynamoDB on demand, for items of the sizes that were sent.
- PUT stands for PUT, POST and LIST, GET for GET and HEAD. Deletions are free.
- Retained versions are stored: with `S3StateStore`, each version of a million files has 35 MB of metadata of its own.
""".strip()


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices in USD; check them before you rely on them.

    Parameters
    ----------
    region, checked
        Where they hold, and since when they are known.
    put, get
        Of 1,000 requests to S3 Standard: PUT, POST and LIST; GET and HEAD. Deletions are free.
    write, read
        Of a million request units of DynamoDB on demand.
    """

    region: str = "us-east-1"
    checked: str = "2025-11"
    put: float = 0.005
    get: float = 0.0004
    write: float = 0.625
    read: float = 0.125

    def of(self, used: Used) -> float:
        """Return the price of what was used, in USD."""
        return (used.puts * self.put + used.gets * self.get) / 1e3 + (
            used.write_units * self.write + used.read_units * self.read
        ) / 1e6


@dataclass(frozen=True, slots=True)
class Used:
    """What one piece of work asked of S3 and DynamoDB."""

    puts: float
    gets: float
    sent: float
    received: float
    dynamodb: float
    write_units: float
    read_units: float


MONTH = {
    "ingest": ("an ingest a minute", 60 * 24 * 30),
    "query of a key, again": ("10,000 queries a day", 10_000 * 30),
    "query of a key, first": ("100 new sessions a day", 100 * 30),
    "compaction": ("a compaction of 10 files for each 10 ingests", 6 * 24 * 30),
    "change of rows": ("100 changes of a row a day", 100 * 30),
}


@dataclass(slots=True)
class CountedDynamoDB:
    """A client before `MemoryDynamoDB` that counts requests and request units as AWS defines them."""

    behind: MemoryDynamoDB
    requests: Counter[str] = field(default_factory=Counter)
    write_units: int = 0
    read_units: int = 0

    def take(self) -> tuple[int, int, int]:
        """Return requests, write units and read units since the last call."""
        taken = self.requests.total(), self.write_units, self.read_units
        self.requests, self.write_units, self.read_units = Counter(), 0, 0
        return taken

    def __getattr__(self, name: str) -> Any:
        send = getattr(self.behind, name)

        def count(**request: Any) -> Any:
            self.requests[name] += 1
            try:
                answer = send(**request)
            finally:
                self._count_written(name, request)
            self._count_read(name, answer)
            return answer

        return count

    def _count_written(self, name: str, request: dict[str, Any]) -> None:
        if name == "transact_write_items":
            parts = (body for part in request["TransactItems"] for body in part.values())
            self.write_units += sum(2 * _units(_size(_stored(body)), 1) for body in parts)
        if name == "batch_write_item":
            for parts in request["RequestItems"].values():
                items = (part.get("PutRequest", {}).get("Item") or {} for part in parts)
                self.write_units += sum(_units(_size(item), 1) for item in items)

    def _count_read(self, name: str, answer: dict[str, Any]) -> None:
        if name == "query":
            self.read_units += _units(sum(map(_size, answer["Items"])), 4)
        if name == "get_item":
            self.read_units += _units(_size(answer.get("Item", {})), 4)
        if name == "batch_get_item":
            self.read_units += sum(_units(_size(item), 4) for items in answer["Responses"].values() for item in items)
        if name == "transact_get_items":
            self.read_units += sum(2 * _units(_size(each.get("Item", {})), 4) for each in answer["Responses"])


def _stored(body: dict[str, Any]) -> dict[str, Any]:
    """Return about what an item of a transaction has afterwards."""
    return body.get("Item") or {**body.get("Key", {}), **body.get("ExpressionAttributeValues", {})}


def _size(item: dict[str, Any]) -> int:
    """Return the bytes of an item: names and values as DynamoDB counts them, nearly."""
    return sum(len(name) + _value_size(value) for name, value in item.items())


def _value_size(value: Any) -> int:
    ((kind, plain),) = value.items()
    match kind:
        case "N":
            return len(plain) // 2 + 2
        case "S":
            return len(plain.encode())
        case "B":
            return len(plain)
        case "L":
            return 3 + sum(1 + _value_size(one) for one in plain)
        case "M":
            return 3 + sum(len(name) + 1 + _value_size(one) for name, one in plain.items())
        case "SS" | "NS":
            return sum(len(one) for one in plain)
    return 1


def _units(size: int, of_kib: int) -> int:
    return max(1, math.ceil(size / (of_kib * KIB)))


@dataclass(frozen=True, slots=True)
class Bench:
    """A warehouse in memory whose requests are counted."""

    s3: MemoryS3
    dynamodb: CountedDynamoDB
    endpoint_url: str

    def session(self) -> sl.Session:
        """Open the warehouse as a new process would."""
        no_cache = {METADATA_CACHE: "0"}  # the most that work asks for: on a machine that has read nothing yet
        in_memory = OnMemory(self.dynamodb, Clock())
        with mock.patch("sleeper_nb.catalog.dynamodb.catalog.DynamoDB", return_value=in_memory):
            return sl.connect(
                "s3://bucket/wh", "costs", region="us-east-1", endpoint_url=self.endpoint_url, properties=no_cache
            )

    def used(self) -> Used:
        """Return what was asked since the last call."""
        asked: S3Requests = self.s3.take()
        cheap = sum(asked.counts[kind] for kind in CHEAP)
        dear = asked.counts.total() - cheap - asked.counts["DELETE"]
        return Used(dear, cheap, asked.sent, asked.received, *self.dynamodb.take())


def rows(begin: int, count: int = ROWS) -> pa.Table:
    """Return rows of the leaf at work."""
    keys = pa.array(range(begin, begin + count), pa.int64())
    moments = pa.array([1_700_000_000_000_000] * count).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"key": keys, "value": [f"value {number}" for number in range(count)], "time": moments})


def prepared(bench: Bench, kind: str, files: int, leaves: int) -> None:
    """Make a table of so many files; those of the first leaf exist."""
    from benchmarks.million_files import SCHEMA, publish

    with bench.session() as session:
        points = [WIDTH * number for number in range(1, leaves)]
        table = session.create_table("t", SCHEMA, points, properties={
            "sleeper.table.statestore.classname": kind, "sleeper.table.compaction.files.batch.size": str(FILES_MERGED),
        })  # fmt: skip
        state = table._store.load()
        each = files // (leaves - 1) if files > leaves else files
        made = references(state.tree, each * leaves, with_statistics=False).active
        elsewhere = FileReferences.of(made.filter(pc.not_equal(made["partition_id"], first_leaf(state).id)))
        if kind == "DynamoDBStateStore":
            table._store.commit(AddFiles(tuple(_reference(row) for row in elsewhere.active.to_pylist())))
        else:
            publish(table._store, replace(state, snapshot_id=2, files=elsewhere))
        table = session.table("t")
        for number in range(FILES_MERGED):
            table.ingest(rows(number * ROWS))


def first_leaf(state: TableState) -> Partition:
    """Return the leaf at work, which has the least keys."""
    return min(state.tree.leaves, key=_begin)


def _begin(leaf: Partition) -> int:
    least = leaf.region.ranges[0].min
    return least if isinstance(least, int) and least > 0 else 0


def _reference(row: dict[str, Any]) -> FileReference:
    bounds = (row["min_key"],), (row["max_key"],)
    return FileReference(row["filename"], row["partition_id"], row["rows"], row["bytes"], *bounds)


def measured(kind: str, files: int) -> dict[str, Used]:
    """Return what each kind of work uses on a table of so many files."""
    with memory_s3() as (s3, server):
        os.environ.update(server.environment())
        bench = Bench(s3, CountedDynamoDB(MemoryDynamoDB(page=4000)), server.endpoint_url)
        leaves = max(2, min(1000, files // 100))
        prepared(bench, kind, files, leaves)
        found: dict[str, Used] = {}
        bench.used()
        with bench.session() as session:  # the first query is asked for with it
            for name, work in WORK.items():
                work(session)
                found[name] = bench.used()
        return found


def query(session: sl.Session) -> None:
    """Read the row of a key."""
    assert session.table("t").scan(keys=5).to_arrow().num_rows == 1


def commit(session: sl.Session) -> None:
    """Commit one file that is there already."""
    store = session.table("t")._store
    leaf = max(store.load().tree.leaves, key=_begin)
    low = _begin(leaf)
    name = f"data/partition_{leaf.id}/{1:032x}.parquet"
    store.commit(AddFiles((FileReference(name, leaf.id, 1, 1, (low,), (low + 1,)),)))


def ingest(session: sl.Session) -> None:
    """Load rows of one leaf."""
    session.table("t").ingest(rows(FILES_MERGED * ROWS))


def bulk_load(session: sl.Session, *, merge: bool) -> None:
    """Load rows of one leaf, which are sorted in `FILES_MERGED` runs."""
    loaded = pa.concat_tables(rows(number * ROWS) for number in range(FILES_MERGED, 2 * FILES_MERGED))
    run = loaded.slice(0, ROWS).nbytes
    of_any_machine: dict[str, Any] = {"threads_of_machine": lambda: 5, "BATCH_ROWS": ROWS, "slice_bytes": lambda _: run}
    with mock.patch.multiple("sleeper_nb.load.bulk_load", **of_any_machine):
        added = session.table("t").bulk_import(loaded, engine="local", merge=merge).snapshot
    assert added is not None
    assert added.added_files == (1 if merge else FILES_MERGED)


def compact(session: sl.Session) -> None:
    """Merge the files of the leaf at work."""
    table = session.table("t")
    leaf = first_leaf(table._store.load()).id
    assert len(table.maintenance.compact("all", engine="local", partition=leaf).jobs) == 1


def change(session: sl.Session) -> None:
    """Update one row by its key."""
    session.table("t").update({"value": "'changed'"}, "key = 5")


WORK: dict[str, Callable[[sl.Session], None]] = {
    "query of a key, first": query,
    "query of a key, again": query,
    "commit alone": commit,
    "ingest": ingest,
    "compaction": compact,
    "change of rows": change,
    "bulk load": partial(bulk_load, merge=True),
    "bulk load, unmerged": partial(bulk_load, merge=False),
}


def scaled(kind: str, files: int) -> tuple[dict[str, Used], bool]:
    """Return what each kind of work uses, and whether that was scaled from a smaller table."""
    if kind != "DynamoDBStateStore" or files <= MOST_ITEMS:
        return measured(kind, files), False
    base, factor = measured(kind, MOST_ITEMS), files / MOST_ITEMS
    first = base["query of a key, first"]  # the only work that reads all items
    pages = math.ceil(first.read_units * factor * 4 * KIB / PAGE_BYTES)
    grown = replace(first, read_units=first.read_units * factor, dynamodb=first.dynamodb + pages)
    return {**base, "query of a key, first": grown}, True


def amount(size: float) -> str:
    """Return a number of bytes with two digits: ``1.2 MB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{float(f'{size / factor:.2g}'):g} {unit}"
    return f"{size:.0f} B"


def row_of(name: str, used: Used) -> str:
    """Return a row of the page's table."""
    numbers = f"{used.puts:,.0f} | {used.gets:,.0f} | {amount(used.sent)} | {amount(used.received)}"
    units = f"{used.dynamodb:,.0f} | {used.write_units:,.0f} | {used.read_units:,.0f}"
    return f"| {name} | {numbers} | {units} |"


def month_of(found: dict[str, Used], prices: Prices) -> float:
    """Return the price of a month of the stated use, in USD."""
    return sum(prices.of(found[name]) * times for name, (_, times) in MONTH.items())


def page(found: dict[tuple[str, int], tuple[dict[str, Used], bool]], prices: Prices) -> str:
    """Return the whole page."""
    use = "; ".join(text for text, _ in MONTH.values())
    lines = [*INTRODUCTION.splitlines(), ""]
    lines += _priced(found, prices, use)
    for kind in STORES:
        for (each, files), (work, is_scaled) in sorted(found.items(), key=lambda item: item[0][1]):
            if each == kind:
                lines += _section(kind, files, work, is_scaled=is_scaled)
    return "\n".join(lines) + "\n"


def _priced(found: dict[tuple[str, int], tuple[dict[str, Used], bool]], prices: Prices, use: str) -> list[str]:
    sizes = sorted({files for _, files in found})
    heads = " | ".join(f"{files:,} files" for files in sizes)
    lines = [
        "## A month",
        f"USD for the requests of a month of this use: {use}. Storage and traffic to other regions come on top;",
        "1 TB in S3 Standard is about 23 a month.",
        "",
        f"| state store | {heads} |",
        f"|---|{'---|' * len(sizes)}",
    ]
    for kind in STORES:
        cells = [f"{month_of(found[kind, files][0], prices):,.2f}" for files in sizes]
        lines.append(f"| `{kind}` | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"List prices of {prices.region} as known in {prices.checked}, not looked up since: check them first.",
        "",
        "| request | USD |",
        "|---|---|",
        f"| 1,000 PUT, POST, LIST of S3 Standard | {prices.put} |",
        f"| 1,000 GET, HEAD of S3 Standard | {prices.get} |",
        f"| 1,000,000 write request units of DynamoDB on demand | {prices.write} |",
        f"| 1,000,000 read request units of DynamoDB on demand | {prices.read} |",
        "",
    ]


def _section(kind: str, files: int, work: dict[str, Used], *, is_scaled: bool) -> list[str]:
    note = [f"The first query is scaled from {MOST_ITEMS:,} files: it reads all items.", ""] if is_scaled else []
    return [
        f"## `{kind}`, {files:,} files",
        *note,
        "| work | S3 PUT | S3 GET | sent | received | DynamoDB | write units | read units |",
        "|---|---|---|---|---|---|---|---|",
        *(row_of(name, used) for name, used in work.items()),
        "",
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, nargs="+", default=SIZES)
    options.add_argument("--write", action="store_true", help="write docs/costs.md")
    given = options.parse_args()
    found = {(kind, files): scaled(kind, files) for files in given.files for kind in STORES}
    text = page(found, Prices())
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
