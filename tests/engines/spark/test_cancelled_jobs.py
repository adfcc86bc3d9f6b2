"""A query of Spark that another thread reads is stopped by `QueryResult.cancel`."""

from __future__ import annotations

import threading

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import Cancelled, SleeperError


def test_jobs_of_spark_are_cancelled(spark_engine, tmp_path):
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        result = session.sql("SELECT sum(a.id * b.id % 7) FROM range(10000000) a, range(10000000) b", engine="spark")
        raised = []

        def read():
            try:
                result.to_arrow()
            except SleeperError as error:
                raised.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(1)  # it probably runs by now; a cancel before that stops it too
        result.cancel()
        thread.join(120)
        assert isinstance(raised[0], Cancelled)
        with pytest.raises(Cancelled):
            result.to_arrow()
