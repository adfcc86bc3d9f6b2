"""What checking files adds to the first statement that reads them: `python -m benchmarks.file_checksums`.

CPU time of the process, with and without the check of whole files, the lower of two; later statements pay nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import sleeper_nb as sl
from sleeper_nb.read import read_rows as reading
from sleeper_nb.storage import integrity

STATEMENTS = {
    "all rows": "SELECT * FROM t",
    "sums of all columns": "SELECT count(*), sum(v), sum(w), max(x), sum(k) FROM t",
    "group by, 3 of 4 columns": "SELECT x, sum(v), sum(w) FROM t GROUP BY x",
    "one column": "SELECT sum(v) FROM t",
}


def main() -> None:
    """Print one line a statement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_000_000, help="of each file; 50 MB")
    parser.add_argument("--files", type=int, default=1)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    names = pa.array(np.char.add("name", (np.arange(arguments.rows) % 977).astype(str)))
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder) as session:
        schema = sl.Schema({"k": "long"}, {}, {"v": "double", "w": "double", "x": "string"})
        table = session.create_table("t", schema)
        for file in range(arguments.files):
            keys = np.arange(arguments.rows) + file * arguments.rows
            columns = {"k": keys, "v": random.random(arguments.rows), "w": random.random(arguments.rows), "x": names}
            table.ingest(pa.table(columns))
        for name, sql in STATEMENTS.items():
            checked = min(_cpu(session, sql) for _ in range(2))
            with patch.object(reading, "check_once", lambda *_: None):
                plain = min(_cpu(session, sql) for _ in range(2))
            print(f"{name:25} {plain:.3f} s, with the check {checked:.3f} s: {checked / plain - 1:+.0%}")


def _cpu(session: sl.Session, sql: str) -> float:
    integrity._checksum_now.cache_clear()
    began = time.process_time()
    session.sql(sql, engine="duckdb").to_arrow()
    return time.process_time() - began


if __name__ == "__main__":
    main()
