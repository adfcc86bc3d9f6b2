"""Requests of a page: parts and one answer each, one lane a topic, a newer request cancels the older one."""

from __future__ import annotations

import threading

import pytest

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.widgets.request_lanes import RequestLanes, failure_of


def lanes_of(background=lambda work: work(), **methods):
    sent = []
    return RequestLanes(methods, sent.append, background), sent


def request(number, do, topic="", **asked):
    return {"id": number, "topic": topic or do, "do": do, **asked}


def test_a_request_has_one_answer_with_its_id_and_its_method_gets_what_was_asked():
    lanes, sent = lanes_of(double=lambda asked, _: {"n": 2 * asked["n"]})
    lanes.take(request(7, "double", n=21))
    assert sent == [{"id": 7, "ok": {"n": 42}}]


def test_what_a_method_yields_are_parts_that_are_sent_at_once_and_the_answer_is_returned_or_the_last_of_them():
    seen = []

    def count(*_):
        yield {"n": 1}
        seen.append(list(sent))
        return {"n": 2}

    lanes, sent = lanes_of(count=count, listed=lambda *_: iter([{"n": 3}]), none=lambda *_: iter([]))
    for number, do in enumerate(("count", "listed", "none")):
        lanes.take(request(number, do))
    assert seen == [[{"id": 0, "part": {"n": 1}}]]
    assert sent == [
        {"id": 0, "part": {"n": 1}}, {"id": 0, "ok": {"n": 2}}, {"id": 1, "part": {"n": 3}}, {"id": 1, "ok": {"n": 3}},
        {"id": 2, "ok": {}},
    ]  # fmt: skip


def test_an_error_is_an_answer_with_its_hint_as_a_notebook_writes_it():
    def fail(*_):
        raise InvalidInput("it is wrong", hint=("see ", Action("history t", "table.history()")))

    def break_down(*_):
        yield {"n": 1}
        raise ZeroDivisionError("of all things")

    lanes, sent = lanes_of(fail=fail, break_down=break_down)
    lanes.take(request(1, "fail"))
    lanes.take(request(2, "break_down"))
    assert sent[0] == {"id": 1, "error": {"message": "it is wrong", "hint": "see %sleeper history t"}}
    assert sent[1:] == [
        {"id": 2, "part": {"n": 1}}, {"id": 2, "error": {"message": "ZeroDivisionError: of all things", "hint": ""}},
    ]  # fmt: skip


def test_the_place_of_an_error_counts_as_the_page_does():
    error = InvalidInput("no such column")
    error.offset = 10
    assert failure_of(error, "SELECT '😀' colmn")["place"] == {"from": 11, "to": 12}
    error.offset = 11
    assert failure_of(error, "SELECT '😀' colmn")["place"] == {"from": 12, "to": 17}
    assert "place" not in failure_of(error)


def test_an_unknown_request_is_an_error_and_what_is_no_request_is_dropped():
    lanes, sent = lanes_of()
    for message in (None, "text", {}, {"id": "1", "topic": "a", "do": "b"}, {"do": "refresh"}, request(3, "cancel")):
        lanes.take(message)
    assert sent == []
    lanes.take(request(1, "explode"))
    assert sent[0]["error"]["message"] == "the kernel cannot answer 'explode'"


def test_a_newer_request_of_a_topic_cancels_the_older_and_the_one_that_waits():
    waiting, begun = [], []
    lanes, sent = lanes_of(waiting.append, read=lambda asked, _: begun.append(asked["id"]) or {"of": asked["id"]})
    for number in (1, 2, 3):
        lanes.take(request(number, "read"))
    assert sent == [{"id": 1, "cancelled": True}, {"id": 2, "cancelled": True}]
    assert len(waiting) == 1
    waiting.pop()()
    assert (begun, sent[2:]) == ([3], [{"id": 3, "ok": {"of": 3}}])


def test_topics_do_not_disturb_each_other():
    waiting = []
    lanes, sent = lanes_of(waiting.append, read=lambda asked, _: {"of": asked["topic"]})
    for number, topic in enumerate(("rows 0", "rows 1", "headers")):
        lanes.take(request(number, "read", topic))
    assert len(waiting) == 3
    for work in waiting:
        work()
    assert sent == [{"id": n, "ok": {"of": topic}} for n, topic in enumerate(("rows 0", "rows 1", "headers"))]


def test_what_was_cancelled_stops_and_never_gets_a_late_answer():
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def slow(asked, watch):
        yield {"n": 1}
        begun.set()
        assert go_on.wait(60)
        with watch.stopping(lambda: None):
            seen.append("it went on")
        yield {"n": 3}

    lanes, sent = lanes_of(lambda work: threading.Thread(target=work, daemon=True).start(), slow=slow)
    lanes.take(request(1, "slow"))
    assert begun.wait(60)
    lanes.take({"id": 1, "topic": "slow", "do": "cancel"})
    assert sent == [{"id": 1, "part": {"n": 1}}, {"id": 1, "cancelled": True}]
    go_on.set()
    assert lanes.wait(60)
    assert (sent[2:], seen) == ([], [])


def test_a_cancel_calls_what_stops_the_running_query():
    begun, stopped = threading.Event(), threading.Event()

    def read(asked, watch):
        with watch.stopping(stopped.set):
            begun.set()
            assert stopped.wait(60)
        return {"late": True}

    lanes, sent = lanes_of(lambda work: threading.Thread(target=work, daemon=True).start(), read=read)
    lanes.take(request(1, "read"))
    assert begun.wait(60)
    lanes.close()
    assert lanes.wait(60)
    assert sent == [{"id": 1, "cancelled": True}]


def test_a_request_that_was_answered_is_not_cancelled_afterwards():
    lanes, sent = lanes_of(read=lambda *_: {})
    lanes.take(request(1, "read"))
    lanes.take({"id": 1, "topic": "read", "do": "cancel"})
    lanes.take(request(2, "read"))
    assert sent == [{"id": 1, "ok": {}}, {"id": 2, "ok": {}}]


@pytest.mark.parametrize("rounds", [200])
def test_each_request_gets_exactly_one_end_whatever_the_order_of_threads(rounds):
    lanes, sent = lanes_of(
        lambda work: threading.Thread(target=work, daemon=True).start(),
        read=lambda *_: iter([{"n": 1}, {"n": 2}]),
    )
    for number in range(rounds):
        lanes.take(request(number, "read"))
    assert lanes.wait(60)
    ends = [each["id"] for each in sent if "part" not in each]
    assert sorted(ends) == [*range(rounds)]
    for number in range(rounds):
        own = [each for each in sent if each["id"] == number]
        assert "part" not in own[-1]
