"""A histogram in words that both engines read: into which of some equal ranges a value ``v`` falls."""

from typing import Final

FINITE: Final = "v BETWEEN -1.7976931348623157E308 AND 1.7976931348623157E308"
"""Both engines have NaN as the greatest of all."""
ENDS: Final = ("min(v) AS low", "max(v) AS high")
"""Of the values that are finite."""


def range_of(ranges: int) -> str:
    """Return the number of a value's range, from 0, between `ENDS`; NULL of what is not between them."""
    # half of each: between two doubles may lie more than a double holds
    along = "coalesce((v / 2 - low / 2) / nullif(high / 2 - low / 2, 0), 0)"
    return f"CASE WHEN v BETWEEN low AND high THEN CAST(least({ranges - 1}, floor({ranges} * {along})) AS INT) END"
