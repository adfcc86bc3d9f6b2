"""Values of every type that programs and queries are tried with: those at the edges of types, and a few plain ones."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

KEYS: dict[str, list[Any]] = {
    "string": ["", "a", "a\0", "é", "\uffff", "\U0001f600"],
    "bytearray": [b"", b"\0", b"\x7f", b"\x80", b"\xff\xff"],
    "int": [-(2**31), -1, 0, 1, 2**31 - 1],
    "long": [-(2**63), -1, 0, 2**31, 2**63 - 1],
    "date": [date(1, 1, 1), date(1500, 2, 28), date(1969, 12, 31), date(2026, 3, 29), date(9999, 12, 31)],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 11, 1, 1, 2, 3, 4, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    **KEYS,
    "double": [math.nan, math.inf, -0.5, 0.0, 1e300],
    "float": [math.nan, 0.5, -2.0],
    "boolean": [True, False],
    "decimal(20,3)": [Decimal("-1.250"), Decimal("12345678901234567.891")],
    "list<long>": [[], [1, None, 2**62]],
    "map<string,double>": [[], [("", 0.5), ("é", None)]],
    "list<map<string,int>>": [[], [[("a", 1)], []]],
}
