"""Rounds of work on a Spark cluster, DynamoDB Local and versitygw, in which each of them is killed in the middle.

Run it by ``python -m tests.servers.cluster_rounds --rounds 10 [--notebooks]``. A master and two workers of Spark run as
`tests.servers.standalone` says: nothing reaches the workers but what the session sends. In each round, one thread
loads, changes, compacts and reads three tables (one on each state store) with tasks of the cluster, one does so in this
process, and a stream copies a table into another one. Meanwhile a worker, the S3 server and the DynamoDB server are
killed, one after the other in any order, and started again a moment later. After each round the oracle of
`tests.servers.mixed_load` holds that

* rows that were acknowledged are in every scan, once each; those of a failed step are all there, or none;
* what Spark, DuckDB and our own reader count is the same; a savepoint has the rows that it had;
* the copy has each row of the stream's table once, when the stream has ended;
* every error names the network, a lost worker, or other writers; at the end a check of all files finds nothing.

Before the rounds, the demo runs on the bucket and the cluster while a worker is killed; with ``--notebooks``, notebooks
01, 02, 03 and 06 run there as well, with their first cells changed to the bucket.
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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import sleeper_nb as sl
from sleeper_nb import demo
from sleeper_nb.errors import NotFound
from sleeper_nb.model.properties import STATE_STORES
from tests.servers.killable import Killable, killable_dynamodb, killable_s3
from tests.servers.mixed_load import PROPERTIES, SCHEMA, STEPS, TABLES, Oracle, Steps, Worker, judge_all
from tests.servers.notebooks import failures_of
from tests.servers.standalone import Standalone, bare_python

BUCKET = "rounds"
EVENTS, COPY = "events", "copies"
DOWN_SECONDS = (0.5, 3.0)
"""How long a server stays away."""


@dataclass
class World:
    """The servers and the cluster."""

    folder: Path
    s3: Killable
    dynamodb: Killable
    cluster: Standalone
    kills: Counter[str] = field(default_factory=Counter)

    def session(self, warehouse: str = "house", **options: object) -> sl.Session:
        """Open a session that uses the cluster."""
        config = self.cluster.spark_config(self.folder / "python" / "bin" / "python", "600m")
        config["spark.task.maxFailures"] = "8"
        return sl.connect(f"s3://{BUCKET}/{warehouse}", "rounds", spark_config=config, **options)  # type: ignore[arg-type]

    def kill(self, victim: str, away: float) -> None:
        """Kill one, and start it again after some seconds."""
        self.kills[victim.rstrip("12")] += 1
        if victim.startswith("worker"):
            self.cluster.kill_worker(victim)
            time.sleep(away)
            self.cluster.start_worker(victim)
            return
        server = self.s3 if victim == "S3" else self.dynamodb
        server.kill()
        time.sleep(away)
        server.start()


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    """Run everything; the environment leads to the servers from this process, and has only keys in the workers."""
    with contextlib.ExitStack() as stack:
        s3, dynamodb = killable_s3(folder / "s3"), killable_dynamodb(folder / "dynamodb")
        stack.callback(s3.close)
        stack.callback(dynamodb.close)
        s3.server.client("s3").create_bucket(Bucket=BUCKET)
        keys = s3.server.environment()
        place = {
            "AWS_ENDPOINT_URL_S3": s3.server.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.server.endpoint_url,
        }
        before = dict(os.environ)
        stack.callback(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(keys | place)
        bare_python(folder / "python")
        only_keys = {name: value for name, value in keys.items() if name != "AWS_DEFAULT_REGION"}
        cluster = Standalone(folder, stack, only_keys)
        for name in ("worker1", "worker2"):
            cluster.start_worker(name)
        yield World(folder, s3, dynamodb, cluster)


# What the thread does whose work is done by the cluster.


def bulk_import(worker: Worker, table: str, *, merge: bool) -> None:
    batch, rows = worker.new_rows(table, 4000)
    worker.session.table(table).bulk_import(rows, merge=merge)
    worker.is_there(table, batch)


def compact(worker: Worker, table: str) -> None:
    worker.session.table(table).maintenance.compact(strategy="all", engine="spark")


def time_travel(worker: Worker, table: str) -> None:
    """Compare what three engines count in a version that is retained."""
    opened = worker.session.table(table)
    version = worker.random.choice(opened.history()[:4]).id
    statement = f"SELECT batch, count(*) AS n FROM {table} VERSION AS OF {version} GROUP BY batch ORDER BY batch"
    try:
        answers = [worker.session.sql(statement, engine=engine).to_arrow() for engine in ("spark", "duckdb")]
        read = Counter(opened.scan(version=version).to_arrow()["batch"].to_pylist())
    except NotFound:
        if any(snapshot.id == version for snapshot in opened.history()):
            raise
        return  # the other thread expired it meanwhile
    expected = [{"batch": batch, "n": read[batch]} for batch in sorted(read)]
    if any(answer.to_pylist() != expected for answer in answers):
        worker.oracle.wrong(f"engines differ at snapshot {version} of {table}")


ON_SPARK: Steps = {
    "bulk import": (3, partial(bulk_import, merge=True)),
    "bulk import, unmerged": (3, partial(bulk_import, merge=False)),
    "compact on Spark": (3, compact),
    "read on Spark": (4, time_travel),
    "update on Spark": (2, lambda worker, table: worker.update(table, "spark")),
    "delete on Spark": (1, lambda worker, table: worker.delete(table, "spark")),
    "upsert on Spark": (2, lambda worker, table: worker.upsert(table, "spark")),
    "merge on Spark": (1, lambda worker, table: worker.merge(table, "spark")),
}
IN_PROCESS: Steps = {name: step for name, step in STEPS.items() if name not in {"migrate", "own table"}}


class Stream:
    """A stream that copies the table `EVENTS` into `COPY`, once each row, whatever is killed."""

    def __init__(self, session: sl.Session, checkpoint: Path, oracle: Oracle) -> None:
        self.session, self.checkpoint, self.oracle, self.made = session, checkpoint, oracle, 0

    def add(self) -> None:
        """Add some rows, once, under the id of a job: after an error they are added again."""
        rows = [{"key": f"{self.made:06}/{number}", "batch": "event"} for number in range(50)]
        self.session.table(EVENTS).ingest(rows, job_id=f"event-{self.made}")
        self.made += 1

    def copy(self) -> None:
        """Copy what was added since the last time."""
        target = self.session.table(COPY)

        def take(rows: object, number: int) -> None:
            target.bulk_import(rows, job_id=f"copy-{number}", merge=number % 2 == 1)

        frame = self.session.spark_session.readStream.format("sleeper").load(EVENTS)
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    def until(self, done: threading.Event) -> None:
        """Add and copy until an event is set; a failed copy goes on from its checkpoint."""
        while not done.is_set():
            for name, work in (("add to the stream", self.add), ("copy by a stream", self.copy)):
                while not self._tried(name, work) and not done.wait(0.5):
                    pass

    def _tried(self, name: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the oracle judges it
            judge_on_cluster(self.oracle, name, error)
            return False
        with self.oracle.lock:
            self.oracle.done[name] += 1
        return True

    def judge(self) -> None:
        """Bring the stream to its end, and compare both tables."""
        for tries in range(3):
            try:
                self.copy()
                break
            except Exception as error:  # noqa: BLE001 - of the batch that failed before
                if tries == 2:
                    self.oracle.wrong(f"the stream does not go on: {type(error).__name__}: {error}")
        both = [sorted(self.session.table(name).scan().to_arrow()["key"].to_pylist()) for name in (EVENTS, COPY)]
        if both[0] != both[1]:
            missing, more = Counter(both[0]) - Counter(both[1]), Counter(both[1]) - Counter(both[0])
            self.oracle.wrong(f"the copy lacks {missing.total()} rows and has {more.total()} more")


def judge_on_cluster(oracle: Oracle, what: str, error: Exception) -> None:
    """Judge an error of a step; a stream's comes in Spark's words, with ours inside."""
    from sleeper_nb.engines.spark.spark_errors import explain

    ours = explain(error)
    oracle.judge_error(what, ours if isinstance(ours, Exception) else error)


def a_round(number: int, world: World, oracle: Oracle, session: sl.Session, stream: Stream) -> None:
    """Work while each is killed once, then judge."""
    chance, done = random.Random(number), threading.Event()  # noqa: S311 - for tests
    team = [Worker(2 * number, number, oracle, session, ON_SPARK)]
    team.append(Worker(2 * number + 1, number, oracle, session, IN_PROCESS))

    def work(worker: Worker) -> None:
        while not done.is_set():
            if not worker.step():
                done.wait(0.5)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in team]
    threads.append(threading.Thread(target=stream.until, args=(done,)))
    for thread in threads:
        thread.start()
    victims = [chance.choice(("worker1", "worker2")), "S3", "DynamoDB"]
    chance.shuffle(victims)
    for victim in victims:
        time.sleep(chance.uniform(3, 7))
        world.kill(victim, chance.uniform(*DOWN_SECONDS))
    time.sleep(chance.uniform(3, 5))
    done.set()
    for thread in threads:
        thread.join()
    for table in TABLES:
        for each in team:
            each.scan(table)
            each.read_savepoint(table)
    stream.judge()


def with_a_dying_worker(world: World, work: Callable[[], object]) -> None:
    """Work while a worker is killed, and comes back."""
    ended = threading.Event()

    def kill() -> None:
        if not ended.wait(20):
            world.kill("worker1", 2)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        work()
    finally:
        ended.set()
        thread.join()


def run(rounds: int, *, with_demo: bool, notebooks: bool) -> tuple[Oracle, World]:
    """Run everything, and return what the oracle found."""
    oracle = Oracle()
    with (
        tempfile.TemporaryDirectory(prefix="rounds-", ignore_cleanup_errors=True) as folder,
        world(Path(folder)) as all_,
    ):
        with all_.session() as session:
            for table, kind in zip(TABLES, STATE_STORES, strict=True):
                session.create_table(table, SCHEMA, ["0.3", "0.6"], state_store=kind, properties=PROPERTIES)
            for table in (EVENTS, COPY):
                session.create_table(table, SCHEMA, ["000100"])
            session.spark_session.range(10).count()  # workers run from here on; the demo uses this session of Spark
            if with_demo:
                with_a_dying_worker(all_, lambda: demo.run(f"s3://{BUCKET}/demo"))
                oracle.done["demo"] += 1
            stream = Stream(session, Path(folder) / "checkpoint", oracle)
            for number in range(rounds):
                a_round(number, all_, oracle, session, stream)
                print(
                    f"round {number + 1}: {sum(oracle.done.values())} steps, {len(oracle.violations)} violations",
                    flush=True,
                )
            judge_all(oracle, Worker(10_000, 0, oracle, session))
            for table in (EVENTS, COPY):
                if not session.table(table).maintenance.check(deep=True).ok:
                    oracle.wrong(f"check of {table}")
        if notebooks:
            for name in ("01_first_table", "02_time_travel", "03_compaction_and_partitions", "06_s3_and_a_cluster"):
                for failure in failures_of(name, Path(folder), BUCKET, all_.cluster.master):
                    oracle.wrong(f"notebook {name}: {failure}")
                    print(failure, flush=True)
                oracle.done[f"notebook {name[:2]}"] += 1
                print(f"notebook {name}: {len(oracle.violations)} violations", flush=True)
        return oracle, all_


def summary(oracle: Oracle, kills: Counter[str]) -> str:
    """Return what was done and found, in lines."""
    acknowledged = sum(map(len, oracle.acknowledged.values()))
    rows = sum(oracle.sizes[batch] for some in oracle.acknowledged.values() for batch in some)
    lines = [
        f"killed and started again: {dict(kills)}",
        f"{sum(oracle.done.values()):,} steps done: {dict(oracle.done)}",
        f"{acknowledged:,} of {len(oracle.sizes):,} batches are acknowledged and not deleted ({rows:,} rows)",
        f"{sum(oracle.failed.values()):,} steps failed:",
        *(f"  {count:5,}  {text}" for text, count in oracle.failed.most_common()),
        f"{len(oracle.violations)} violations",
        *(f"  {text}" for text in oracle.violations[:40]),
    ]
    return "\n".join(lines)


def main() -> int:
    """Run from a shell."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--notebooks", action="store_true", help="run notebooks 01, 02, 03 and 06 as well")
    options.add_argument("--no-demo", action="store_true")
    given = options.parse_args()
    oracle, all_ = run(given.rounds, with_demo=not given.no_demo, notebooks=given.notebooks)
    print(summary(oracle, all_.kills))
    return 1 if oracle.violations else 0


if __name__ == "__main__":
    sys.exit(main())
