"""An offline table is read and ingested; maintenance refuses, but for its dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import show_for

MAINTENANCE: dict[str, Callable[..., object]] = {
    "compaction": lambda table, **options: table.maintenance.compact("all", **options),
    "splitting": lambda table, **options: table.maintenance.split(at="m", **options),
    "expiry": lambda table, **options: table.maintenance.expire(**options),
    "garbage collection": lambda table, **options: table.maintenance.collect_garbage(**options),
    "sweeping orphans": lambda table, **options: table.maintenance.sweep_orphans(**options),
}


@pytest.fixture
def trips(tmp_path: Path) -> Iterator[sl.Table]:
    """A table that was taken offline, with two files to merge."""
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        table = session.create_table("trips", sl.Schema({"city": "string"}))
        for _ in range(2):
            table.ingest([{"city": "rome"}])
        table.maintenance.offline()
        yield table


@pytest.mark.parametrize("work", MAINTENANCE)
def test_maintenance_of_an_offline_table_is_refused_and_says_what_to_type(trips: sl.Table, work: str):
    MAINTENANCE[work](trips, dry_run=True)
    with pytest.raises(sl.StateRuleBroken, match=f"'trips' is offline: {work} is not allowed") as caught:
        MAINTENANCE[work](trips, dry_run=False)
    assert caught.value.hint == "table.maintenance.online() puts it online; dry_run=True shows what would be done"
    show_for(caught.value, "%sleeper")
    assert caught.value.hint == "%sleeper online trips puts it online; --dry-run shows what would be done"
    assert trips.at().resolved.snapshot_id == 3
    trips.maintenance.online()
    MAINTENANCE[work](trips, dry_run=False)


def test_an_offline_table_is_read_and_ingested(trips: sl.Table):
    trips.ingest([{"city": "oslo"}])
    assert trips.scan().count() == 3


def test_the_flag_is_read_from_the_table_alone(trips: sl.Table, monkeypatch: pytest.MonkeyPatch):
    catalog = trips._store.catalog
    calls: list[str] = []

    def counted(name: str) -> None:
        method = getattr(catalog, name)

        def call(*arguments: object) -> object:
            calls.append(name)
            return method(*arguments)

        monkeypatch.setattr(catalog, name, call)

    for name in ("tables", "find_table", "entry"):
        counted(name)
    assert not trips.maintenance.is_online
    assert calls == ["entry"]


def test_the_flag_of_a_deleted_table_is_not_found(trips: sl.Table):
    catalog = trips._store.catalog
    catalog.delete_table(trips._store.table_id, "trips")
    with pytest.raises(sl.NotFound, match="no table with id"):
        assert trips.maintenance.is_online


def test_it_is_shown_where_tables_are(trips: sl.Table, tmp_path: Path):
    with sl.connect(tmp_path) as session:
        again = session.table("trips")
        assert not again.maintenance.is_online
        assert "offline" in repr(session.tables())
        assert "no maintenance touches it" in repr(again.at(2))
        assert "maintenance is refused" in repr(again.inspect.status())
        assert again.inspect.status().next_steps[0].command == "online"
        trips.maintenance.online()
        assert again.maintenance.is_online
        assert "offline" not in repr(session.tables()) + repr(again.at(2)) + repr(again.inspect.status())
