"""Every order in which the steps of a few operations can happen: each order on a fresh copy of one prepared table.

A step is one request to the catalog, or one change of a file; what an operation does between two steps nobody else can
see. The operations run in threads, of which one goes on at a time, up to its next step. So an order is a list of
choices, it can be done again, and all orders are counted through. ::

    template = Template(folder, "S3StateStore", "sqlite", prepare)
    def saved(stage, gate):
        return save(stage.opened(gate))

    explore(template.copy, {"save": saved, "expire": expired}, check)
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.servers.memory import MemoryDynamoDB, OnMemory, memory_catalog
from tests.support.builders import START, TABLE, a_store
from tests.support.faults import Faulty, FaultyStorage, TrappedStorage, no_disk

STUCK_SECONDS = 60.0
World = TypeVar("World")


class Gate:
    """Where an operation waits before each of its steps; a trap for the wrappers of `tests.support.faults`."""

    def __init__(self, arrivals: queue.SimpleQueue[str | None]) -> None:
        self._arrivals, self._go = arrivals, threading.Semaphore(0)

    @contextlib.contextmanager
    def around(self, name: str, *_: Any) -> Iterator[None]:
        self.step(name)
        yield

    def step(self, name: str) -> None:
        """Wait for the turn to do a step."""
        self._arrivals.put(name)
        self._go.acquire()

    def open(self) -> None:
        """Let the operation do the step that it waits for."""
        self._go.release()


@dataclass(slots=True)
class Outcome:
    """What became of an operation: a value, or an error."""

    value: Any = None
    error: BaseException | None = None


@dataclass
class _Operation:
    """One operation in its thread; `waits_for` names its next step, None when it has ended."""

    name: str
    work: Callable[[Gate], Any]
    outcome: Outcome = field(default_factory=Outcome)
    waits_for: str | None = None

    def __post_init__(self) -> None:
        self._arrivals: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._gate = Gate(self._arrivals)
        threading.Thread(target=self._run, daemon=True).start()
        self._arrive()

    def _run(self) -> None:
        try:
            self.outcome.value = self.work(self._gate)
        except BaseException as error:  # noqa: BLE001 - the check is told of it
            self.outcome.error = error
        self._arrivals.put(None)

    def _arrive(self) -> None:
        try:
            self.waits_for = self._arrivals.get(timeout=STUCK_SECONDS)
        except queue.Empty:
            raise AssertionError(f"{self.name} waits for something other than its turn") from None

    def go_on(self) -> None:
        self._gate.open()
        self._arrive()


Trace = list[tuple[str, str]]
"""Which operation did which step, in order."""


class _Orders:
    """Counts through the choices: those of the last order, with the last one that can be changed changed."""

    def __init__(self) -> None:
        self._chosen: list[int] = []
        self._options: list[int] = []
        self._at = 0

    def choose(self, options: int) -> int:
        if self._at == len(self._chosen):
            self._chosen.append(0)
            self._options.append(options)
        assert self._options[self._at] == options, "an order of steps is not done the same way again"
        self._at += 1
        return self._chosen[self._at - 1]

    def next(self) -> bool:
        """Go to the next order; return False when there is none."""
        while self._chosen and self._chosen[-1] + 1 == self._options[-1]:
            self._chosen.pop()
            self._options.pop()
        if self._chosen:
            self._chosen[-1] += 1
        self._at = 0
        return bool(self._chosen)


def explore(
    make: Callable[[], AbstractContextManager[World]],
    operations: Mapping[str, Callable[[World, Gate], Any]],
    check: Callable[[World, Mapping[str, Outcome]], None],
    *,
    most_switches: int | None = None,
) -> int:
    """Do the operations in every order of their steps, and hold a check after each; return how many orders there were.

    Parameters
    ----------
    make
        Opens a new world, the same each time.
    operations
        By name, what is done at once; each is handed the world and the gate of its steps.
    check
        What must be true in the world afterwards.
    most_switches
        Only the orders in which an operation that could go on is interrupted so many times at most; all when None.
        Faults of concurrency nearly always show with two or three.
    """
    orders = _Orders()
    for count in itertools.count(1):
        with make() as world:
            trace: Trace = []
            try:
                check(world, _run_in_order(world, operations, orders, most_switches, trace))
            except BaseException as error:
                error.add_note("in the order: " + ", ".join(f"{who}.{step}" for who, step in trace))
                raise
        if not orders.next():
            return count
    raise AssertionError


def _run_in_order(
    world: World,
    operations: Mapping[str, Callable[[World, Gate], Any]],
    orders: _Orders,
    most_switches: int | None,
    trace: Trace,
) -> dict[str, Outcome]:
    def bound(work: Callable[[World, Gate], Any]) -> Callable[[Gate], Any]:
        return lambda gate: work(world, gate)

    running = [_Operation(name, bound(work)) for name, work in operations.items()]
    last, switches = None, 0
    while waiting := [each for each in running if each.waits_for is not None]:
        # the one that went last comes first, so that the first orders are those with few switches
        waiting.sort(key=lambda each: each is not last)
        if last is waiting[0] and most_switches is not None and switches >= most_switches:
            waiting = waiting[:1]
        chosen = waiting[orders.choose(len(waiting))]
        switches += last is waiting[0] and chosen is not last
        trace.append((chosen.name, chosen.waits_for or ""))
        chosen.go_on()
        last = chosen
    return {each.name: each.outcome for each in running}


@dataclass(frozen=True)
class Stage:
    """A prepared table, or a copy of it, which several may open.

    Parameters
    ----------
    kind
        The class of its state store.
    folder
        Where its files are, and its catalog unless that is in `memory`.
    clock
        Everybody's.
    memory
        A DynamoDB with the catalog; None where that is SQLite.
    catalogs
        Those that were opened here.
    """

    kind: str
    folder: Path
    clock: ManualClock
    memory: MemoryDynamoDB | None
    catalogs: list[Catalog] = field(default_factory=list)

    def catalog(self, gate: Gate | None = None) -> Any:
        """Open the catalog; behind a gate each request to it is a step."""
        if self.memory is None:
            catalog = SqliteCatalog(self.folder / "catalog.sqlite", sync=False)
            self.catalogs.append(catalog)
            return catalog if gate is None else Faulty(catalog, gate, no_disk)  # type: ignore[arg-type]
        opened = memory_catalog(Path("stage"), self.memory, self.clock)
        opened.tables()  # asks once which format it has: that is no step
        if gate is not None:
            opened.db = OnMemory(Faulty(self.memory, gate, no_disk), self.clock)  # type: ignore[arg-type]
        return opened

    def opened(self, gate: Gate | None = None, *, reads: bool = False, create: bool = False) -> StateStore:
        """Open the table's store, which remembers nothing.

        Parameters
        ----------
        gate
            Where each request to the catalog waits, and each change of a file.
        reads
            Whether reading a file is a step too.
        create
            Whether the table is made.
        """
        storage = Storage(LocalPlace(self.folder / TABLE, sync=False))
        if gate is not None:
            storage = (FaultyStorage if reads else TrappedStorage)(storage, gate)  # type: ignore[arg-type]
        catalog = self.catalog(gate)
        return a_store(self.folder, kind=self.kind, clock=self.clock, catalog=catalog, storage=storage, create=create)

    def close(self) -> None:
        """Close every catalog that was opened here."""
        while self.catalogs:
            self.catalogs.pop().close()


class Template:
    """A table that is prepared once, and copied for each order.

    Parameters
    ----------
    folder
        Where it and its copies lie.
    kind
        The class of its state store.
    catalog
        Where its catalog is.
    prepare
        Does on the new, empty table what comes before the race.
    """

    def __init__(
        self, folder: Path, kind: str, catalog: Literal["sqlite", "memory"], prepare: Callable[[StateStore], object]
    ) -> None:
        memory = MemoryDynamoDB() if catalog == "memory" else None
        self._original = Stage(kind, folder / "original", ManualClock(START), memory)
        self._copies = itertools.count(1)
        prepare(self._original.opened(create=True))
        self._original.close()

    @contextlib.contextmanager
    def copy(self) -> Iterator[Stage]:
        """Give a copy, a minute after the preparation; it is gone afterwards."""
        of = self._original
        copied, later = of.folder.with_name(f"copy-{next(self._copies)}"), of.clock.now() + timedelta(minutes=1)
        shutil.copytree(of.folder, copied)
        stage = Stage(of.kind, copied, ManualClock(later, seed=1), of.memory.copied() if of.memory else None)
        try:
            yield stage
        finally:
            stage.close()
            shutil.rmtree(copied)
