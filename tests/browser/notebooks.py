"""Notebooks that the browser opens: a table of nine versions, and cells that look at it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import nbformat

SETUP = """
import tempfile
import sleeper_nb as sl
from sleeper_nb.widgets import explore, timeline

session = sl.connect(tempfile.mkdtemp(), author="ada")
schema = sl.Schema(
    row_keys={"carrier": "string", "flight": "int"},
    values={"origin": "string", "dep_delay": "double?", "note": "string?"},
)
flights = session.create_table("flights", schema, split_points=["DL", "MQ", "UA"])
carriers = ["AA", "B6", "DL", "EV", "MQ", "UA", "WN"]
for month in range(1, 5):
    flights.ingest(
        [
            {"carrier": carriers[(i * i + month) % 7], "flight": 100 * month + i, "origin": "JFK",
             "dep_delay": i / 2 if i % 9 else None, "note": "<b>late</b>" if i % 5 == 0 else None}
            for i in range(1200 * month)
        ],
        message=f"month {month} <script>document.title = 'broken'</script>",
    )
flights.create_savepoint("half-year", snapshot=3)
flights.maintenance.compact("all", engine="local")
session.create_table("airports", sl.Schema(row_keys={"faa": "string"}, values={"name": "string"}))
"""

BAD_LOAD = """
flights.update({"dep_delay": "-dep_delay", "note": "'<b>wrong</b>'"}, "carrier = 'UA' AND flight < 180")
flights.delete("flight = 110")
flights.ingest([{"carrier": "ZZ", "flight": i, "origin": "LGA", "dep_delay": 9000.0 + i, "note": None}
                for i in range(800)])
x = timeline(session, "flights")
x.before = 9
x
"""
"""Three more versions of that table, of which the last is wrong, compared with version 9."""

SLOW = """
import json, os
from pathlib import Path
import pyarrow as pa
import sleeper_nb as sl
%load_ext sleeper_nb
Path("sleeper.toml").write_text('''
warehouse = "warehouse"
iterators = ["tests.support.iterators:unhurried"]
[spark]
sleeper.archive = "false"
''')
Path("own/sleeper_nb").mkdir(parents=True)
Path("own/sleeper_nb/config.toml").write_text(f"trusted = {json.dumps([str(Path('sleeper.toml').absolute())])}")
os.environ["XDG_CONFIG_HOME"] = str(Path("own").absolute())
%sleeper use ./warehouse

Path("slow").touch()
properties = {
    "sleeper.table.iterator.class.name": "tests.support.iterators:unhurried",
    "sleeper.table.iterator.config": str(Path.cwd()),
}
session = sl.connect("./warehouse", iterators=["tests.support.iterators:unhurried"])
trips = session.create_table("trips", sl.Schema({"n": "long"}), properties=properties)
for i in range(2):
    trips.ingest(pa.table({"n": range(i, 1_000_000, 2)}))
begin = trips.at().resolved, trips.inspect.files().to_dict()
"""
"""A table whose compaction takes a minute while the file ``slow`` is there; it makes ``begun`` when it merges."""


def notebook_of(path: Path, *cells: str, failing: Collection[int] = ()) -> Path:
    """Write a notebook; a cell whose number is among the failing is expected to show an error."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"
        if i in failing:
            cell.metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, path)
    return path
