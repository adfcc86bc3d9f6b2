"""Requests are made again while that helps, within bounds, and not in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.storage.aws import ANSWERED, LOST, PATIENCE, QUOTA, AwsTarget, Judgement, Network
from tests.support.builders import START, Recorder

ANSWER = "answer"


class GaveUpError(Exception):
    pass


def give_up(error: Exception, tries: int) -> str:
    raise GaveUpError(str(error), tries) from error


def lost(_error: Exception) -> Judgement:
    return Judgement(5, lost=True, why="no answer")


def busy(_error: Exception) -> Judgement:
    return Judgement(5, lost=False, why="busy")


def refused(_error: Exception) -> Judgement:
    return Judgement(1, lost=False, why="refused")


def failing(times: int) -> Callable[[], str]:
    left = iter(range(times))

    def send() -> str:
        if next(left, None) is not None:
            raise OSError("broken")
        return ANSWER

    return send


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def shown() -> Recorder:
    return Recorder()


@pytest.fixture
def network(clock: ManualClock, shown: Recorder) -> Network:
    return Network(clock, shown)


def test_a_request_that_is_made_again_shows_the_try_and_the_reason(network: Network, shown: Recorder):
    assert network.ask("S3 GetObject", failing(2), lost, give_up) == ANSWER
    assert shown.lines == ["S3 GetObject: attempt 2 of 5 (no answer)", "S3 GetObject: attempt 3 of 5 (no answer)"]
    assert not shown.shown


def test_an_answer_at_once_shows_nothing(network: Network, shown: Recorder):
    assert network.ask("S3 GetObject", failing(0), lost, give_up) == ANSWER
    assert not shown.lines


@pytest.mark.parametrize(("judge", "tries"), [(lost, 5), (busy, 5), (refused, 1)])
def test_tries_are_bounded(network: Network, shown: Recorder, judge: Callable[[Exception], Judgement], tries: int):
    with pytest.raises(GaveUpError) as failed:
        network.ask("S3 GetObject", failing(100), judge, give_up)
    assert failed.value.args == ("broken", tries)
    assert len(shown.lines) == tries - 1
    assert not shown.shown


def test_a_slow_failure_is_not_tried_again_after_a_minute(network: Network, clock: ManualClock):
    def send() -> str:
        clock.advance(PATIENCE / 2)
        raise OSError("slow")

    with pytest.raises(GaveUpError) as failed:
        network.ask("S3 GetObject", send, lost, give_up)
    assert failed.value.args == ("slow", 2)


def losing(network: Network, requests: Iterator[bool]) -> int:
    """Make requests of which each is lost or not at its first try; return how many failed for good."""
    failed = 0
    for is_lost in requests:
        try:
            network.ask("S3 GetObject", failing(is_lost), lost, give_up)
        except GaveUpError:
            failed += 1
    return failed


def test_one_lost_answer_in_25_never_ends_long_work(network: Network):
    assert losing(network, (at % 25 == 0 for at in range(20_000))) == 0


def test_a_network_that_has_failed_ends_long_work_soon(network: Network, shown: Recorder):
    """Each of a thousand requests would be made five times otherwise."""
    sent = 0

    def send() -> str:
        nonlocal sent
        sent += 1
        raise OSError("broken")

    for _ in range(1_000):
        with pytest.raises(GaveUpError):
            network.ask("S3 GetObject", send, lost, give_up)
    assert sent <= 1_000 + QUOTA // LOST
    assert len(shown.lines) < QUOTA // LOST


def test_a_network_that_works_again_is_trusted_again(network: Network, clock: ManualClock):
    with pytest.raises(GaveUpError):
        network.ask("S3 GetObject", failing(100), lost, give_up)
    for _ in range(20):
        with pytest.raises(GaveUpError):
            network.ask("S3 GetObject", failing(100), lost, give_up)
    assert losing(network, iter([True])) == 1
    clock.advance(PATIENCE + timedelta(seconds=1))
    assert network.ask("S3 GetObject", failing(4), lost, give_up) == ANSWER
    assert ANSWERED > 0


def test_an_address_that_may_have_a_password_is_in_no_repr():
    assert "secret" not in repr(AwsTarget("eu-west-2", "http://me:secret@host", "prod"))


def test_parts_that_are_given_take_the_place_of_others():
    both = AwsTarget("eu-west-2", profile="prod").updated(AwsTarget("us-east-1", "http://host:1"))
    assert both == AwsTarget("us-east-1", "http://host:1", "prod")
    assert (both.options, both.arguments) == (
        " --region us-east-1 --endpoint-url http://host:1 --profile prod",
        ", region='us-east-1', endpoint_url='http://host:1', profile='prod'",
    )
