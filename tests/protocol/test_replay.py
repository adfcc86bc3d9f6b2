"""What the specification explores, the product does: the same calls in the same order, and the same state then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.replay import OPERATIONS, can_be_replayed, gated_items, replay, template
from tests.protocol.scenes import SUBJECTS, Scene, migrations, on
from tests.protocol.world import DYNAMODB, FULL, ITEMS, LOG, SQLITE, HasCommit
from tests.support.interleavings import Template

IN_EVERY_RUN = {
    (FULL, "a commit without an answer that expires"),
    (FULL, "a rollback while all is cleaned"),
    (LOG, "a checkpoint, an ingest and an expiry"),
    (LOG, "a savepoint while all is cleaned"),
    (ITEMS, "two writers"),
    (ITEMS, f"a migration and a reader, to {FULL}"),
}


def _scenes(kind: str) -> Iterator[Scene]:
    """Yield the scenes whose operations can be replayed; a call of the catalog is one step."""
    for name, (work, faults) in SUBJECTS.items():
        if not ("checkpoint" in name and kind == FULL):
            yield Scene(name, kind, SQLITE, work, faults)
    for scene in migrations(kind, DYNAMODB if kind == ITEMS else SQLITE):
        yield Scene(scene.name, kind, SQLITE, scene.work, scene.faults)


def _case(kind: str, scene: Scene) -> Any:
    marks = () if (kind, scene.name) in IN_EVERY_RUN else pytest.mark.long
    return pytest.param(scene, id=f"{scene.name} on {kind}", marks=marks)


CASES = [
    _case(kind, scene)
    for kind in (FULL, LOG, ITEMS)
    for scene in _scenes(kind)
    if all(name in OPERATIONS for name, *_ in scene.work)
]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    folder: Path = tmp_path_factory.mktemp("protocol")
    return {kind: template(folder / kind, kind) for kind in (FULL, LOG, ITEMS)}


@pytest.mark.parametrize("scene", CASES)
def test_the_product_does_the_steps_of_the_specification(
    templates: dict[str, Template], scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    traces = scene.explored().covering(can_be_replayed)
    assert traces
    with gated_items(monkeypatch):
        for trace in traces:
            with templates[scene.kind].copy() as stage:
                replay(stage, scene, trace)


def test_a_specification_that_leaves_a_step_out_is_found(templates: dict[str, Template]):
    scene = on(FULL, "two writers")
    trace = next(
        trace
        for trace in scene.explored().covering(can_be_replayed)
        if any(isinstance(step.request, HasCommit) for step, _ in trace)
    )
    shortened = [(step, world) for step, world in trace if not isinstance(step.request, HasCommit)]
    with templates[FULL].copy() as stage, pytest.raises(AssertionError, match="goes on with 'has_commit'"):
        replay(stage, scene, shortened)
