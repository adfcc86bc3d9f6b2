"""What needs a Spark that tries a task again: an append whose task is killed, loses its answer, or runs twice at once.

Run by `test_append_alone`:

``python -m tests.engines.spark.append_alone FOLDER``
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import sleeper_nb as sl
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source import source_of
from sleeper_nb.session import open_source_table
from tests.engines.spark.spark_alone import Unlucky

CONFIG = {"spark.master": "local[2,3]", "spark.driver.memory": "1g", "spark.speculation": "true"}
SCHEMA = sl.Schema({"key": "string"}, {"n": "int"})


def open_unlucky(case, place, name):
    """Open a table whose files a task fails to report once."""
    opened = open_source_table(place, name)
    opened.store.storage = Unlucky(opened.store.storage.place, case)
    return opened


def append(session, folder, case):
    """Append once, with a mishap, and check that each row was added once and no other file is left."""
    table, spark = session.create_table(case, SCHEMA, ["d", "m"]), session.spark_session
    home = Path(table._store.storage.root)
    opener = partial(open_unlucky, case)
    spark.dataSource.register(source_of(InstancePlace(str(folder), "default"), opener, 2, prunes=True, speculates=True))
    rows = spark.range(0, 200_000, 1, 4).selectExpr("concat(chr(97 + id % 26), id) AS key", "CAST(id AS INT) AS n")
    rows.write.format("sleeper").option("table", case).mode("append").save()
    assert (home.parent / "unlucky").exists(), "nothing went wrong"
    (home.parent / "unlucky").unlink()
    answer = session.sql(f"SELECT count(*) AS n, count(DISTINCT n) AS d FROM {case}").to_arrow().to_pylist()
    assert answer == [{"n": 200_000, "d": 200_000}], answer
    assert len(table.history()) == 2
    stored = {str(path.relative_to(home)) for path in home.rglob("data/**/*.parquet")}
    assert len(stored) == table.history()[0].files == 12, stored
    assert table.maintenance.check(deep=True).ok


def main():
    folder = Path(sys.argv[1])
    with sl.connect(folder, spark_config=CONFIG) as session:
        for case in sys.argv[2:]:
            append(session, folder, case)


if __name__ == "__main__":
    main()
