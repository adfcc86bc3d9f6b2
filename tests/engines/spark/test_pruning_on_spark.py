"""What tasks of a cluster wrote into a folder must be on this machine before a table refers to it."""

import sys
from types import SimpleNamespace

import pytest

from sleeper_nb.engines.spark.frames import check_written
from sleeper_nb.engines.spark.jvm import worker_python
from sleeper_nb.errors import StorageError
from sleeper_nb.storage.filesystem import Storage


def spark_on(master):
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master))


def test_a_file_that_a_cluster_wrote_into_a_folder_of_its_own_is_an_error(tmp_path):
    storage, cluster = Storage(tmp_path), spark_on("spark://host:7077")
    storage.write("data/here.parquet", b"x")
    check_written(cluster, storage, ["data/here.parquet"])
    check_written(cluster, storage, [])
    with pytest.raises(
        StorageError, match=f"wrote {tmp_path}/data/there.parquet, which is not on this machine\nhint: .*s3://"
    ):
        check_written(cluster, storage, ["data/here.parquet", "data/there.parquet"])
    check_written(spark_on("local[2]"), storage, ["data/there.parquet"])  # its tasks are this machine


@pytest.mark.parametrize(
    ("conf", "environment", "python"),
    [
        ({}, None, sys.executable),
        ({}, "/other/python", sys.executable),  # of another tool, on this machine
        ({"spark.master": "local[2]"}, "/other/python", sys.executable),
        ({"spark.master": "spark://host:7077"}, "/other/python", "/other/python"),
        ({"spark.master": "spark://host:7077"}, None, sys.executable),
        ({"spark.master": "yarn", "spark.pyspark.python": "/conf/python"}, "/other/python", "/conf/python"),
    ],
)
def test_the_python_of_tasks_is_this_one_unless_somebody_says_another(monkeypatch, conf, environment, python):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    assert worker_python(conf) == python
