"""Where each state store stops: the real commit loop with many writers, in virtual time.

``python -m benchmarks.sizing [--seconds 60] [--write]`` prints the tables of ``docs/sizing.md``, or writes them there.
Each writer has a state store of its own, as a process of its own has, and commits one file after the other. All
requests go through the real code to a folder and to DynamoDB in memory; each takes the time that the model says, of a
clock that does not wait. The writer whose next step is the earliest runs, and all others are still: so a run depends on
its seed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import math
import random
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sleeper_nb.clock import Clock, ManualClock, Retry
from sleeper_nb.errors import ConflictError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.state_store import state_stores
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage
from tests.servers.memory import MemoryDynamoDB, memory_catalog

SCHEMA = Schema({"key": "long"})
STORES = ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
SIZES = (10_000, 1_000_000)
PAGE = Path(__file__).parents[1] / "docs" / "sizing.md"
BEGIN, END = "<!-- begin of what python -m benchmarks.sizing --write writes -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long requests take, in seconds: a part of the time before they take effect, the rest after.

    Parameters
    ----------
    s3, dynamodb, transaction
        Least and greatest of one request to S3, of a read of DynamoDB, and of a transaction.
    bandwidth
        Bytes a second between a writer and S3.
    reference_bytes
        Bytes of one file reference in the metadata of a version.
    write_seconds, read_seconds
        CPU time for the metadata of a million references.
    """

    s3: tuple[float, float] = (0.020, 0.050)
    dynamodb: tuple[float, float] = (0.004, 0.010)
    transaction: tuple[float, float] = (0.010, 0.025)
    bandwidth: float = 80e6
    reference_bytes: float = 70.0
    write_seconds: float = 0.38
    read_seconds: float = 0.10


class VirtualTime:
    """Runs threads one at a time: always the one whose time is the earliest."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, threading.Semaphore]] = []
        self._numbers, self._own, self._ended = itertools.count(), threading.local(), threading.Event()
        self._failure: BaseException | None = None

    def spawn(self, work: Callable[[], None]) -> None:
        """Add a thread that begins at time 0."""
        turn = threading.Semaphore(0)
        heapq.heappush(self._waiting, (0.0, next(self._numbers), turn))
        threading.Thread(target=self._run, args=(work, turn), daemon=True).start()

    def run(self) -> None:
        """Run all threads to their end; raise what one of them raised."""
        self._next()
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def spend(self, seconds: float) -> None:
        """Let time pass for the thread that calls, and others run meanwhile."""
        turn = getattr(self._own, "turn", None)
        if turn is None:
            return  # a thread that prepares the run, or one of a pool: its starter waits for it
        heapq.heappush(self._waiting, (self.now + seconds, next(self._numbers), turn))
        self._next()
        turn.acquire()

    def _run(self, work: Callable[[], None], turn: threading.Semaphore) -> None:
        turn.acquire()
        self._own.turn = turn
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._failure = error
        self._next()

    def _next(self) -> None:
        if self._failure is not None or not self._waiting:
            self._ended.set()
            return
        self.now, _, turn = heapq.heappop(self._waiting)
        turn.release()


class VirtualClock(ManualClock):
    """A clock of virtual time; to sleep is to let others run."""

    def __init__(self, time: VirtualTime, seed: int) -> None:
        super().__init__(seed=seed)
        self._time = time

    def now(self) -> datetime:
        """Return the moment of virtual time."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._time.now)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._time.spend(seconds)


@dataclass(slots=True)
class Model:
    """What requests cost on a table of so many files."""

    time: VirtualTime
    latencies: Latencies
    files: int
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311

    @contextlib.contextmanager
    def request(self, bounds: tuple[float, float], extra: float = 0.0) -> Iterator[None]:
        """Run a block in the middle of a request."""
        seconds = self.random.uniform(*bounds) + extra
        self.time.spend(seconds / 2)
        yield
        self.time.spend(seconds / 2)

    def of_path(self, path: str, cpu: float) -> float:
        """Return the seconds for the bytes of a file, and for making or reading them."""
        if not path.endswith("-files.parquet"):
            return 0.0
        size = self.files * self.latencies.reference_bytes
        return size / self.latencies.bandwidth + cpu * self.files / 1e6


class SlowStorage(Storage):
    """A folder whose requests take the time of S3."""

    def __init__(self, folder: Path, model: Model) -> None:
        super().__init__(folder)
        self.model = model

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[Any]:
        extra = self.model.of_path(path, self.model.latencies.write_seconds)
        with self.model.request(self.model.latencies.s3, extra), super().output(path) as stream:
            yield stream

    def read(self, path: str) -> bytes:
        extra = self.model.of_path(path, self.model.latencies.read_seconds)
        with self.model.request(self.model.latencies.s3, extra):
            return super().read(path)

    def input(self, path: str) -> Any:
        extra = self.model.of_path(path, self.model.latencies.read_seconds)
        with self.model.request(self.model.latencies.s3, extra):
            return super().input(path)

    def write(self, path: str, content: bytes) -> None:
        extra = self.model.of_path(path, self.model.latencies.write_seconds)
        with self.model.request(self.model.latencies.s3, extra):
            super().write(path, content)

    def delete(self, path: str) -> None:
        with self.model.request(self.model.latencies.s3):
            super().delete(path)


class SlowDynamoDB:
    """DynamoDB in memory whose requests take the time of the real one."""

    def __init__(self, behind: MemoryDynamoDB, model: Model) -> None:
        self._behind, self._model = behind, model

    def __getattr__(self, name: str) -> Any:
        send = getattr(self._behind, name)
        latencies = self._model.latencies

        def slow(**request: Any) -> Any:
            with self._model.request(
                latencies.transaction if name.startswith("transact_write") else latencies.dynamodb
            ):
                return send(**request)

        return slow


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the writers did.

    Parameters
    ----------
    commits, failed
        Commits that succeeded, and those that gave up after all attempts; each writer ends the one that it has begun.
    rate
        Commits in a second, before the time was over.
    attempts
        For each commit that succeeded, on average.
    median, longest
        Seconds that a commit took.
    """

    commits: int
    failed: int
    rate: float
    attempts: float
    median: float
    longest: float


def simulated(
    kind: str, files: int, writers: int, seconds: float, retry: Retry, *, pause: float = 0.0, seed: int = 7
) -> Outcome:
    """Return what writers do in some seconds that commit to a table of so many files, each after a pause."""
    time = VirtualTime()
    model = Model(time, Latencies(), files, random.Random(seed))  # noqa: S311
    took: list[float] = []
    failed: list[float] = []
    waits, in_time = [0], [0]

    class Counted(Retry):
        def wait(self, clock: Clock, attempt: int) -> None:
            waits[0] += 1
            super().wait(clock, attempt)

    counted = Counted(retry.max_attempts, retry.first_wait, retry.max_wait)
    with tempfile.TemporaryDirectory() as name, _checkpoints(files):
        folder, dynamodb = Path(name), MemoryDynamoDB(page=4000)

        def opened(number: int) -> Any:
            clock = VirtualClock(time, seed * 1000 + number)
            catalog = memory_catalog(folder, SlowDynamoDB(dynamodb, model), clock)
            return open_state_store(kind, "t", catalog, SlowStorage(folder, model), clock, counted)

        first = opened(0)
        first.create("t", SCHEMA, PartitionTree.from_split_points(SCHEMA, (), first.clock.new_id))
        leaf = first.load().tree.leaves[0].id

        def work(number: int) -> None:
            store = opened(number)
            store.load()
            for count in itertools.count():
                time.spend(pause * model.random.uniform(0.5, 1.5))
                began = time.now
                if began >= seconds:
                    return
                path = f"data/partition_{leaf}/{number * 10**9 + count:032x}.parquet"
                try:
                    store.commit(AddFiles((FileReference(path, leaf, 1, 1, (1,), (2,)),)))
                    took.append(time.now - began)
                    in_time[0] += time.now <= seconds
                except ConflictError:
                    failed.append(time.now - began)

        for number in range(1, writers + 1):
            time.spawn(lambda number=number: work(number))
        time.run()
        assert first.head().id == 1 + len(took), "a commit was lost, or made twice"
    every = took or [math.inf]
    attempts = (len(took) + waits[0]) / len(took) if took else math.inf
    return Outcome(len(took), len(failed), in_time[0] / seconds, attempts, statistics.median(every), max(every))


@contextlib.contextmanager
def _checkpoints(files: int) -> Iterator[None]:
    """Write checkpoints as rarely as on a table of so many files, of which the run has only a few."""
    before = state_stores.CHECKPOINT_EVERY
    state_stores.CHECKPOINT_EVERY = max(before, math.isqrt(files))
    try:
        yield
    finally:
        state_stores.CHECKPOINT_EVERY = before


PATIENT = Retry(max_attempts=200, first_wait=0.5, max_wait=10.0)
PAUSE = 10.0
"""The seconds of work of a writer before each commit, where writers pause; at least half of it, at most 1.5 times."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the tables."""

    kind: str
    files: int
    writers: int
    pause: float
    retry: Retry

    def row(self, seconds: float) -> str:
        """Simulate it, and return its row."""
        done = simulated(self.kind, self.files, self.writers, seconds, self.retry, pause=self.pause)
        waits = f"{self.retry.max_attempts}, {self.retry.first_wait * 1e3:g} ms, {self.retry.max_wait:g} s"
        times = f"{done.attempts:.1f} | {done.median:.2f} s | {done.longest:.1f} s" if done.commits else "– | – | –"
        return (
            f"| `{self.kind}` | {self.files:,} | {self.writers} | {waits} | {done.rate:.1f} | {times} | {done.failed} |"
        )


ALONE = [Case(kind, files, writers, 0.0, Retry()) for kind in STORES for files in SIZES for writers in (1, 10)]
TOGETHER = [Case(kind, files, 100, PAUSE, retry) for kind in STORES for files in SIZES for retry in (Retry(), PATIENT)]
HEADS = [
    (
        "| state store | files | writers | attempts, first and longest wait | commits/s | attempts for each | median "
        "| longest | gave up |"
    ),
    "|---|---|---|---|---|---|---|---|---|",
]


def tables(seconds: float) -> list[str]:
    """Return the lines of both tables."""
    lines = ["Writers that commit without a pause:", "", *HEADS]
    lines += [_shown(case.row(seconds / 3)) for case in ALONE]
    lines += [
        "",
        f"Writers that work about {PAUSE:.0f} s before each commit, so that they want {100 / PAUSE:.0f} commits/s:",
        "",
        *HEADS,
    ]
    return lines + [_shown(case.row(seconds)) for case in TOGETHER]


def _shown(line: str) -> str:
    print(line, flush=True)
    return line


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0, help="of virtual time, for each row")
    options.add_argument("--write", action="store_true", help="write the table into docs/sizing.md")
    given = options.parse_args()
    lines = tables(given.seconds)
    if given.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
