"""A Spark with an S3 file system of its own: it reads buckets as Python workers do, and the footer says which did.

``python -m tests.engines.spark.s3a_alone s3://bucket/prefix ENDPOINT``, with keys in the
environment. `test_s3a` runs it.
"""

from __future__ import annotations

import os
import sys

import sleeper_nb as sl
from sleeper_nb.engines.spark import file_systems
from tests.servers.s3a import s3a_settings
from tests.servers.server import Server
from tests.servers.standalone import LIGHT_JVM

SCHEMA = sl.Schema(
    {"city": "string"}, sort_keys={"time": "timestamp"}, values={"fare": "double?", "tags": "list<int>?"}
)
ROWS = [
    {"city": city, "time": f"2024-01-{day:02}T00:00:00Z", "fare": None if day == 3 else day / 4, "tags": [day]}
    for city in ("athens", "bern", "rome", "zug") for day in range(1, 29)
]  # fmt: skip
STATEMENTS = (
    "SELECT * FROM trips ORDER BY city, time",
    "SELECT city, count(*) AS n, sum(fare) AS fare FROM trips WHERE city >= 'bern' GROUP BY city ORDER BY city",
    "SELECT sum(fare) AS n FROM trips VERSION AS OF 2",
    "SELECT city, count(*) AS n FROM trips a JOIN trips VERSION AS OF 2 b USING (city, time) GROUP BY 1 ORDER BY 1",
)


def answers(session: sl.Session, words: str) -> list[object]:
    """Return what some statements answer on Spark; each footer must name the reader."""
    found = []
    for statement in STATEMENTS:
        result = session.sql(statement, engine="spark")
        found.append(result.to_arrow().to_pylist())
        assert words in repr(result), repr(result)
    return found


def main(place: str, endpoint: str) -> None:
    """Compare both readers of one warehouse."""
    keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    config = s3a_settings(Server(endpoint, "us-east-1", *keys)) | {
        "spark.master": "local[2]", "spark.sleeper.archive": "false",
        "spark.driver.extraJavaOptions": " ".join(LIGHT_JVM),
    }  # fmt: skip
    with sl.connect(place, "s3a", spark_config=config) as session:
        table = session.create_table("trips", SCHEMA, ["c"])
        table.ingest(ROWS)
        table.delete("fare = 2")  # a deletion vector, or files written again
        table.update({"fare": "fare + 1"}, "city = 'zug'", engine="spark")
        by_spark = answers(session, "files by Spark's s3a")
        assert table.scan().to_spark().count() == len(ROWS) - 4
        reached, file_systems.SCHEMES = file_systems.SCHEMES, ()
        file_systems._FOUND.clear()
        by_tasks = answers(session, "files by Python workers")
        file_systems.SCHEMES = reached
        on_duckdb = [session.sql(each, engine="duckdb").to_arrow().to_pylist() for each in STATEMENTS]
        assert by_spark == by_tasks == on_duckdb
        # a server that Spark's file system does not know: never another one's files
        file_systems._FOUND.clear()
        hadoop = session.spark_session.sparkContext._jsc.hadoopConfiguration()
        bucket = place.split("/")[2]
        hadoop.set(f"fs.s3a.bucket.{bucket}.endpoint", "http://127.0.0.1:9")
        hadoop.set("fs.s3a.impl.disable.cache", "true")
        hadoop.set("fs.s3a.retry.limit", "1")
        assert answers(session, "files by Python workers") == by_tasks
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:3])
