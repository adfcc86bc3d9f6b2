"""The engines that answer SQL, and an answer as plain rows."""

from __future__ import annotations

from typing import Any

import pytest

import sleeper_nb as sl

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


def answer(session: sl.Session, sql: str, engine: Any, **params: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    columns = session.sql(sql, engine=engine, params=params).to_arrow().columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
