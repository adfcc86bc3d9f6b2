"""A table whose columns become wider and whose structs get fields: rows of before and after, and how both are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import sleeper_nb as sl

SCHEMA = sl.Schema(
    {"k": "int"},
    {},
    {
        "t": "tinyint?", "s": "smallint?", "n": "int", "g": "long?", "f": "float?", "d": "decimal(5,2)?",
        "a": "struct<zip:string,n:int?,g:list<struct<x:float>>?>?", "l": "list<struct<p:tinyint>>?",
    },
)  # fmt: skip
OLD: list[dict[str, Any]] = [
    {"k": 1, "t": 1, "s": 2, "n": 1, "g": 4, "f": 0.5, "d": Decimal("1.25"),
     "a": {"zip": "q", "n": 1, "g": [{"x": 0.5}]}, "l": [{"p": 1}]},
    {"k": 2, "n": 5},
]  # fmt: skip
WITH_FIELDS = {"a.code": "int?", "l.q": "struct<u:uuid?>?", "a.g.y": "string?", "note": "string?"}
WIDER = {
    "t": "int", "s": "long", "n": "long", "g": "decimal(22,2)", "f": "double", "d": "decimal(9,3)", "a.n": "long",
    "a.g.x": "double",
}  # fmt: skip
NEW: list[dict[str, Any]] = [
    {"k": 3, "t": 2**20, "s": 2**40, "n": 2**40, "g": Decimal("10000000000000000000.25"), "f": 0.1,
     "d": Decimal("123456.789"), "a": {"zip": "q", "n": 2**40, "code": 4, "g": [{"x": 0.1, "y": "yy"}]},
     "l": [{"p": 1, "q": {"u": None}}], "note": "x"},
    {"k": 4, "n": 2, "a": {"zip": "z"}},
]  # fmt: skip
_NOTHING = {"t": None, "s": None, "g": None, "f": None, "d": None, "a": None, "l": None, "note": None}
EXPECTED: list[dict[str, Any]] = [
    {"k": 1, "t": 1, "s": 2, "n": 1, "g": Decimal("4.00"), "f": 0.5, "d": Decimal("1.250"),
     "a": {"zip": "q", "n": 1, "g": [{"x": 0.5, "y": None}], "code": None}, "l": [{"p": 1, "q": None}], "note": None},
    {**_NOTHING, "k": 2, "n": 5},
    {"k": 3, "t": 2**20, "s": 2**40, "n": 2**40, "g": Decimal("10000000000000000000.25"), "f": 0.1,
     "d": Decimal("123456.789"), "a": {"zip": "q", "n": 2**40, "g": [{"x": 0.1, "y": "yy"}], "code": 4},
     "l": [{"p": 1, "q": {"u": None}}], "note": "x"},
    {**_NOTHING, "k": 4, "n": 2, "a": {"zip": "z", "n": None, "g": None, "code": None}},
]  # fmt: skip
"""All rows with the wider types, by key."""
