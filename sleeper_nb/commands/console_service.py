"""`maintain --every` and `--once` on the console: signals, the log, the file of metrics, and exit codes."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import threading
from argparse import Namespace
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sleeper_nb import logs
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.outcome import BY_SIGNAL, DONE, ELSEWHERE, FAILED, Outcome
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.times import parse_duration

if TYPE_CHECKING:
    from sleeper_nb.session.maintenance_service import MaintenanceRound, MetricsFile

logger = logging.getLogger(__name__)

SHORTEST = timedelta(seconds=10)
"""The shortest time between rounds: each asks the catalog for all tables."""


class SignalledStop:
    """Tells a service to stop when the process gets SIGTERM or SIGINT.

    The step that runs is finished. A second signal interrupts it, as Ctrl-C interrupts any command.
    """

    def __init__(self) -> None:
        self._event, self.signal = threading.Event(), 0

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float) -> bool:
        return self._event.wait(timeout)

    def take(self, number: int, _: FrameType | None = None) -> None:
        if self.is_set():
            raise KeyboardInterrupt
        self.signal = number
        self._event.set()
        logger.info("got %s: the step that runs is finished first", signal.Signals(number).name)

    @contextlib.contextmanager
    def take_signals(self) -> Iterator[None]:
        """Take the signals of the process within a block; elsewhere than in the main thread, none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.take) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_service(context: Context, arguments: Namespace, stop: SignalledStop) -> Outcome:
    """Maintain all tables once, or round after round until a signal comes."""
    if context.face != "console":
        name = "--once" if arguments.once else "--every"
        hint = "here, type ", Action("maintain", "session.maintain()")
        raise InvalidInput(f"{name} is for the console", hint=hint)
    every = time_between(arguments)
    path = None if arguments.metrics is None else _checked_path(Path(arguments.metrics))
    session, as_json = context.opened(), arguments.log_format == "json"
    level = logs.level_of(os.environ)
    logs.show("info" if level == logs.OFF else level, as_json=as_json)
    from sleeper_nb.session.maintenance_service import MetricsFile  # heavy: it brings pyarrow

    try:
        metrics = MetricsFile(session, path, stays=every is not None)
        holder = f"process {os.getpid()} on {platform.node() or 'an unnamed machine'}"
        service = session.admin.maintenance_service(holder, stop, metrics.write)
        with stop.take_signals():
            if every is None:
                return _ended(service.once(), stop, metrics, as_json=as_json)
            service.serve(every)
            return Outcome("" if as_json else "stopped; the lease was released")
    finally:
        logs.show(level)


def time_between(arguments: Namespace) -> timedelta | None:
    """Return the time between rounds, None for one round; `InvalidInput` when the options make no sense."""
    if arguments.table is not None or arguments.dry_run:
        what = "--dry-run" if arguments.dry_run else f"table {arguments.table!r}"
        raise InvalidInput(f"a service maintains all tables, and takes no {what}",
                           hint="leave it out, or leave out --every and --once")  # fmt: skip
    if arguments.every is None:
        return None
    try:
        every = parse_duration(arguments.every)
    except ValueError as error:
        raise InvalidInput(f"{arguments.every!r} is not a duration", hint="write 10m, 1h or PT30M") from error
    if every < SHORTEST:
        raise InvalidInput(f"rounds cannot begin every {arguments.every}", hint="give 10 s or longer, such as 10m")
    return every


def _checked_path(path: Path) -> Path:
    """Return the path of a file of metrics; `InvalidInput` when it is, or has, something else."""
    from sleeper_nb.session.maintenance_service import MetricsFile

    hint = "name a file of metrics, or one that is not there"
    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"--metrics needs a file, and {path} is none", hint=hint)
        if not path.parent.is_dir():
            raise InvalidInput(f"no folder {path.parent} for the metrics", hint="make it first")
        if not MetricsFile.can_replace(path):
            raise InvalidInput(f"{path} is not a file of metrics, and is not replaced", hint=hint)
    except OSError as error:
        raise InvalidInput(f"--metrics cannot be {path}: {error.strerror}", hint=hint) from error
    return path


def _ended(done: MaintenanceRound, stop: SignalledStop, metrics: MetricsFile, *, as_json: bool) -> Outcome:
    if done.other is not None:
        return Outcome("" if as_json else f"nothing was done: {done.other.holder} maintains the instance", ELSEWHERE)
    text = "" if as_json else repr(done.report)
    if done.stopped:
        return Outcome(text, BY_SIGNAL + stop.signal if stop.signal else ELSEWHERE)
    return Outcome(text, FAILED if done.report.failed or metrics.failed else DONE)
