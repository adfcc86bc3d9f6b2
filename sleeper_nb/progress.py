"""What long work tells whoever watches it; the faces decide how that is shown."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A watcher of one piece of work at a time."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say what is under way, and how many of how many steps are done (0 of 0: not known)."""

    def finish(self, text: str = "") -> None:
        """Say that the work ended, with the one line that stays; an empty text leaves nothing."""


def unchecked() -> None:
    """Let work go on: the check of work that nobody but an interrupt stops."""


class Silent:
    """The watcher that shows nothing: the default everywhere."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show nothing."""

    def finish(self, text: str = "") -> None:
        """Show nothing."""


SILENT = Silent()
