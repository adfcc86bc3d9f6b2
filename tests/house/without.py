"""Run as a program: what a user meets without the packages in the arguments, as if they were not installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Hiding:
    """A finder of modules and of installed packages that does not find some."""

    def __init__(self, finder: Any, packages: set[str]) -> None:
        self._finder, self._packages = finder, packages

    def find_spec(self, name: str, *rest: Any) -> Any:
        return None if name.partition(".")[0] in self._packages else self._finder.find_spec(name, *rest)

    def find_distributions(self, context: Any) -> Any:
        find = getattr(self._finder, "find_distributions", lambda _: ())
        return () if context.name in self._packages else find(context)


def journeys(folder: str) -> dict[str, Callable[[], object]]:
    import pandas as pd
    from IPython.core.interactiveshell import InteractiveShell

    import sleeper_nb as sl

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "sleeper_nb")
    session = sl.connect(folder)
    table = session.create_table("t", data=pd.DataFrame({"k": [1, 2], "v": ["a", "b"]}), row_keys=["k"])

    def magic(line: str) -> str:
        return repr(shell.run_line_magic("sleeper", line))

    return {
        "ingest": lambda: table.ingest([{"k": 3, "v": "c"}]),
        "update": lambda: table.update({"v": "upper(v)"}, "k = 1"),
        "sql": lambda: session.sql("SELECT sum(k) AS n FROM t VERSION AS OF 2").to_pandas(),
        "compact": lambda: table.maintenance.compact("all"),
        "maintain": session.maintain,
        "use": lambda: magic(f"use {folder}"),
        "plot": lambda: magic("sql --plot SELECT v, k FROM t"),
        "explore": lambda: magic("explore t"),
        "doctor": lambda: magic("doctor"),
        "spark": lambda: session.sql("SELECT * FROM t", engine="spark"),
        "to_spark": lambda: table.scan().to_spark(),
        "spark_session": lambda: session.spark_session,
        "bulk_import": lambda: table.bulk_import([{"k": 4, "v": "d"}], engine="spark"),
        "bucket": lambda: sl.connect("s3://bucket/prefix"),
        "object": lambda: table.ingest("s3://bucket/rows.parquet"),
        "altair": lambda: session.sql("SELECT v, k FROM t").plot("bar").altair,
        "publish": table.publish,
        "excel": lambda: table.ingest(f"{folder}/rows.xlsx"),
        "delta": lambda: table.ingest(f"delta:{folder}/lake"),
        "iceberg": lambda: table.ingest(f"iceberg:{folder}/lake"),
        "flights": lambda: magic("demo"),
    }


def main() -> None:
    folder, *packages = sys.argv[1:]
    sys.meta_path[:] = [Hiding(each, set(packages)) for each in sys.meta_path]  # type: ignore[list-item]
    with open(f"{folder}/rows.xlsx", "wb") as file:  # noqa: PTH123
        file.write(b"PK\x03\x04")
    for name in ("_delta_log/0.json", "metadata/v1.metadata.json"):
        (path := Path(folder, "lake", name)).parent.mkdir(parents=True)
        path.touch()
    said = {}
    for name, call in journeys(folder).items():
        try:
            said[name] = repr(call())
        except Exception as error:  # noqa: BLE001 - its text is what is tested
            said[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(said))


if __name__ == "__main__":
    main()
