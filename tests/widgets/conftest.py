"""What the tests of widgets share: a session with a table of a few versions, and all that a widget shows."""

from __future__ import annotations

import json
from datetime import timedelta

import ipywidgets
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.widgets.request_lanes import RequestLanes

HOSTILE = "<script>alert('x')</script>&\"\n"


def session_in(folder):
    clock = ManualClock()
    session = sl.connect(folder, clock=clock, author="ada")
    schema = sl.Schema(row_keys={"carrier": "string"}, sort_keys={"flight": "int"}, values={"note": "string?"})
    flights = session.create_table("flights", schema, split_points=["DL", "UA"])
    for month in (1, 2, 3):
        clock.advance(timedelta(hours=1))
        rows = [{"carrier": c, "flight": n, "note": HOSTILE} for c in ("AA", "DL", "WN") for n in range(10 * month)]
        flights.ingest(rows, message=HOSTILE)
    flights.create_savepoint("half-year", HOSTILE, snapshot=3)
    session.create_table("airports", sl.Schema(row_keys={"faa": "string"}, values={}))
    return session


@pytest.fixture
def session(tmp_path):
    with session_in(tmp_path / "warehouse") as session:
        yield session


def drained(found):
    """Return the parts of an answer and the answer, as they go to the page."""
    parts = []
    while True:
        try:
            parts.append(json.loads(json.dumps(next(found))))
        except StopIteration as end:
            return [*parts, json.loads(json.dumps(end.value))]


class Page:
    """Stands for the page of a widget: it asks, and each request is answered before `ask` returns.

    Attributes
    ----------
    parts
        The parts that came before the last answer.
    """

    def __init__(self, widget):
        self._answers, self._number, self.parts = [], 0, []
        as_sent = lambda message: self._answers.append(json.loads(json.dumps(message, allow_nan=False)))  # noqa: E731
        self._lanes = RequestLanes(widget.methods, as_sent, background=lambda work: work())

    def asked(self, do, **asked):
        """Return the last message about a request: ``{"id": 1, "ok": …}``."""
        self._answers.clear()
        self._number += 1
        self._lanes.take({"id": self._number, "topic": do, "do": do, **asked})
        *parts, last = self._answers
        assert {each["id"] for each in self._answers} == {self._number}
        self.parts = [each["part"] for each in parts]
        return last

    def ask(self, do, **asked):
        """Return the answer to a request."""
        return self.asked(do, **asked)["ok"]

    def failure(self, do, **asked):
        """Return the error that answers a request."""
        return self.asked(do, **asked)["error"]


ALL = {"filters": [], "sorts": [], "search": ""}
"""The query of all rows."""


def texts(widget):
    """Return all that a widget and its children show."""
    own = [getattr(widget, name) for name in ("value", "description") if isinstance(getattr(widget, name, None), str)]
    return own + [text for child in getattr(widget, "children", ()) for text in texts(child)]


def buttons(widget):
    """Return all buttons in a widget, in their order."""
    own = [widget] if isinstance(widget, ipywidgets.Button) else []
    return own + [button for child in getattr(widget, "children", ()) for button in buttons(child)]


def shown(widget):
    return "\n".join(texts(widget))
