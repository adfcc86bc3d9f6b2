"""The line with which each engine reads a published version, to paste."""

from __future__ import annotations

from collections.abc import Mapping

from sleeper_nb.model.sql_values import quoted_text
from sleeper_nb.report import Code


def engine_lines(address: str, number: int, *, is_main: bool, tags: Mapping[str, int]) -> tuple[tuple[str, Code], ...]:
    """Return the name of each engine, with the line that reads a published version. Pure.

    Parameters
    ----------
    address
        The table's folder, with its scheme.
    number
        The version.
    is_main
        Whether engines read it without being given a version.
    tags
        The names of published savepoints, each with its version.
    """
    in_duckdb = "" if is_main else f", snapshot_from_id = {number}"
    in_pyiceberg = "" if is_main else f"snapshot_id={number}"
    in_polars = "" if is_main else f", snapshot_id={number}"
    version = next((name for name, tagged in tags.items() if tagged == number), str(number))
    in_spark = "" if is_main else f".option('versionAsOf', {version!r})"
    table = f"StaticTable.from_metadata({address!r})"
    return (
        ("DuckDB", Code(f"FROM iceberg_scan({quoted_text(address)}{in_duckdb})")),
        ("PyIceberg", Code(f"{table}.scan({in_pyiceberg}).to_arrow()")),
        ("Polars", Code(f"pl.scan_iceberg({table}{in_polars})")),
        ("Spark", Code(f"spark.read.format('iceberg'){in_spark}.load({address!r})")),
    )
