"""An answer of S3 of which only a part arrives is never taken for the whole, whatever its headers say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.storage.aws import AwsTarget, Network
from sleeper_nb.storage.filesystem import Storage, open_storage
from tests.servers.proxy import EVERY_CUT, Fate, Proxy, proxied
from tests.servers.server import Server
from tests.support.builders import (
    KEYED,
    NOW,
    Recorder,
    a_store,
    a_tree,
    collect,
    ingest,
    keys_in,
    reopened,
    rows_of,
    save,
)

MANY = 1_200
"""Objects, so that listing and deleting them takes more than one page."""
LOST = (*EVERY_CUT, Fate("reset"), Fate("refused"))
NUMBERS = pa.table({"n": pa.array(range(5_000))})


class Through:
    """A storage behind a proxy, and the same one without it."""

    def __init__(self, proxy: Proxy, cut: Storage, whole: Storage, lines: list[str]) -> None:
        self.proxy, self.cut, self.whole, self.lines = proxy, cut, whole, lines


@pytest.fixture
def through(s3_server: Server) -> Iterator[Through]:
    bucket = s3_server.new_bucket()
    with proxied(s3_server) as (proxy, server):
        shown = Recorder()
        network = Network(ManualClock(), shown, quota=10**9)
        address = f"s3://{bucket}/house"
        cut = open_storage(address, AwsTarget(endpoint_url=server.endpoint_url), network=network)
        whole = open_storage(address, AwsTarget(endpoint_url=s3_server.endpoint_url))
        for path, content in (("a/one", b"first\nsecond\n"), ("a/none", b""), ("b/c/three", b"3")):
            whole.write(path, content)
        with whole.output("numbers.parquet") as stream:
            pq.write_table(NUMBERS, stream)
        yield Through(proxy, cut, whole, shown.lines)


READS: dict[str, Callable[[Storage], object]] = {
    "list": lambda storage: [file.path for file in storage.list()],
    "folders": lambda storage: storage.folders(),
    "read": lambda storage: storage.read("a/one"),
    "read nothing": lambda storage: storage.read("a/none"),
    "read a stream": lambda storage: storage.input("a/one").read(),
    "read Parquet": lambda storage: pq.read_table(storage.input("numbers.parquet")),
    "dataset": lambda storage: storage.dataset(["numbers.parquet"]).to_table(),
    "size": lambda storage: storage.size("a/one"),
    "has": lambda storage: (storage.has("a/one"), storage.has("a/two")),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_whole_or_an_error_that_names_the_network(through: Through, name: str):
    read = READS[name]
    expected = read(through.whole)
    for lost in LOST:
        # one that is lost is asked for again
        through.proxy.tell(lambda number, _method, _target, lost=lost: lost if number % 2 else None)
        assert read(through.cut) == expected
        # a network that stays so is named; HEAD, and an object without bytes, have nothing that could be cut
        through.proxy.tell(lambda _number, method, _target, lost=lost: lost if method == "GET" else None)
        try:
            assert read(through.cut) == expected
        except (StorageError, OSError, pa.ArrowException) as error:
            assert "the network failed" in str(error)  # noqa: PT017 - it may also be whole
        else:
            assert name in {"size", "has", "read nothing"}
    assert any("S3 " in line and "attempt 2 of 5" in line for line in through.lines) or name in {"size", "has"}


def test_what_is_written_or_deleted_through_lost_answers_is_written_and_deleted(through: Through):
    for at, lost in enumerate(LOST):
        through.proxy.tell(lambda number, _method, _target, lost=lost: lost if number % 2 else None)
        through.cut.write(f"w/{at}", b"new")
        through.cut.delete("a/one")
        through.cut.delete_all("b")
        assert through.whole.read(f"w/{at}") == b"new"
        assert not through.whole.has("a/one")
        assert not through.whole.list("b")
        through.whole.write("a/one", b"again")
        through.whole.write("b/c/three", b"again")


def test_a_folder_whose_listing_or_deletion_is_cut_is_not_called_deleted(through: Through):
    for lost in LOST:
        through.proxy.tell(lambda _number, _method, _target, lost=lost: lost)
        with pytest.raises(StorageError, match="the network failed"):
            through.cut.delete_all("b")
        through.whole.write("b/c/three", b"again")


@pytest.mark.servers
@pytest.mark.parametrize("s3_server", ["versitygw"], indirect=True)
def test_pages_of_a_long_list_are_all_there(through: Through):
    for at in range(MANY):
        through.whole.write(f"many/{at:04d}", b"")
    for lost in LOST:
        through.proxy.tell(lambda number, _method, _target, lost=lost: lost if number % 2 else None)
        assert len(through.cut.list("many")) == MANY


def test_rows_are_read_whole_or_the_network_is_named(through: Through, tmp_path: Path):
    """DataFusion has an S3 client of its own."""
    local = a_store(tmp_path, create=False)
    store = reopened(local, storage=through.whole.below("table"))
    store.create("table", KEYED, a_tree("m"))
    ingest(store, rows_of(*"abcdefgh"))
    plan = plan_scan(store.load(), None)
    for lost in EVERY_CUT:
        if lost.length == "kept":
            continue  # it notices by itself, and asks again for some seconds: see below
        through.proxy.tell(lambda _number, method, _target, lost=lost: lost if method == "GET" else None)
        with pytest.raises(StorageError, match="the network failed"):
            reading.read(plan, through.cut.below("table"))
    through.proxy.tell(None)
    assert keys_in(reading.read(plan, through.cut.below("table"))) == list("abcdefgh")
    store.catalog.close()


@pytest.mark.servers
@pytest.mark.parametrize("s3_server", ["versitygw"], indirect=True)
@pytest.mark.parametrize("lost", LOST, ids=str)
def test_an_upload_that_says_that_it_is_done_is_done(through: Through, lost: Fate):
    """Arrow uploads: small objects in one request, large ones in parts; each answer in turn is lost."""
    for size in (3, 12 << 20):
        content = b"x" * size
        for at in itertools.count(1):
            through.proxy.tell(lambda number, _method, _target, at=at: lost if number == at else None)
            path = f"up/{size}-{at}"
            try:
                with through.cut.output(path) as stream:
                    stream.write(content)
            except StorageError as error:
                assert "network" in str(error)  # noqa: PT017 - it may also go well
                assert not through.whole.has(path)
            else:
                assert through.whole.size(path) == size
            if len(through.proxy.requests) < at:
                break


@pytest.mark.servers
@pytest.mark.parametrize("s3_server", ["versitygw"], indirect=True)
def test_a_collection_on_a_bucket_deletes_no_file_that_is_needed(through: Through, tmp_path: Path):
    local = a_store(tmp_path, create=False)
    store = reopened(local, storage=through.whole.below("table"))
    store.create("table", KEYED, a_tree("m"))
    ingest(store, rows_of("a"))
    save(store, "kept")
    before = {file.path for file in store.storage.list()}
    cut = reopened(local, storage=through.cut.below("table"))
    for lost in LOST:
        through.proxy.tell(lambda number, _method, _target, lost=lost: lost if number % 2 else None)
        collect(cut, NOW)
    assert {file.path for file in store.storage.list()} == before
    store.catalog.close()
