"""Requests of a page, answered in the background: each topic has one lane, in which a newer request cancels the older.

A request is ``{id, topic, do, …}``. It gets parts, if any, and then exactly one of ``ok``, ``error`` and ``cancelled``,
each with its id; nothing after that. No widget is needed here.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from sleeper_nb.errors import Cancelled, InvalidInput, SleeperError, hint_text, visible
from sleeper_nb.progress import Watch

logger = logging.getLogger(__name__)

Message: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]
Method: TypeAlias = Callable[[Message, Watch], "Answer | Iterator[Answer]"]
"""Answers a request with values of JSON. What it yields are parts; the answer is what it returns, or yielded last."""
Background: TypeAlias = Callable[[Callable[[], None]], None]

_CANCEL: Final = "cancel"
_WORD: Final = re.compile(r"\w+")


def run_in_thread(work: Callable[[], None]) -> None:
    """Run a function in the background."""
    threading.Thread(target=work, name="sleeper-widget", daemon=True).start()


class RequestLanes:
    """Answers requests by methods, each named as the request's ``do``; what they raise becomes an error with its hint.

    `send` sends an answer to the page, from the threads in which `background` runs the methods.
    """

    def __init__(
        self, methods: Mapping[str, Method], send: Callable[[Answer], object], background: Background = run_in_thread
    ) -> None:
        self._methods, self._send, self._background = methods, send, background
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def take(self, message: Any) -> None:
        """Answer a message of the page, soon; one that is no request is dropped."""
        match message:
            case {"id": int(number), "topic": str(topic), "do": str(what)}:
                lane = self._lane(topic)
                if what == _CANCEL:
                    lane.cancel(number)
                else:
                    method = self._methods.get(what, _refused)
                    lane.ask(_Request(number, method, dict(message), self._send))
            case _:
                logger.debug("the page sent a message that is no request: %r", message)

    def close(self) -> None:
        """Cancel all requests."""
        with self._lock:
            lanes = tuple(self._lanes.values())
        for lane in lanes:
            lane.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being answered, and return whether that is so."""
        with self._lock:
            lanes = tuple(self._lanes.values())
        return all(lane.idle.wait(seconds) for lane in lanes)

    def _lane(self, topic: str) -> _Lane:
        with self._lock:
            return self._lanes.setdefault(topic, _Lane(self._background))


class _Lane:
    """The requests of one topic: at most one is answered and one waits, each cancelled by the next."""

    def __init__(self, background: Background) -> None:
        self._background, self._lock = background, threading.Lock()
        self._now: _Request | None = None
        self._next: _Request | None = None
        self._is_running = False
        self.idle = threading.Event()
        self.idle.set()

    def ask(self, request: _Request) -> None:
        with self._lock:
            older, self._next = (self._now, self._next), request
            is_running, self._is_running = self._is_running, True
            self.idle.clear()
        for each in older:
            if each is not None:
                each.cancel()
        if not is_running:
            self._background(self._run)

    def cancel(self, number: int | None = None) -> None:
        """Cancel the request of a number, or all."""
        with self._lock:
            asked = (self._now, self._next)
        for each in asked:
            if each is not None and number in {None, each.number}:
                each.cancel()

    def _run(self) -> None:
        while True:
            with self._lock:
                request = self._now = self._next
                self._next = None
                if request is None:
                    self._is_running = False
                    self.idle.set()
                    return
            request.answer()


class _Request:
    """One request, and whether it was answered to its end."""

    def __init__(self, number: int, method: Method, asked: Message, send: Callable[[Answer], object]) -> None:
        self.number, self._method, self._asked, self._send = number, method, asked, send
        self._watch, self._lock, self._has_ended = Watch(), threading.RLock(), False

    def cancel(self) -> None:
        """Say that it is cancelled, unless it was answered; and stop what answers it."""
        self._tell("cancelled", value=True)
        self._watch.cancel()

    def answer(self) -> None:
        """Answer it, unless it was cancelled."""
        try:
            self._watch.check()
            found = self._method(self._asked, self._watch)
            self._tell("ok", answered(found, self._part))
        except Cancelled:
            self._tell("cancelled", value=True)
        except Exception as error:
            if not isinstance(error, SleeperError):
                logger.warning("a request %r of the page failed", self._asked.get("do"), exc_info=True)
            self._tell("error", failure_of(error, self._asked.get("text")))

    def _part(self, part: Answer) -> None:
        self._watch.check()
        self._tell("part", part)

    def _tell(self, kind: str, value: object) -> None:
        with self._lock:  # while a message is sent, too: none may follow the one that says that it was cancelled
            if self._has_ended:
                return
            self._has_ended = kind != "part"
            self._send({"id": self.number, kind: value})


def answered(found: Answer | Iterator[Answer], then: Callable[[Answer], object] = lambda _: None) -> Answer:
    """Return what a method answers in the end: what it returns, or else yielded last; `then` gets each part at once."""
    if isinstance(found, dict):
        return found
    last: Answer = {}
    while True:
        try:
            last = next(found)
        except StopIteration as end:
            return last if end.value is None else end.value
        then(last)


def failure_of(error: Exception, statement: object = None) -> Answer:
    """Return an error as the page shows it: its message, its hint, and its place in a statement if it has one."""
    if not isinstance(error, SleeperError):
        return {"message": visible(f"{type(error).__name__}: {error}"), "hint": ""}
    hint = visible(hint_text(error.hint_parts, "%sleeper"))
    failure: Answer = {"message": visible(error.message), "hint": hint}
    if error.offset is None or not isinstance(statement, str):
        return failure
    word = _WORD.match(statement, error.offset)
    end = error.offset + 1 if word is None else word.end()
    return {**failure, "place": {"from": _in_page(statement, error.offset), "to": _in_page(statement, end)}}


def _in_page(text: str, offset: int) -> int:
    """Return an offset as the page counts, whose characters are UTF-16."""
    return len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2


def _refused(asked: Message, _: Watch) -> Answer:
    raise InvalidInput(f"the kernel cannot answer {asked['do']!r}", hint="reload the page: it is of another version")
