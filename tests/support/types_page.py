"""The table of the page of types, as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "types.md"


def rows_of_page() -> list[Mapping[str, str]]:
    """Return the rows of the page's table: cells by head, without backticks."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(heads, row, strict=True)) for row in rows]


ROWS = {row["type"].strip("`"): {head: cell.strip("`") for head, cell in row.items()} for row in rows_of_page()}
