"""Mixed load on DynamoDB Local and versitygw, through proxies that cut, reset, delay and drop answers.

Run it by ``python -m tests.servers.mixed_load --seconds 600``. Several writers use the same tables, each by a session
of its own, while an oracle keeps what was acknowledged. It holds that

* rows whose ingest returned are in every later scan, once each; those of an ingest that failed are there all or not;
* a savepoint that was made has the rows that it had, until it is deleted;
* every error names the network, or other writers that were faster;
* a check finds nothing at the end, and every retained version can be read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

import sleeper_nb as sl
from sleeper_nb.errors import ConflictError, EngineError, NotFound, SleeperError, StorageError
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.query import EngineName
from tests.servers.dynamodb import dynamodb_running
from tests.servers.proxy import CUTS, LENGTHS, Fate, Fates, Proxy, proxied
from tests.servers.versity import versitygw_running

SCHEMA = sl.Schema({"key": "string"}, values={"batch": "string"})
PROPERTIES = {
    "sleeper.table.gc.delay.minutes": "2",  # longer than any scan here
    "snapshot.num-retained.min": "5", "snapshot.time-retained": "20 s",
    "sleeper.table.partition.splitting.threshold": "2000",
}  # fmt: skip
FATES = (
    *(Fate("cut", cut, length) for cut in CUTS for length in LENGTHS), Fate("reset"), Fate("reset"), Fate("reset"),
    Fate("refused"), Fate("refused"), Fate("dropped", seconds=30), Fate("delayed", seconds=0.3),
    Fate("delayed", seconds=0.3), Fate("delayed", seconds=7),  # the last comes after the client's patience has ended
)  # fmt: skip


@dataclass
class Oracle:
    """What was acknowledged. Batches are named ``table/worker/number``."""

    sizes: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    """By table: the batches that are in it until they are deleted."""
    savepoints: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    """By table: the savepoints that were made and not deleted, and the batches in each."""
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self, table: str) -> set[str]:
        """Return the batches that must be in a scan that begins now."""
        with self.lock:
            return set(self.acknowledged.setdefault(table, set()))

    def wrong(self, text: str) -> None:
        """Note that something does not hold."""
        with self.lock:
            self.violations.append(text)

    def judge_rows(self, table: str, what: str, batches: list[str], must: set[str]) -> frozenset[str]:
        """Hold that batches are there whole and once, among them those that `must`; return which are there."""
        counts, must = Counter(batches), must & self.known(table)  # others may have been deleted meanwhile
        for batch, count in counts.items():
            if count != self.sizes.get(batch):
                self.wrong(f"{what}: {count} of {self.sizes.get(batch)} rows of {batch}")
        if missing := must - counts.keys():
            self.wrong(f"{what}: {len(missing)} acknowledged batches are missing, such as {min(missing)}")
        return frozenset(counts)

    def judge_error(self, what: str, error: Exception) -> None:
        """Hold that an error names the network, a worker that was lost, or other writers."""
        named = isinstance(error, StorageError) and "network" in str(error)
        named |= isinstance(error, EngineError) and "lost a worker" in str(error)
        with self.lock:
            self.failed[f"{type(error).__name__}: {str(error).split(' on ')[0].split(': s3')[0][:60]}"] += 1
        if not named and not isinstance(error, ConflictError):
            stack = "" if isinstance(error, SleeperError) else "".join(traceback.format_exception(error)[-6:])
            self.wrong(f"{what}: {type(error).__name__}: {error} {stack}")


class Worker:
    """One session that does what comes next by a seed."""

    def __init__(self, number: int, seed: int, oracle: Oracle, session: sl.Session, steps: Steps | None = None) -> None:
        self.number, self.oracle, self.session, self.steps = number, oracle, session, steps or STEPS
        self.random = random.Random(seed * 1000 + number)  # noqa: S311 - for tests
        self.made, self.mine = 0, {table: [] for table in TABLES}

    def run_until(self, end: float) -> None:
        """Work until a moment."""
        while time.monotonic() < end:
            self.step()

    def step(self) -> bool:
        """Do one step on one table, and let the oracle judge its error; return whether there was none."""
        step = self.random.choices(list(self.steps), [weight for weight, _ in self.steps.values()])[0]
        table = self.random.choice(TABLES)
        try:
            self.steps[step][1](self, table)
        except Exception as error:  # noqa: BLE001 - the oracle judges it
            self.oracle.judge_error(f"{step} of {table}", error)
            return False
        with self.oracle.lock:
            self.oracle.done[step] += 1
        return True

    def new_rows(self, table: str, most: int = 40) -> tuple[str, list[dict[str, str]]]:
        """Return a new batch, of which the oracle knows the size, and its rows."""
        self.made += 1
        batch, size = f"{table}/{self.number}/{self.made}", self.random.randint(1, most)
        with self.oracle.lock:
            self.oracle.sizes[batch] = size
        return batch, [{"key": f"{self.random.random()}", "batch": batch} for _ in range(size)]

    def is_there(self, table: str, batch: str) -> None:
        """Note that a batch was acknowledged."""
        with self.oracle.lock:
            self.oracle.acknowledged.setdefault(table, set()).add(batch)

    def may_go(self, table: str) -> str | None:
        """Return a batch that may be gone from now on, if there is any."""
        known = sorted(self.oracle.known(table))
        if not known:
            return None
        batch = self.random.choice(known)
        with self.oracle.lock:
            self.oracle.acknowledged[table].discard(batch)
        return batch

    def ingest(self, table: str) -> None:
        batch, rows = self.new_rows(table)
        self.session.table(table).ingest(rows)
        self.is_there(table, batch)

    def scan(self, table: str) -> None:
        must = self.oracle.known(table)
        self.oracle.judge_rows(table, f"scan of {table}", self.batches(table), must)

    def batches(self, table: str, version: str | None = None) -> list[str]:
        found: list[str] = self.session.table(table).scan(version=version).to_arrow()["batch"].to_pylist()
        return found

    def save(self, table: str) -> None:
        must = self.oracle.known(table)
        self.made += 1
        name = f"s{self.number}x{self.made}"
        self.session.table(table).create_savepoint(name)
        must &= self.oracle.known(table)  # without what others deleted meanwhile
        with self.oracle.lock:
            self.oracle.savepoints.setdefault(table, {})[name] = frozenset(must)
        self.mine[table].append(name)
        rows = self.oracle.judge_rows(
            table, f"new savepoint {name} of {table}", self.batches(table, f"savepoint.{name}"), must
        )
        with self.oracle.lock:
            self.oracle.savepoints[table][name] = rows

    def read_savepoint(self, table: str) -> None:
        if self.mine[table]:
            name = self.random.choice(self.mine[table])
            self.judge_savepoint(table, name)

    def judge_savepoint(self, table: str, name: str) -> None:
        rows, batches = self.oracle.savepoints[table][name], self.batches(table, f"savepoint.{name}")
        if found := rows - set(batches):
            self.oracle.wrong(f"savepoint {name} of {table}: {len(found)} batches are missing, such as {min(found)}")
        self.oracle.judge_rows(table, f"savepoint {name} of {table}", batches, set())

    def delete_savepoint(self, table: str) -> None:
        if self.mine[table]:
            name = self.mine[table].pop(0)
            with self.oracle.lock:
                del self.oracle.savepoints[table][name]
            self.session.table(table).delete_savepoint(name, force=True)

    def update(self, table: str, engine: EngineName = "duckdb") -> None:
        """Give the rows of a batch other keys: they go to other leaves."""
        if known := sorted(self.oracle.known(table)):
            batch, salt = {"batch": self.random.choice(known)}, self.random.randint(1, 1 << 30)
            updates = {"key": f"'0.' || abs(hash(key)) || '{salt}'"}
            self.session.table(table).update(updates, "batch = :batch", params=batch, engine=engine)

    def delete(self, table: str, engine: EngineName = "duckdb") -> None:
        """Delete the rows of a batch: all, or by an error none."""
        if batch := self.may_go(table):
            self.session.table(table).delete("batch = :batch", params={"batch": batch}, engine=engine)

    def upsert(self, table: str, engine: EngineName = "duckdb") -> None:
        """Insert a batch, and give its rows once more: they are updated."""
        batch, rows = self.new_rows(table)
        for _ in range(2):
            self.session.table(table).upsert(rows, engine=engine)
        self.is_there(table, batch)

    def merge(self, table: str, engine: EngineName = "duckdb") -> None:
        """Insert a batch and delete another one, in one commit."""
        gone, (batch, rows) = self.may_go(table), self.new_rows(table)
        clauses = (
            "WHEN NOT MATCHED THEN INSERT (key, batch) VALUES (new.key, new.batch) "
            "WHEN NOT MATCHED BY SOURCE AND t.batch = :gone THEN DELETE"
        )
        statement = f"MERGE INTO {table} t USING new ON t.key = new.key {clauses}"
        self.session.sql(statement, data={"new": pa.Table.from_pylist(rows)}, params={"gone": gone}, engine=engine)
        self.is_there(table, batch)

    def overwrite(self, table: str, engine: EngineName = "duckdb") -> None:
        """Put a batch in the place of another one, in one commit."""
        if gone := self.may_go(table):
            batch, rows = self.new_rows(table)
            kept = "batch IN (:gone, :batch)"
            params = {"gone": gone, "batch": batch}
            self.session.table(table).overwrite(rows, kept, params=params, engine=engine)
            self.is_there(table, batch)

    def migrate(self, table: str) -> None:
        now = self.session.table(table)._store.head().state_store
        to = self.random.choice([kind for kind in STATE_STORES if kind != now])
        try:
            self.session.admin.migrate(table, to)
        except sl.InvalidInput as error:  # another worker was faster
            if "already" not in error.message:
                raise

    def own_table(self, _table: str) -> None:
        self.made += 1
        name = f"own{self.number}x{self.made}"
        table = self.session.create_table(name, SCHEMA, state_store=self.random.choice(STATE_STORES))
        table.ingest([{"key": "k", "batch": name}])
        assert table.scan().to_arrow()["batch"].to_pylist() == [name]
        self.session.drop_table(name, force=True)


TABLES = tuple(kind.removesuffix("StateStore") for kind in STATE_STORES)
Steps = Mapping[str, tuple[int, Callable[[Worker, str], object]]]
"""Steps by name: how often each comes, and what it does with which table."""
STEPS: Steps = {
    "ingest": (40, Worker.ingest),
    "scan": (12, Worker.scan),
    "update": (5, Worker.update),
    "delete": (2, Worker.delete),
    "upsert": (4, Worker.upsert),
    "merge": (3, Worker.merge),
    "overwrite": (2, Worker.overwrite),
    "save": (6, Worker.save),
    "read savepoint": (6, Worker.read_savepoint),
    "delete savepoint": (4, Worker.delete_savepoint),
    "compact": (
        8,
        lambda worker, table: worker.session.table(table).maintenance.compact(strategy="all", engine="local"),
    ),
    "split": (2, lambda worker, table: worker.session.table(table).maintenance.split()),
    "expire": (5, lambda worker, table: worker.session.table(table).maintenance.expire(dry_run=False)),
    "gc": (6, lambda worker, table: worker.session.table(table).maintenance.collect_garbage(dry_run=False)),
    "sweep": (1, lambda worker, table: worker.session.table(table).maintenance.sweep_orphans(dry_run=False)),
    "list": (4, lambda worker, table: worker.session.table(table).savepoints()),
    "own table": (2, Worker.own_table),
    "migrate": (2, Worker.migrate),
}


class Faults:
    """Fates for a share of the answers, and a count of each."""

    def __init__(self, share: float, seed: int) -> None:
        self.share, self._random = share, random.Random(seed)  # noqa: S311 - for tests
        self.requests, self.counts = 0, Counter[str]()

    def __call__(self, _number: int, _method: str, _target: str) -> Fate | None:
        self.requests += 1
        if self._random.random() >= self.share:
            return None
        fate = self._random.choice(FATES)
        self.counts[fate.kind] += 1
        return fate


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[tuple[Proxy, Proxy]]:
    """Run both servers and a proxy before each; the environment leads boto3 to the proxies."""
    for name in ("dynamodb", "s3"):
        (folder / name).mkdir()
    with dynamodb_running(folder / "dynamodb") as dynamodb, versitygw_running(folder / "s3") as s3:
        s3.client("s3").create_bucket(Bucket="mixed")
        with proxied(dynamodb) as (one, at_dynamodb), proxied(s3) as (two, at_s3):
            before = dict(os.environ)
            os.environ.update(s3.environment())
            os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = at_dynamodb.endpoint_url
            os.environ["AWS_ENDPOINT_URL_S3"] = at_s3.endpoint_url
            try:
                yield one, two
            finally:
                os.environ.clear()
                os.environ.update(before)


def run(seconds: float, *, workers: int = 4, share: float = 0.04, seed: int = 1) -> tuple[Oracle, Faults]:
    """Load the servers for so long, then hold what the oracle knows against what is there."""
    oracle, faults = Oracle(), Faults(share, seed)
    with tempfile.TemporaryDirectory() as folder, servers(Path(folder)) as proxies, contextlib.ExitStack() as opened:
        with _session() as first:
            for table, kind in zip(TABLES, STATE_STORES, strict=True):
                first.create_table(table, SCHEMA, ["0.3", "0.6"], state_store=kind, properties=PROPERTIES)
        sessions = [opened.enter_context(_session()) for _ in range(workers)]
        team = [Worker(number, seed, oracle, session) for number, session in enumerate(sessions)]
        _tell(proxies, faults)
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=worker.run_until, args=(end,)) for worker in team]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _tell(proxies, None)
        with _session() as last:
            judge_all(oracle, Worker(workers, seed, oracle, last))
    return oracle, faults


def _session() -> sl.Session:
    return sl.connect("s3://mixed/house", "mixed")


def _tell(proxies: tuple[Proxy, Proxy], fates: Fates | None) -> None:
    for proxy in proxies:
        proxy.tell(fates)


def judge_all(oracle: Oracle, worker: Worker) -> None:
    """Judge every table; again after everything that may go is gone."""
    for table in TABLES:
        opened = worker.session.table(table)
        for last in (False, True):
            if last:
                opened.maintenance.compact(strategy="all", engine="local")
                opened.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
                opened.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
            worker.scan(table)
            for name in oracle.savepoints.get(table, {}):
                try:
                    worker.judge_savepoint(table, name)
                except NotFound as error:
                    oracle.wrong(f"savepoint {name} of {table} is lost: {error}")
            report = opened.maintenance.check(deep=True)
            if not report.ok:
                oracle.wrong(f"check of {table}: {report}")
            for snapshot in opened.history():
                if worker.session.table(table).scan(version=snapshot.id).count() != snapshot.rows:
                    oracle.wrong(f"snapshot {snapshot.id} of {table} has not its {snapshot.rows} rows")


def summary(oracle: Oracle, faults: Faults) -> str:
    """Return what was done and found, in lines."""
    acknowledged = sum(map(len, oracle.acknowledged.values()))
    rows = sum(oracle.sizes[batch] for some in oracle.acknowledged.values() for batch in some)
    lines = [
        f"{faults.requests:,} requests, {sum(faults.counts.values()):,} faults: {dict(faults.counts)}",
        f"{sum(oracle.done.values()):,} steps done: {dict(oracle.done)}",
        f"{acknowledged:,} of {len(oracle.sizes):,} ingests acknowledged ({rows:,} rows)",
        f"{sum(len(some) for some in oracle.savepoints.values()):,} savepoints kept",
        f"{sum(oracle.failed.values()):,} steps failed:",
        *(f"  {count:5,}  {text}" for text, count in oracle.failed.most_common()),
        f"{len(oracle.violations)} violations",
        *(f"  {text}" for text in oracle.violations[:40]),
    ]
    return "\n".join(lines)


def main() -> int:
    """Run from a shell."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--share", type=float, default=0.04, help="of the answers that something befalls")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    oracle, faults = run(given.seconds, workers=given.workers, share=given.share, seed=given.seed)
    print(summary(oracle, faults))
    return 1 if oracle.violations else 0


if __name__ == "__main__":
    sys.exit(main())
