"""Every order of the steps of operations that are at work at once, with kills and lost answers, keeps the promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.protocol.checker import Faults, Operation, explore
from tests.protocol.scenes import CAUGHT_BY, SUBJECTS, TWO_READERS, Scene, on, scenes
from tests.protocol.world import DYNAMODB, FULL, ITEMS, RULES

MANY_STATES = (
    "a migration, a savepoint", "a migration, an ingest", "a migration while", "a migration back", "two migrations",
    "two clean-ups", "two readers", "a purge and a rollback", "a purge and a compaction",
    "a checkpoint and a savepoint", "a savepoint, an ingest",
)  # fmt: skip


def _marks(scene: Scene) -> Any:
    is_long = scene.name.startswith(MANY_STATES) or (scene.catalog == DYNAMODB and scene.kind != ITEMS)
    return pytest.mark.long if is_long else ()


@pytest.mark.parametrize("scene", [pytest.param(each, id=str(each), marks=_marks(each)) for each in scenes()])
def test_every_order_of_steps_keeps_every_promise(scene: Scene):
    explored = scene.explored()
    assert explored.found is None, str(explored.found)
    assert explored.ends


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_a_promise_is_broken(rule: str):
    found = CAUGHT_BY[rule].explored(RULES - {rule}).found
    assert found is not None, f"nothing shows what the rule is for: {rule}"
    lines = str(found).splitlines()
    assert found.broken in lines[0]
    assert len(lines) == 1 + len(found.steps)


@pytest.mark.long
def test_two_readers_of_an_expired_version_can_rely_on_each_others_leases_in_dynamodb():
    """A known gap: each finds the lease that the other has only just written. Their reads fail, and say so."""
    found = Scene(TWO_READERS, FULL, DYNAMODB, *SUBJECTS[TWO_READERS]).explored().found
    assert found is not None
    assert found.broken.startswith("scanA cannot read")


def test_a_trace_found_is_a_shortest_one():
    found = on(FULL, "a reader while all is cleaned").explored(RULES - {"the current snapshot never expires"}).found
    assert found is not None
    assert [type(step.request).__name__ for step in found.steps] == ["Current", "Snapshots", "Expire"]


class Counter(NamedTuple):
    """A world that counts, and lets nothing be broken."""

    count: int = 0

    def broken(self, *_: Any) -> str | None:
        return None

    broken_at_end = broken

    def ended(self, *_: Any, **__: Any) -> Counter:
        return self

    def later(self) -> Iterator[Any]:
        return iter(())


class Add(NamedTuple):
    changes = True

    def do(self, world: Counter) -> tuple[Counter, int]:
        return Counter(world.count + 1), world.count


def _add_twice() -> Any:
    yield Add()
    yield Add()


@pytest.mark.parametrize(
    ("faults", "counts"),
    [
        (Faults(), {2}),
        (Faults(kills=1), {0, 1, 2}),
        (Faults(lost=1), {1, 2}),
        (Faults(failed=1), {0, 1, 2}),
    ],
)
def test_each_fault_happens_at_each_step(faults: Faults, counts: set[int]):
    explored = explore(Counter(), [Operation("one", _add_twice)], faults)
    assert {end[0].count for end in explored.ends} == counts
