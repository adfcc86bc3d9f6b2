"""Background work of which only the latest matters, run step by step without threads, and once with one."""

from __future__ import annotations

import threading

from sleeper_nb.widgets.latest_work import LatestWork


def test_work_that_waits_is_replaced_and_work_that_runs_is_cancelled():
    waiting, done = [], []
    work = LatestWork(waiting.append)

    def first(watch):
        work.start(lambda _: done.append("second"))
        work.start(lambda _: done.append("third"))
        done.append("first began")
        watch.check()
        done.append("first ended")

    work.start(first)
    assert not work.wait(0)
    assert len(waiting) == 1
    waiting.pop()()
    assert done == ["first began", "third"]
    assert work.wait(0)
    assert waiting == []
    work.start(lambda _: done.append("fourth"))
    waiting.pop()()
    assert done[-1] == "fourth"


def test_cancelled_work_does_not_begin():
    waiting, done = [], []
    work = LatestWork(waiting.append)
    work.start(lambda _: done.append("never"))
    work.cancel()
    waiting.pop()()
    assert (done, work.wait(0)) == ([], True)


def test_it_runs_in_a_thread_of_its_own():
    names = []
    work = LatestWork()
    work.start(lambda _: names.append(threading.current_thread().name))
    assert work.wait(30)
    assert names == ["sleeper-widget"]
