"""The engines that answer SQL, and an answer as plain rows, or as an error."""

from __future__ import annotations

from typing import Any

import pytest

import sleeper_nb as sl

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]
DUCKDB_FIRST = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])]
"""For what happens before an engine is asked, which another test shows on Spark too: on Spark it is `long`."""


def answer(session: sl.Session, sql: str, engine: Any, **params: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    columns = session.sql(sql, engine=engine, params=params).to_arrow().columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def failed(session: sl.Session, statement: str, engine: Any, **params: object) -> sl.SleeperError:
    """Return the error of a statement, be it when it is bound or when rows are read."""
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(statement, engine=engine, params=params, force=True).to_arrow()
    return caught.value
