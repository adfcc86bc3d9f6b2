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
from subprocess import STDOUT

import sleeper_nb as sl
from sleeper_nb.engines.spark.jvm import find_java, spark_home
from sleeper_nb.progress import Silent
from tests.servers.server import answers, free_port, running

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "int"})
ROWS = [{"city": city, "fare": fare} for city in ("athens", "bern", "rome", "zug") for fare in range(500)]


class Cluster(Silent):
    """A master without a worker; when the session says that it waits for one, one comes."""

    def __init__(self, folder: Path, port: int, stack: contextlib.ExitStack) -> None:
        self.folder, self.master, self.stack = folder, f"spark://127.0.0.1:{port}", stack
        self.said: list[str] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port))

    def _start(self, name: str, kind: str, *words: str) -> None:
        log = self.stack.enter_context((self.folder / f"{name}.log").open("wb"))
        command = [
            find_java().path, "-Xmx256m", "-cp", f"{spark_home()}/jars/*", f"org.apache.spark.deploy.{kind}",
            "--webui-port", "0", *words,
        ]  # fmt: skip
        spark = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
        self.process = self.stack.enter_context(
            running(command, stdout=log, stderr=STDOUT, env={**os.environ, **spark}, cwd=self.folder)
        )

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the base's
        waited = any("waits for workers" in each for each in self.said)
        self.said.append(text)
        if "waits for workers" in text and not waited:
            work = ("--cores", "2", "--memory", "1g", "--work-dir", str(self.folder / "work"))
            self._start("worker", "worker.Worker", "--host", "127.0.0.1", *work, self.master)


@contextlib.contextmanager
def a_cluster(folder: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        port = free_port()
        cluster = Cluster(folder, port, stack)
        assert answers(cluster.process, port), (folder / "master.log").read_text()[-2000:]
        yield cluster


def everything(session: sl.Session) -> None:
    """Import, compact, query and read a table; all of it by tasks of the worker."""
    table = session.create_table("trips", SCHEMA, ["c"])
    assert table.bulk_import(ROWS).added_rows == len(ROWS)
    table.ingest([{"city": "bern", "fare": -1}])
    assert table.compact("all", engine="spark").snapshots
    assert len(table.files()) == 2
    both = "SELECT (SELECT count(*) FROM trips) - (SELECT count(*) FROM trips VERSION AS OF 2) AS more"
    assert session.sql(both, engine="spark").to_arrow().column(0).to_pylist() == [1]
    frame = session.spark().session().read.format("sleeper").option("table", "trips").load()
    assert frame.where("fare < 10").count() == 41


def main(folder: Path, bucket: str) -> None:
    """Work in a bucket, which brings the cluster's first worker; and in a folder that both can see."""
    with a_cluster(folder) as cluster:
        config = {"spark.master": cluster.master, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        with sl.connect(bucket, "cluster", spark_config=config, progress=cluster) as session:
            everything(session)
            assert any("waits for workers" in said for said in cluster.said), cluster.said
            cluster.said.clear()
            with sl.connect(folder / "house", progress=cluster) as other:
                everything(other)
            assert cluster.said
            assert not any("waits for workers" in said for said in cluster.said)
            context = session.spark().session().sparkContext
            assert os.getpid() not in context.parallelize(range(2), 2).map(lambda _: os.getppid()).collect()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
