"""A histogram in words that both engines read: into which of some equal ranges a value ``v`` falls."""

from __future__ import annotations

from typing import Final

FINITE: Final = "CASE WHEN v BETWEEN -1.7976931348623157E308 AND 1.7976931348623157E308 THEN v END"
"""Both engines have NaN as the greatest of all."""
LOW: Final = f"min({FINITE})"
HIGH: Final = f"max({FINITE})"


def range_of(ranges: int) -> str:
    """Return the number of a value's range, from 0, between ``low`` and ``high``; NULL of what is not between them."""
    # half of each: between two doubles may lie more than a double holds
    along = "coalesce((v / 2 - low / 2) / nullif(high / 2 - low / 2, 0), 0)"
    return f"CASE WHEN v BETWEEN low AND high THEN CAST(least({ranges - 1}, floor({ranges} * {along})) AS INT) END"
