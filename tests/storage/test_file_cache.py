"""The cache of metadata: only exact copies are used, within a bound, by any number of processes."""

from __future__ import annotations

import os
import pickle
import stat
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.storage.file_cache import FileCache
from sleeper_nb.storage.local import whole_file

ADDRESS = "s3://bucket/house/t/statestore/files/1.parquet"


def put(cache: FileCache, number: int, size: int = 100) -> tuple[str, str, bytes]:
    content = bytes([number]) * size
    cache.put(f"{ADDRESS}{number}", checksum_of(content), content)
    return f"{ADDRESS}{number}", checksum_of(content), content


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_copy_is_of_one_address_and_one_checksum(tmp_path):
    cache = FileCache(tmp_path / "c", 10_000)
    address, checksum, content = put(cache, 1)
    assert cache.get(address, checksum) == content == FileCache(tmp_path / "c", 10_000).get(address, checksum)
    assert cache.get(address + "x", checksum) is None
    assert cache.get(address, checksum_of(b"other")) is None
    assert cache.get(address, None) is None
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"\x01" * 99, b"\x02" * 100])
def test_a_damaged_copy_is_dropped_and_never_used(tmp_path, damage):
    cache = FileCache(tmp_path, 10_000)
    address, checksum, content = put(cache, 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert cache.get(address, checksum) is None
    assert not path.exists()
    cache.put(address, checksum, content)
    assert cache.get(address, checksum) == content


def test_the_least_recently_used_copies_go_when_the_bound_is_reached(tmp_path):
    cache = FileCache(tmp_path, 1_000)
    kept = [put(cache, number) for number in range(3)]
    for at, path in enumerate(sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (at, at))
    first = next(each for each in kept if cache.get(*each[:2]) is not None)
    for number in range(3, 40):
        put(cache, number)
        assert cache.get(*first[:2]) == first[2], number  # it is used all the time
        assert size_of(tmp_path) <= 1_000 + 1_000 // 8 + 100
    assert sum(cache.get(*each[:2]) is not None for each in kept) == 1


def test_what_is_too_large_or_has_no_checksum_is_not_kept(tmp_path):
    cache = FileCache(tmp_path, 1_000)
    put(cache, 1, 251)
    cache.put(ADDRESS, None, b"x")
    cache.put(ADDRESS, "etag:x", b"x")
    assert not list(tmp_path.iterdir())


def test_no_cache_and_one_in_another_process_keep_nothing(tmp_path):
    for cache in (FileCache(tmp_path, 0), FileCache(None, 1_000), pickle.loads(pickle.dumps(FileCache(tmp_path, 9)))):  # noqa: S301
        address, checksum, _ = put(cache, 1)
        assert cache.get(address, checksum) is None
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    address, checksum, _ = put(FileCache(tmp_path / "file" / "c", 1_000), 1)
    assert FileCache(tmp_path / "file" / "c", 1_000).get(address, checksum) is None


def test_many_writers_keep_whole_copies_within_the_bound(tmp_path):
    caches = [FileCache(tmp_path, 2_000) for _ in range(4)]
    wrong = []

    def work(cache: FileCache) -> None:
        for number in range(120):
            address, checksum, content = put(cache, number % 60)
            if cache.get(address, checksum) not in {None, content}:
                wrong.append(address)

    threads = [threading.Thread(target=work, args=(cache,)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    put(FileCache(tmp_path, 2_000), 61)  # a new one trims at once
    assert not wrong
    assert size_of(tmp_path) <= 2_000
    assert not list(tmp_path.glob("*.tmp"))


def test_what_killed_writers_left_goes_after_a_day(tmp_path):
    clock = ManualClock()
    with ExitStack() as killed:
        left = {killed.enter_context(whole_file(tmp_path / name)): hours for name, hours in (("a", 25), ("b", 23))}
        for path, hours in left.items():
            at = (clock.now() - timedelta(hours=hours)).timestamp()
            os.utime(path, (at, at))
        put(FileCache(tmp_path, 10_000, clock), 1)
        assert [path.exists() for path in left] == [False, True]
        clock.advance(timedelta(hours=2))
        put(FileCache(tmp_path, 10_000, clock), 2)
        assert [path.exists() for path in left] == [False, False]
    assert len(list(tmp_path.iterdir())) == 2  # the copies


def test_a_part_of_a_file_is_known_by_the_checksum_of_the_file(tmp_path):
    cache, checksum = FileCache(tmp_path, 10_000), checksum_of(b"the whole file")
    cache.put_part(ADDRESS, checksum, "footer", b"its end")
    assert cache.part(ADDRESS, checksum, "footer") == b"its end"
    assert cache.part(ADDRESS, checksum_of(b"another file"), "footer") is None
    assert cache.get(ADDRESS, checksum) is None
    for damage in (b"", b"x", b"\xff" * 50, checksum_of(b"its end").encode() + b"its end"):
        (path,) = tmp_path.iterdir()
        path.write_bytes(damage)
        assert cache.part(ADDRESS, checksum, "footer") is None
        cache.put_part(ADDRESS, checksum, "footer", b"its end")


def test_a_part_that_was_given_the_name_of_another_is_dropped(tmp_path):
    cache, checksum = FileCache(tmp_path, 10_000), checksum_of(b"the whole file")
    for address, wrong in (("other", checksum), (ADDRESS, checksum_of(b"another file"))):
        cache.put_part(address, wrong, "footer", b"its end")
        (path,) = tmp_path.iterdir()
        cache.put_part(ADDRESS, checksum, "footer", b"my end")
        (right,) = {*tmp_path.iterdir()} - {path}
        path.replace(right)
        assert cache.part(ADDRESS, checksum, "footer") is None
        assert not right.exists()


def test_a_part_that_cannot_be_used_is_deleted(tmp_path):
    cache, checksum = FileCache(tmp_path, 10_000), checksum_of(b"the whole file")
    cache.put_part(ADDRESS, checksum, "footer", b"its end")
    cache.drop_part(ADDRESS, checksum, "footer")
    cache.drop_part(ADDRESS, checksum, "footer")
    cache.drop_part(ADDRESS, None, "footer")
    assert not list(tmp_path.iterdir())
