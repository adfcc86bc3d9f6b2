"""Spark: its JVM, its one session, the data pipeline on it, and tables as DataFrames."""

from __future__ import annotations
