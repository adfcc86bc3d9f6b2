"""Sessions that share the Spark that one of them started, in a process of their own: ``python -m … CASE FOLDER``."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sleeper_nb as sl

CONFIG = {
    "spark.master": "local[1]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sleeper.archive": "false",
}


def opened(folder: Path, name: str, **options: object) -> sl.Session:
    session = sl.connect(folder, name, spark_config=CONFIG, **options)
    session.create_table("t", sl.Schema({"k": "string"}, {}, {}), if_not_exists=True).ingest([{"k": name}])
    return session


def answer(session: sl.Session) -> str:
    return session.sql("SELECT k FROM t", engine="spark").to_dict()["k"][0]


def runs(jvm: object) -> bool:
    return jvm.process.poll() is None


def closed_first(folder: Path) -> None:
    """The session that started Spark is closed first, twice; and the other one answers, and ends it."""
    first, second = opened(folder, "a"), opened(folder, "b")
    assert (answer(first), answer(second)) == ("a", "b")
    jvm = first._spark_engine()._jvm
    first.close()
    first.close()
    assert answer(second) == "b"
    assert runs(jvm)
    second.close()
    assert not runs(jvm)
    second.close()


def closed_last(folder: Path) -> None:
    """The session that started Spark is closed last."""
    first, second = opened(folder, "a"), opened(folder, "b")
    assert (answer(first), answer(second)) == ("a", "b")
    jvm = first._spark_engine()._jvm
    second.close()
    assert answer(first) == "a"
    first.close()
    assert not runs(jvm)


def dropped(folder: Path) -> None:
    """The session that started Spark is dropped without a close."""
    first, second = opened(folder, "a"), opened(folder, "b")
    assert (answer(first), answer(second)) == ("a", "b")
    jvm = first._spark_engine()._jvm
    del first
    assert answer(second) == "b"
    second.close()
    assert not runs(jvm)


def given(folder: Path) -> None:
    """A session that was given the Spark of another one goes on when that is closed, and never stops it."""
    first = opened(folder, "a")
    assert answer(first) == "a"
    spark, jvm = first.spark_session, first._spark_engine()._jvm
    second = opened(folder, "b", spark=spark)
    first.close()
    assert answer(second) == "b"
    second.close()
    assert spark.range(3).count() == 3
    third = opened(folder, "c")
    assert answer(third) == "c"
    third.close()
    assert not runs(jvm)


def stopped_by_program(folder: Path) -> None:
    """The program stops the Spark of two sessions; each goes on with the next one, which they share again."""
    first, second = opened(folder, "a"), opened(folder, "b")
    assert (answer(first), answer(second)) == ("a", "b")
    first.spark_session.stop()
    assert (answer(second), answer(first)) == ("b", "a")
    assert first.spark_session.sparkContext is second.spark_session.sparkContext
    jvm = first._spark_engine()._jvm
    second.close()
    assert answer(first) == "a"
    first.close()
    assert not runs(jvm)


def at_once(folder: Path) -> None:
    """Sessions that begin, and close, in threads at the same time start one Spark, and end it."""
    sessions = [opened(folder, name) for name in "abcd"]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(answer, sessions)) == ["a", "b", "c", "d"]
        jvms = {id(session._spark_engine()._jvm): session._spark_engine()._jvm for session in sessions}
        assert len(jvms) == 1
        list(threads.map(lambda session: session.close(), sessions))
    assert not any(map(runs, jvms.values()))


def killed(folder: Path) -> None:
    """The JVM is killed: a session that never used it starts another, and then the one that did finds that."""
    first, second = opened(folder, "a"), opened(folder, "b")
    assert answer(first) == "a"
    dead = first._spark_engine()._jvm
    dead.process.kill()
    dead.process.wait()
    assert (answer(second), answer(first)) == ("b", "a")
    assert first.spark_session.sparkContext is second.spark_session.sparkContext
    jvm = second._spark_engine()._jvm
    assert jvm is not dead
    first.close()
    second.close()
    assert not runs(jvm)


ALL = (closed_first, closed_last, dropped, given, stopped_by_program, at_once, killed)
CASES = {each.__name__: each for each in ALL}

if __name__ == "__main__":
    gc.disable()  # so that no case passes by chance
    CASES[sys.argv[1]](Path(sys.argv[2]))
