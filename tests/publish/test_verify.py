"""A check finds what of the published metadata is lost, or says other rows than the version has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.publish import metadata_folder
from sleeper_nb.publish.manifests import Publication
from sleeper_nb.publish.verify import verify
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.builders import START, a_store, collect, compact, ingest, rows_of, save, split
from tests.support.other_engines import published_now


@pytest.fixture
def store(tmp_path):
    store = a_store(tmp_path, points=["h"])
    ingest(store, rows_of("a", "k"))
    ingest(store, rows_of("b"))
    save(store, "half")
    published_now(store)
    split(store, at="z")
    compact(store)
    published_now(store)
    return store


def whats(store):
    return [finding.what for finding in verify(store)]


def test_nothing_is_wrong_with_what_was_published(store):
    assert verify(store) == ()


def test_nothing_is_wrong_where_nothing_is_published(tmp_path):
    assert verify(a_store(tmp_path)) == ()


@pytest.mark.parametrize("ending", ["-m0.avro", "metadata.json"])
def test_each_lost_file_is_found(store, ending):
    for file in store.storage.list("metadata"):
        if file.path.endswith(ending):
            store.storage.delete(file.path)
    assert all("metadata" in what for what in whats(store))
    assert bool(whats(store)) == (ending != "metadata.json")


def test_a_hint_of_an_older_version_is_found(store):
    store.storage.write("metadata/version-hint.text", b"1")
    assert whats(store) == ["it points to 1, not 2"]


def test_another_programs_metadata_are_found(store):
    store.storage.write("metadata/v3.metadata.json", store.storage.read("metadata/v2.metadata.json"))
    assert whats(store) == ["another program wrote metadata/v3.metadata.json"]


def test_a_lost_data_file_is_found(store):
    lost = store.load().files.active["filename"][0].as_py()
    store.storage.delete(lost)
    assert f"{lost} is lost" in whats(store)


def test_a_list_of_another_version_is_found(store):
    lists = [file.path for file in store.storage.list("metadata/") if "/snap-" in file.path]
    newest = next(path for path in lists if f"/snap-{store.head().id}-" in path)
    (other,) = (path for path in lists if path != newest)
    store.storage.write(newest, store.storage.read(other))
    assert whats(store) == [f"it does not describe the files of snapshot {store.head().id}"]


def test_a_superseded_version_whose_time_is_over_needs_no_files(tmp_path):
    clock = ManualClock(START)
    store = a_store(tmp_path, clock=clock)
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    published_now(store)
    compact(store)
    published_now(store)
    clock.advance(timedelta(days=30))
    expire_snapshots(store, Retention(timedelta(0), 1), dry_run=False)
    assert len(collect(store).data_files) == 2
    assert verify(store) == ()


def test_a_data_file_that_is_listed_twice_is_found(store):
    metadata = metadata_folder.find(store.storage).metadata
    newest = metadata.snapshot(metadata.main)
    named = metadata_folder.Named(store.storage, metadata)
    first, *others = named.manifests(newest.manifest_list)
    packed = Publication(newest.id, newest.sequence, {}).manifest_list([first, first, *others], None)
    store.storage.write(named.path(newest.manifest_list), packed)
    found = whats(store)
    assert found
    assert all(what.endswith(" is listed twice") for what in found)
