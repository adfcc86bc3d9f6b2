"""Nine journeys through the code: how many calls, files, changes of file and climbs each takes.

``python -m benchmarks.journeys``: each journey runs once to fill caches, and once under a profiler that sees each
call of our functions, in all threads. A *change of file* is a call from one of our files to another; a *climb* is a
call into a higher layer of the import contract in ``pyproject.toml``.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import sleeper_nb as sl

ROOT = Path(sl.__file__).parents[1]
OURS = tuple(str(ROOT / name) + "/" for name in ("sleeper_nb", "magics"))


def floors() -> dict[str, int]:
    """Return the height of each layer of the import contract, by the name of its package."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [[name.strip() for name in line.split("|")] for line in contract["layers"]]
    return {name: len(layers) - at for at, names in enumerate(layers) for name in names}


@dataclass
class Walk:
    """What a journey was seen to do."""

    heights: dict[str, int]
    calls: int = 0
    changes: int = 0
    climbs: int = 0
    files: set[str] = field(default_factory=set)

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call of one of our functions."""
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(OURS) or frame.f_code.co_name == "<module>":
            return
        self.calls += 1
        self.files.add(path)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(OURS):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != path:
            self.changes += 1
            self.climbs += self._floor(path) > self._floor(caller.f_code.co_filename)

    def _floor(self, path: str) -> int:
        parts = Path(path).relative_to(ROOT).with_suffix("").parts
        names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((self.heights[name] for name in names if name in self.heights), 0)


@contextmanager
def followed(heights: dict[str, int]) -> Iterator[Walk]:
    """Count what our code does meanwhile, in all threads."""
    walk = Walk(heights)
    threading.setprofile(walk.see)
    sys.setprofile(walk.see)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def journeys(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the nine, each of which can be made several times."""
    session = sl.connect(folder)
    session.create_table("t", sl.Schema(row_keys={"k": "int"}, values={"v": "string"}), [10])
    rows = [{"k": k, "v": str(k)} for k in (1, 3, 5, 11, 13, 15)]
    for _ in range(4):
        session.table("t").ingest(rows)
    from sleeper_nb.widgets import explore
    from sleeper_nb.widgets.request_lanes import RequestLanes

    lanes = RequestLanes(explore(session, "t").methods, lambda _: None, background=lambda work: work())
    versions = iter(range(2, 100))
    shown = {"table": "t", "query": {"filters": [], "sorts": [], "search": ""}, "columns": ["k", "v"]}

    def moved() -> None:
        at = {**shown, "version": 1 + next(versions) % 4, "first": 0, "count": 100}
        for do in ("schema", "rows"):
            lanes.take({"id": 1, "topic": do, "do": do, **at})

    def clicked() -> None:
        lanes.take({"id": 1, "topic": "keyspace", "do": "keyspace", **shown, "version": 4})

    changed = sl.connect(folder / "changed")  # a table of its own, so that no journey changes what another one reads
    changed.create_table("t", sl.Schema(row_keys={"k": "int"}, values={"v": "string"}), [10])
    changed.table("t").ingest([{"k": k, "v": str(k)} for k in range(20)])
    keys = iter(range(1, 20, 2))

    return {
        "ingest of 6 rows": lambda: session.table("t").ingest(rows),
        "VERSION AS OF on DuckDB": lambda: session.sql("SELECT * FROM t VERSION AS OF 2", engine="duckdb").to_arrow(),
        "compaction": lambda: session.table("t").maintenance.compact("all"),
        "session.table": lambda: session.table("t"),
        "move of the explorer's handle": moved,
        "click on a tab": clicked,
        'sql("DELETE …")': lambda: changed.sql(f"DELETE FROM t WHERE k = {next(keys)}"),
        "Table.delete": lambda: changed.table("t").delete(f"k = {next(keys)}"),
        "Table.upsert of 6 rows": lambda: changed.table("t").upsert(rows),
    }


def main() -> None:
    """Print a row for each journey."""
    heights = floors()
    print(f"{'':32}{'files':>8}{'calls':>8}{'changes':>9}{'climbs':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, journey in journeys(Path(folder)).items():
            journey()
            if name == "compaction":
                sl.connect(folder).table("t").ingest([{"k": 2, "v": "x"}])
            with followed(heights) as walk:
                journey()
            print(f"{name:32}{len(walk.files):8,}{walk.calls:8,}{walk.changes:9,}{walk.climbs:8,}")


if __name__ == "__main__":
    main()
