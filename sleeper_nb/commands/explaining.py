"""`why`: what was behind the last error, down to what an engine or a server said."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sleeper_nb.commands.base import Command
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import NotFound, SleeperError
from sleeper_nb.report import Grid, Report

SHOWN_LINES = 30


@dataclass(frozen=True, slots=True, repr=False)
class Causes(Report):
    """An error and what caused it, the first cause last; `error` is the error itself, with its stack."""

    error: BaseException

    def chain(self) -> Iterator[BaseException]:
        """Yield the error, its cause, that one's cause."""
        seen: set[int] = set()
        error: BaseException | None = self.error
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def grid(self) -> Grid:
        """Return each error with its kind and the lines of what it says."""
        rows: list[tuple[object, ...]] = []
        for number, error in enumerate(self.chain()):
            lines = _said(error)
            left = len(lines) - SHOWN_LINES
            lines = [*lines[:SHOWN_LINES], f"… and {left} lines more, in str(_.error)"] if left > 0 else lines
            rows.append(("because of" if number else "it was", _kind(error), lines[0]))
            rows += [("", "", line) for line in lines[1:]]
        footer = "its stack: %config SleeperMagics.traceback='full'"
        return Grid(("what", "error", "what it says"), tuple(rows), footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the kinds and the whole texts, in order."""
        errors = list(self.chain())
        return {"error": [_kind(error) for error in errors], "says": ["\n".join(_said(error)) for error in errors]}


def _kind(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if isinstance(error, SleeperError) else f"{kind.__module__}.{kind.__qualname__}"


def _said(error: BaseException) -> list[str]:
    return [line for line in str(error).splitlines() if line.strip()] or ["nothing"]


def _why(context: Context, arguments: Namespace) -> Causes:  # noqa: ARG001 - it has none
    if context.failure is None:
        raise NotFound("no command has failed yet", hint="type it behind one that did, in the same notebook")
    return Causes(context.failure)


COMMANDS = (
    Command(
        "why",
        "show what was behind the last error: each cause, in its own words",
        (),
        _why,
        ("why",),
        words=("error", "traceback", "cause"),
        warehouse="none",
    ),
)
