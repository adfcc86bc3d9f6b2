"""Spark and DuckDB: the only modules that import pyspark or duckdb."""

from __future__ import annotations
