"""Spark and DuckDB: the only modules that import pyspark or duckdb."""
