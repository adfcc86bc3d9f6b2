"""What needs a cluster of Spark: a master and a worker of its own, whose tasks run in other processes than the driver.

``python -m tests.engines.spark.spark_on_cluster FOLDER s3://bucket/prefix``, with keys and server in the environment.
`test_spark_cluster` runs it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import sleeper_nb as sl
from sleeper_nb.progress import Silent
from tests.servers.standalone import Standalone, bare_python

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "int"})
ROWS = [{"city": city, "fare": fare} for city in ("athens", "bern", "rome", "zug") for fare in range(500)]


class Cluster(Silent):
    """A master without a worker; when the session says that it waits for one, one comes."""

    def __init__(self, standalone: Standalone) -> None:
        self.standalone, self.said = standalone, list[str]()

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the base's
        waited = any("waits for workers" in each for each in self.said)
        self.said.append(text)
        if "waits for workers" in text and not waited:
            self.standalone.start_worker("worker", cores=2)


@contextlib.contextmanager
def a_cluster(folder: Path) -> Iterator[Cluster]:
    keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    with contextlib.ExitStack() as stack:
        yield Cluster(Standalone(folder, stack, keys))


def everything(session: sl.Session) -> None:
    """Import, compact, change, query and read a table; all of it by tasks of the worker."""
    table = session.create_table("trips", SCHEMA, ["c"])
    assert table.bulk_import(ROWS).rows == len(ROWS)
    table.ingest([{"city": "bern", "fare": -1}])
    assert table.maintenance.compact("all", engine="spark").snapshots
    assert len(table.inspect.files()) == 2
    both = "SELECT (SELECT count(*) FROM trips) - (SELECT count(*) FROM trips VERSION AS OF 2) AS more"
    assert session.sql(both, engine="spark").to_arrow().column(0).to_pylist() == [1]
    frame = session.spark_session.read.format("sleeper").option("table", "trips").load()
    assert frame.where("fare < 10").count() == 41
    table.delete("fare >= 490 AND city = 'rome'", engine="spark")
    assert session.sql("SELECT count(*) AS n FROM trips", engine="spark").to_arrow()["n"].to_pylist() == [1991]
    assert frame.count() == 2001
    assert table.scan(where="fare < 10").to_spark().count() == 41


def where_code_is(_: object) -> tuple[str, str, str, int]:
    """Return where a task has the package from, its folder, its home and its process."""
    import importlib.util

    found = importlib.util.find_spec("sleeper_nb")
    return (found.origin or "") if found else "", str(Path.cwd()), os.environ["HOME"], os.getppid()


def workers_are_apart(session: sl.Session, folder: Path) -> None:
    """Hold that tasks share no folder, home and process with this one, and got the code from it."""
    context = session.spark_session.sparkContext
    for code, working, home, process in context.parallelize(range(2), 2).map(where_code_is).collect():
        assert code.endswith(".zip/sleeper_nb/__init__.py"), code
        assert working.startswith(f"{folder}/worker/work/")
        assert home == f"{folder}/worker/home"
        assert process != os.getpid()


def main(folder: Path, bucket: str) -> None:
    """Work in a bucket, which brings the cluster's first worker; and in a folder that both can see."""
    with a_cluster(folder) as cluster:
        config = cluster.standalone.spark_config(bare_python(folder / "python"), "512m")
        with sl.connect(bucket, "cluster", spark_config=config, progress=cluster) as session:
            everything(session)
            assert any("waits for workers" in said for said in cluster.said), cluster.said
            cluster.said.clear()
            with sl.connect(folder / "house", progress=cluster) as other:
                everything(other)
            assert cluster.said
            assert not any("waits for workers" in said for said in cluster.said)
            workers_are_apart(session, folder)
            found = session.doctor(cluster=True)
            assert found.ok, found
            assert any(each.name == "workers' packages" for each in found.checks), found
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
