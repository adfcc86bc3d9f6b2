from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import Retention, expire_snapshots, plan_expiry
from tests.support.builders import (
    START,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
    snapshot,
)

HISTORY = [snapshot(number) for number in range(6, 0, -1)]  # one a second, newest first


def kept(retention: Retention, seconds: float = 10) -> list[int]:
    gone = plan_expiry(HISTORY, retention, START + timedelta(seconds=seconds))
    return [s.id for s in reversed(HISTORY) if s not in gone]


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (Retention(), [1, 2, 3, 4, 5, 6]),
        (Retention(timedelta(0), 1), [6]),
        (Retention(timedelta(0), 3), [4, 5, 6]),
        (Retention(timedelta(seconds=6), 1), [4, 5, 6]),
        (Retention(timedelta(seconds=6, microseconds=1), 1), [3, 4, 5, 6]),  # 3 was current at that moment
        (Retention(timedelta(days=1), 1, 2), [5, 6]),
        (Retention(timedelta(days=1), 4, 4), [3, 4, 5, 6]),
        (Retention(timedelta.max, 1), [1, 2, 3, 4, 5, 6]),
    ],
)
def test_worked_examples(retention: Retention, expected: list[int]):
    assert kept(retention) == expected


@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 12), st.integers(0, 12))
def test_the_newest_stay_and_expiry_takes_from_the_oldest(least: int, more: int, seconds: int, now: int):
    left = kept(Retention(timedelta(seconds=seconds), least, least + more), now)
    assert left == [1, 2, 3, 4, 5, 6][-len(left) :]
    assert len(left) >= max(1, min(least, 6))


MOMENTS = st.integers(0, 60)


@given(st.lists(MOMENTS, min_size=1, max_size=8), st.integers(0, 70), MOMENTS, st.integers(1, 3))
def test_every_moment_of_the_window_answers_as_before(times: list[int], window: int, now: int, least: int):
    """Also where clocks went back or ran ahead: what counts at a moment is the newest snapshot that is no younger."""
    history = [replace(snapshot(i + 1), time=START + timedelta(seconds=at)) for i, at in enumerate(times)][::-1]
    retention = Retention(timedelta(seconds=window), least)
    gone = {s.id for s in plan_expiry(history, retention, START + timedelta(seconds=now))}
    left = [s for s in history if s.id not in gone]

    def answer(snapshots: list[Snapshot], moment: int) -> int | None:
        at = START + timedelta(seconds=moment)
        return max((s.id for s in snapshots if s.time <= at), default=None)

    for moment in range(max(0, now - window), 61):
        assert answer(left, moment) == answer(history, moment)


GAPS = st.lists(st.sampled_from([0, 1, 3600, 86_399, 86_400, 86_401, 200_000, 700_000]), max_size=5)


@given(GAPS, st.sampled_from([0, 1, 86_400, 604_800]), st.integers(0, 700_000))
def test_timestamp_as_of_answers_the_same_before_and_after_expiry(gaps: list[int], window: int, rest: int):
    clock = ManualClock(START)
    second = timedelta(seconds=1)
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder, clock=clock) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}))
        for gap in gaps:
            clock.advance(gap * second)
            table.maintenance.online()
            table.ingest([{"key": "a"}])
        clock.advance(rest * second)
        made = [each.time for each in table.history()]
        around = {time + i * second / 1_000_000 for time in made for i in (-1, 0, 1)}
        since = clock.now() - window * second
        moments = [moment for moment in (since, clock.now(), *sorted(around)) if moment >= since]

        def answers() -> list[int | None]:
            found: list[int | None] = []
            for moment in moments:
                try:
                    found.append(table.at(timestamp=moment).resolved.snapshot_id)
                except sl.NotFound:
                    found.append(None)
            return found

        before = answers()
        table.maintenance.expire(dry_run=False, time_retained=window * second, num_retained_min=1)
        assert answers() == before
        assert len(table.history()) <= 1 + sum(time > since for time in made)


REFUSED = {
    "least 0": ({"num_retained_min": 0}, "num_retained_min"),
    "least -1": ({"num_retained_min": -1}, "num_retained_min"),
    "most 0": ({"num_retained_max": 0}, "num_retained_max"),
    "most -1": ({"num_retained_max": -1}, "num_retained_max"),
    "most below least": ({"num_retained_min": 5, "num_retained_max": 4}, "num_retained_max is 4"),
    "most below the table's least": ({"num_retained_max": 4}, "num_retained_max is 4"),
    "before now": ({"time_retained": timedelta(seconds=-1)}, "time_retained"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("dry_run", [True, False])
def test_retention_that_contradicts_itself_is_refused(tmp_path: Path, what: str, dry_run: bool):
    given, message = REFUSED[what]
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}))
        table.ingest([{"key": "a"}])
        with pytest.raises(sl.InvalidInput, match=message) as error:
            table.maintenance.expire(dry_run=dry_run, **given)
        assert error.value.hint
        assert len(table.history()) == 2


MOST, LEAST = "snapshot.num-retained.max", "snapshot.num-retained.min"


@pytest.mark.parametrize("values", [{MOST: "9"}, {MOST: "2", LEAST: "3"}, {MOST: "0"}, {MOST: "-1"}, {LEAST: "-1"}])
def test_properties_of_retention_that_contradict_each_other_are_refused(tmp_path: Path, values: dict[str, str]):
    name = MOST if MOST in values else LEAST
    schema = sl.Schema({"key": "string"})
    declared = {"tables": {"t": {"schema": "key STRING KEY", "properties": values}}}
    with sl.connect(tmp_path) as session:
        for refused in (
            lambda: session.create_table("new", schema, properties=values),
            lambda: session.admin.apply(declared),
            lambda: session.set_properties({f"sleeper.default.table.{name}": text for name, text in values.items()}),
        ):
            with pytest.raises(sl.InvalidInput, match=name) as error:
                refused()
            assert error.value.hint
        table = session.create_table("t", schema)
        for refused in (lambda: table.set_properties(values), lambda: session.admin.apply(declared)):
            with pytest.raises(sl.InvalidInput, match=name):
                refused()
        assert len(session.tables()) == 1
        assert session.table("t").at().properties[MOST] == 2**31 - 1
        (path,) = (tmp_path / "default" / "config" / "tables").iterdir()
        kept = path.read_text()
        path.write_text(kept + "".join(f"{name}={text}\n" for name, text in values.items()))
        with pytest.raises(sl.InvalidInput, match=f"{path.name}.*{name}"):
            session.table("t")
        path.write_text(f"{kept}{MOST}=9\n{LEAST}=9\n")
        assert session.table("t").at().properties[MOST] == 9
        session.table("t").set_properties({MOST: "3", LEAST: "2"})
        with pytest.raises(sl.InvalidInput, match=MOST):
            session.table("t").set_properties({LEAST: None})


def test_an_edited_file_of_an_instance_is_refused_too(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        session.create_table("t", sl.Schema({"key": "string"}))
        file = Path(session.location) / "config" / "instance.properties"
    file.write_text(f"sleeper.default.table.{MOST}=5\n")
    with sl.connect(tmp_path) as session, pytest.raises(sl.InvalidInput, match=MOST):
        session.table("t")


def test_a_dry_run_names_what_the_run_forgets_and_readers_of_the_rest_go_on(store: StateStore):
    for key in "abc":
        ingest(store, rows_of(key))
    one = save(store, None)
    retention = Retention(timedelta(0), 1)
    store.clock.advance(timedelta(seconds=1))
    before = on_disk(store)
    planned = expire_snapshots(store, retention, dry_run=True)
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == [4, 3, 2, 1]
    done = expire_snapshots(store, retention, dry_run=False)
    assert planned.expired == done.expired
    assert ([s.id for s in done.expired], done.kept) == ([1, 2, 3], 1)
    assert expire_snapshots(store, retention, dry_run=False).expired == ()
    assert on_disk(store) == before  # files go with the garbage
    assert keys_in(scan(reopened(store), one)) == ["a", "b", "c"]
    assert "would expire 3" in repr(planned)
