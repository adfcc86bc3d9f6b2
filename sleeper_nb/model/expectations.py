"""Expectations of a table: conditions that loaded rows should meet, and how many rows of a commit break each. Pure.

A CHECK is part of the schema and holds for all rows of a table, always. An expectation is a property: it judges the
rows of each load as they come, and either refuses them or counts those that break it in the history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sleeper_nb.errors import InvalidInput

REFUSE, COUNT = "refuse", "count"
_PARTS = re.compile(r"""(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|[^;'"])+|;|.""", re.DOTALL)
_LIKE = "write conditions as after WHERE: dep_delay BETWEEN -120 AND 3000; dest IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on one row, in SQL; NULL passes, as in a CHECK."""

    condition: str  # the condition, as after ``WHERE``
    # whether a load with rows that break it is refused; otherwise they are counted. Not compared: the counts of a
    # condition are the same with both.
    refuses: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        return self.condition

    def __str__(self) -> str:
        return self.condition


def parse_expectations(text: str) -> tuple[str, ...]:
    """Return the conditions of ``a > 0; b IS NOT NULL``; a semicolon in quotes is part of its condition.

    `InvalidInput` when a quote is not closed, a condition is empty or given twice, or the text has several lines.
    """
    if len(text.splitlines()) > 1:
        raise InvalidInput("expectations are written in one line", hint=_LIKE)
    parts = _PARTS.findall(text)
    if open_quote := next((each for each in parts if each in {"'", '"'}), None):
        raise InvalidInput(
            f"the quote {open_quote} in {text!r} is not closed", hint="write each quote twice inside quotes"
        )
    conditions = [each.strip() for each in "".join("\0" if each == ";" else each for each in parts).split("\0")]
    if conditions and not conditions[-1]:
        conditions.pop()  # after a last semicolon, or of an empty text
    if "" in conditions:
        raise InvalidInput(f"an expectation in {text!r} is empty", hint=_LIKE)
    seen = set[str]()
    for each in conditions:
        if each in seen:
            raise InvalidInput(f"the expectation {each!r} is given twice", hint="leave one of them out")
        seen.add(each)
    return tuple(conditions)


def counts_text(counts: Mapping[str, int]) -> str | None:
    return json.dumps(counts, ensure_ascii=False) if counts else None


def counts_of(text: str | None) -> dict[str, int]:
    return json.loads(text) if text else {}


def counts_line(counts: Mapping[str, int]) -> str:
    """Return the expectations that rows break, for people: ``3 × dest IS NOT NULL``; "" when none do."""
    return ", ".join(f"{count:,} × {condition}" for condition, count in counts.items() if count)
