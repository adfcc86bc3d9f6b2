"""Many scans of files that Python opens, by way of DuckDB and of a reader, with threads that change all the time.

``python -m tests.storage.opened_by_python FOLDER`` ends with 1 when a scan waits for ever.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset, fs

from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace

FILES, ROWS, SCANS, WAIT_SECONDS = 12, 10, 300, 20


class Opened(fs.FileSystemHandler):
    """Files of this machine as Python's."""

    def open_input_file(self, path):
        return pa.PythonFile(Path(path).open("rb"), mode="r")

    def get_type_name(self):
        return "python"

    def normalize_path(self, path):
        return path


def refused(*_):
    raise OSError("only for reading")


for name in Opened.__abstractmethods__:
    setattr(Opened, name, refused)
Opened.__abstractmethods__ = frozenset()


class PythonPlace(LocalPlace):
    """A folder whose files Arrow opens through Python, as those in buckets."""

    local = False

    def __init__(self, root):
        super().__init__(root)
        self.readable = fs.PyFileSystem(Opened())


def main(folder):
    names = [f"{number}.parquet" for number in range(FILES)]
    for number, name in enumerate(names):
        pq.write_table(pa.table({"k": range(number * ROWS, (number + 1) * ROWS)}), Path(folder) / name)
    rows = Storage(PythonPlace(folder)).dataset(names, pa.schema({"k": pa.int64()}))
    connection = duckdb.connect()
    connection.from_arrow(rows).create_view("rows")
    sys.setswitchinterval(1e-6)
    for _ in range(SCANS):
        faulthandler.dump_traceback_later(WAIT_SECONDS, exit=True)
        assert connection.execute("SELECT count(*) FROM rows WHERE k > 10").fetchall() == [(109,)]
        assert rows.scanner(filter=dataset.field("k") > 10).to_reader().read_all().num_rows == 109
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(sys.argv[1])
