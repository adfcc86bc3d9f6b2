"""What a command for cron, Airflow or Kubernetes answers: a text, and the exit code of the process."""

from __future__ import annotations

from dataclasses import dataclass

DONE, FAILED = 0, 1
WARNINGS, ERRORS = 3, 4
"""Exit codes of `status --fail-on`; 2 means that the command was not understood."""
ELSEWHERE = 75
"""Another process does the work. It is EX_TEMPFAIL of sysexits.h: try again later."""
BY_SIGNAL = 128
"""Added to the number of the signal that ended the work early: 130 for an interrupt, 143 for SIGTERM."""


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """An answer with an exit code.

    Parameters
    ----------
    text
        What is printed; nothing when it is empty.
    exit_code
        Of the process.
    """

    text: str
    exit_code: int = DONE

    def __repr__(self) -> str:
        return self.text
