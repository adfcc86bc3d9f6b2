"""A chart of an Arrow table, whose rows are drawn one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sleeper_nb.display.chart import Chart
from sleeper_nb.display.chart_points import chart_of_rows, columns_of_chart


def chart(
    rows: pa.Table, kind: Any, x: str | None = None, y: str | None = None, footer: str = "", **options: Any
) -> Chart:
    return chart_of_rows(rows, columns_of_chart(rows.schema, kind, x, y, **options), footer)
