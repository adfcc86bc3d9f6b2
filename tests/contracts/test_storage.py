"""One contract for storage: a local folder, moto, and versitygw, which checks signatures."""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyarrow import parquet

from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.storage import s3
from sleeper_nb.storage import s3 as s3_errors
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from tests.servers.fixtures import use
from tests.servers.server import free_port
from tests.support.combinations import each_value_once

ODD = ("a b.txt", "größe/日本.txt", "key=1/x.txt", "a+b%20c&d.txt", "[x]*?.txt", 'it\'s "quoted".txt', "~tilde#1.txt")


@pytest.fixture
def opened(s3_server) -> Callable[[str], Storage]:
    """Opens an address on the server."""
    return lambda uri: open_storage(uri, AwsTarget(endpoint_url=s3_server.endpoint_url))


@pytest.fixture(params=["folder", "moto", pytest.param("versitygw", marks=pytest.mark.servers)])
def storage(request, tmp_path, monkeypatch) -> Storage:
    """An empty storage of each kind."""
    if request.param == "folder":
        return open_storage(tmp_path / "root")
    server = request.getfixturevalue(request.param)
    use(server, monkeypatch)
    return open_storage(f"s3://{server.new_bucket()}/some/root", AwsTarget(endpoint_url=server.endpoint_url))


def paths_in(storage: Storage, folder: str = "") -> list[str]:
    return [file.path for file in storage.list(folder)]


def test_what_was_written_is_read_and_a_second_write_replaces_it(storage):
    storage.write("folder/file", b"old and long")
    storage.write("folder/file", b"new")
    assert (storage.read("folder/file"), storage.size("folder/file")) == (b"new", 3)
    assert paths_in(storage) == ["folder/file"]
    storage.write("empty", b"")
    assert (storage.read("empty"), storage.size("empty")) == (b"", 0)


def test_a_new_file_is_written_once_whoever_tries(storage):
    assert storage.write_new("schema/one", b"first")
    assert not storage.write_new("schema/one", b"second")
    assert storage.read("schema/one") == b"first"
    storage.write("other", b"x")
    assert not storage.write_new("other", b"y")
    storage.delete("other")
    assert storage.write_new("other", b"")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: storage.write_new("race", b"%d" % n), range(8)))
    assert sum(won) == 1
    assert storage.read("race") == b"%d" % won.index(True)
    assert paths_in(storage) == ["other", "race", "schema/one"]


def test_folders_are_told_without_what_is_below_them(storage):
    assert storage.folders() == storage.folders("none") == ()
    for path in ("file", "a/b/file", "c d/file", "a/file"):
        storage.write(path, b"x")
    assert (storage.folders(), storage.folders("a"), storage.folders("a/b")) == (("a", "c d"), ("b",), ())
    assert (storage.has("a/file"), storage.has("a/none"), storage.has("a")) == (True, False, False)


def test_an_output_is_there_when_its_block_ends(storage):
    with storage.output("a/b/file") as stream:
        stream.write(b"one ")
        stream.write(b"two")
        assert stream.tell() == 7
    assert storage.read("a/b/file") == b"one two"


def test_a_folder_goes_with_all_that_is_below_it_and_nothing_else(storage):
    for path in ("gone/a", "gone/b/c d", "gone/b/größe", "gone-not/a", "other/gone/a", "gone.txt"):
        storage.write(path, b"x")
    for _ in range(2):
        storage.delete_all("gone")
        assert paths_in(storage) == ["gone-not/a", "gone.txt", "other/gone/a"]
    storage.delete_all("never/there")


@pytest.mark.parametrize(
    ("size", "error"), each_value_once([0, 10, 12_000_000], [ValueError("no"), KeyboardInterrupt(), StorageError("no")])
)
def test_an_output_that_fails_leaves_no_file_and_tells_its_own_error(storage, size, error):
    with pytest.raises(type(error)) as caught:
        _output(storage, "a/file", size, error)
    assert caught.value is error
    assert storage.list() == ()


def test_a_large_file_goes_out_in_parts_and_comes_back_whole(storage):
    content = os.urandom(1 << 20) * 23
    with storage.output("large") as stream:
        for start in range(0, len(content), 700_000):
            stream.write(content[start : start + 700_000])
    assert storage.size("large") == len(content)
    assert storage.read("large") == content
    storage.write("whole", content)
    assert storage.read("whole") == content


def test_an_input_gives_any_range(storage):
    storage.write("file", bytes(range(256)))
    with storage.input("file") as stream:
        assert stream.size() == 256
        stream.seek(250)
        assert stream.read() == bytes(range(250, 256))
        assert stream.read_at(4, 16) == bytes(range(16, 20))
        assert stream.read_at(10, 254) == bytes([254, 255])


def test_a_listing_is_by_path_and_tells_sizes_and_times(storage):
    names = ["b/2", "a", "b/1/z", "B", "c-1", "c/x", "c.x"]
    for name in names:
        storage.write(name, name.encode())
    assert paths_in(storage) == sorted(names)
    assert [file.bytes for file in storage.list()] == [len(name) for name in sorted(names)]
    assert paths_in(storage, "b") == ["b/1/z", "b/2"]
    assert paths_in(storage, "c") == ["c/x"]
    assert storage.list("nowhere") == ()
    age = datetime.now(UTC) - storage.list()[0].modified
    assert abs(age) < timedelta(minutes=5)


def test_a_listing_has_no_end_at_a_thousand_files(storage):
    names = [f"f/{i:04}" for i in range(1005)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: storage.write(name, b"x"), names))
    assert paths_in(storage, "f") == names


def test_a_file_is_deleted_once_and_nothing_is_left_of_its_folder(storage):
    storage.write("a/b/file", b"x")
    storage.delete("a/b/file")
    storage.delete("a/b/file")
    storage.delete("never/there")
    assert storage.list() == ()
    with pytest.raises(NotFound):
        storage.size("a/b/file")


@pytest.mark.parametrize("ask", [Storage.read, Storage.input, Storage.size])
def test_a_missing_file_is_named(storage, ask):
    storage.write("there", b"x")
    with pytest.raises(NotFound) as caught:
        ask(storage, "folder/missing")
    assert caught.value.message == f"no file {storage.locate('folder/missing')}"


@pytest.mark.parametrize("name", ODD)
def test_any_name_will_do(storage, name):
    storage.write(name, b"whole")
    with storage.output(f"out/{name}") as stream:
        stream.write(b"stream")
    assert (storage.read(name), storage.read(f"out/{name}"), storage.size(name)) == (b"whole", b"stream", 5)
    assert paths_in(storage) == sorted([name, f"out/{name}"])
    storage.delete(name)
    assert paths_in(storage) == [f"out/{name}"]


def test_a_folder_below_is_a_storage_of_its_own(storage):
    below = storage.below("table").below("x")
    below.write("file", b"1")
    storage.write("table/xy", b"2")
    assert (paths_in(below), storage.read("table/x/file")) == (["file"], b"1")
    assert below.locate("file") == storage.locate("table/x/file") == f"{storage.root}/table/x/file"


def test_a_storage_goes_to_another_process_without_its_keys(storage):
    storage.write("file", b"x")
    storage.access  # noqa: B018 - finds the keys
    packed = pickle.dumps(storage)
    assert b"testsecret" not in packed
    assert pickle.loads(packed).read("file") == b"x"  # noqa: S301


def test_parquet_files_are_one_dataset(storage):
    for number in (1, 2):
        with storage.output(f"data/{number}.parquet") as stream:
            parquet.write_table(pa.table({"n": [number]}), stream)
    dataset = storage.dataset(["data/1.parquet", "data/2.parquet"])
    assert sorted(dataset.to_table()["n"].to_pylist()) == [1, 2]


def test_a_bucket_itself_can_be_the_root(s3_server, opened):
    bucket = s3_server.new_bucket()
    storage = opened(f"s3://{bucket}")
    storage.write("file", b"x")
    assert (storage.locate("file"), paths_in(storage)) == (f"s3://{bucket}/file", ["file"])
    assert opened(f"s3://{bucket}//").root == storage.root


def test_nothing_of_a_failed_upload_waits_in_the_bucket(s3_server, opened):
    bucket = s3_server.new_bucket()
    with pytest.raises(ValueError, match="no"):
        _output(opened(f"s3://{bucket}/x"), "file", 12_000_000, ValueError("no"))
    assert not s3_server.client("s3").list_multipart_uploads(Bucket=bucket).get("Uploads")


def _output(storage: Storage, path: str, size: int = 1, error: BaseException | None = None) -> None:
    with storage.output(path) as stream:
        stream.write(b"x" * size)
        if error is not None:
            raise error


CALLS: dict[str, Callable[[Storage], object]] = {
    "write": lambda storage: storage.write("file", b"x"),
    "output": lambda storage: _output(storage, "file"),
    "read": lambda storage: storage.read("file"),
    "size": lambda storage: storage.size("file"),
    "list": lambda storage: storage.list(),
    "delete": lambda storage: storage.delete("file"),
    "dataset": lambda storage: storage.dataset(["file"]),
}


def error_of(call: str, storage: Storage) -> StorageError:
    with pytest.raises(StorageError) as caught:
        CALLS[call](storage)
    assert caught.value.hint
    assert "testsecret" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("call", CALLS)
def test_a_bucket_that_is_not_there_is_named(opened, call):
    assert error_of(call, opened("s3://no-such-bucket/x")).message == "no bucket 'no-such-bucket'"


@pytest.mark.servers
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", ["access_key", "secret_key"])
@pytest.mark.parametrize("s3_server", ["versitygw"], indirect=True)
def test_wrong_keys_are_told(s3_server, opened, monkeypatch, call, wrong):
    bucket = s3_server.new_bucket()
    for name, value in dataclasses.replace(s3_server, **{wrong: "wrong"}).environment().items():
        monkeypatch.setenv(name, value)
    # An answer without a body, as to a question for a size, does not say why access is denied.
    assert error_of(call, opened(f"s3://{bucket}")).message in {
        f"S3 does not accept the access keys: s3://{bucket}{'' if call == 'list' else '/file'}",
        f"S3 denies access: s3://{bucket}{'' if call == 'list' else '/file'}",
    }


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_missing_keys_are_told(s3_server, opened, monkeypatch, call):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = error_of(call, opened("s3://some-bucket"))
    assert error.message.startswith("no AWS keys for s3://some-bucket")
    assert "AWS_PROFILE" in error.hint


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_a_server_that_does_not_answer_is_told(s3_server, monkeypatch, call):
    monkeypatch.setattr(s3, "ARROW_TRIES", 1)
    nobody = open_storage("s3://some-bucket", AwsTarget(endpoint_url=f"http://127.0.0.1:{free_port()}"))
    assert error_of(call, nobody).message.startswith("the network failed: no whole answer from S3: s3://some-bucket")


@pytest.mark.parametrize("uri", ["gs://bucket/x", "s3://", "s3:///x", "http://bucket"])
def test_an_address_of_another_kind_is_refused(uri):
    with pytest.raises(InvalidInput):
        open_storage(uri)


@pytest.mark.parametrize(
    "endpoint_url", ["localhost:9000", "s3.example.org", "", "http://", "http://h:x", "http://[::1", "http://h:9/p"]
)
def test_a_server_without_a_scheme_or_host_is_refused(endpoint_url):
    with pytest.raises(InvalidInput, match="endpoint_url is not a valid address"):
        open_storage("s3://bucket", AwsTarget(endpoint_url=endpoint_url))


ARROW = "When reading '{0}': AWS Error {1} during HeadObject operation: said"
UNKNOWN = "UNKNOWN (HTTP status 400)"


@pytest.mark.parametrize(
    ("code", "arrow", "said"),
    [
        ("SlowDown", "SLOW_DOWN", "S3 is too busy"),
        ("503", "UNKNOWN (HTTP status 503)", "S3 is too busy"),
        ("AccessDenied", "ACCESS_DENIED", "S3 denies access"),
        (
            "ExpiredToken",
            f"{UNKNOWN} during x: Unable to parse ExceptionName: ExpiredToken Message:",
            "the AWS keys have",
        ),
        ("InvalidAccessKeyId", "INVALID_ACCESS_KEY_ID", "S3 does not accept the access keys"),
        ("PermanentRedirect", "UNKNOWN (HTTP status 301)", "the bucket is in another region"),
        ("RequestTimeTooSkewed", "REQUEST_TIME_TOO_SKEWED", "S3 does not accept the time of this machine"),
        ("NoSuchBucket", "NO_SUCH_BUCKET", "no bucket 'b'"),
        ("NewCode", "NEW_CODE", "cannot use s3://b/file: "),
    ],
)
def test_each_answer_of_s3_says_what_to_do(code, arrow, said):
    of_boto3 = ClientError({"Error": {"Code": code, "Message": "said"}}, "HeadObject")
    for error in (of_boto3, OSError(ARROW.format("file", arrow))):
        explained = s3_errors.explain_s3(error, "s3://b/file", "b", lambda: None)
        assert isinstance(explained, StorageError)
        assert explained.message.startswith(said)
        assert explained.hint


def test_an_error_that_is_not_of_s3_is_left_alone():
    assert s3_errors.explain_s3(ValueError("no"), "s3://b/file", "b", lambda: None) is None


def test_a_folder_may_be_an_address_too(tmp_path):
    open_storage(f"file://{tmp_path}/x").write("file", b"1")
    assert open_storage(str(tmp_path / "x")).read("file") == b"1"


@pytest.mark.parametrize("endpoint_url", ["http://localhost:9000", "https://s3.example.org/", "http://[::1]:9000"])
def test_a_server_is_a_scheme_a_host_and_a_port(endpoint_url):
    assert open_storage("s3://bucket", AwsTarget(endpoint_url=endpoint_url)).root == "s3://bucket"


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_folder_deletes_nothing_behind_a_link(tmp_path: Path, monkeypatch, has_descriptors: bool):
    monkeypatch.setattr("sleeper_nb.storage.local._HAS_DESCRIPTORS", has_descriptors)  # False as on Windows
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("x")
    storage = Storage(tmp_path / "house")
    storage.write("data/p/a", b"x")
    (tmp_path / "house" / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "house" / "data" / "p" / "one").symlink_to(tmp_path / "mine" / "a")
    assert [file.path for file in storage.list()] == ["data/p/a", "data/p/one"]
    for delete in (partial(storage.delete, "link/a"), partial(storage.delete_all, "link"),
                   partial(storage.delete_all, "link/x")):  # fmt: skip
        with pytest.raises(StorageError, match="is a symbolic link"):
            delete()
    assert not storage.is_settled("link/a", datetime.max.replace(tzinfo=UTC))
    storage.delete("data/p/one")  # the link itself
    storage.delete("data/p/gone")
    storage.delete("nowhere/a")
    storage.delete_all("nowhere")
    storage.delete_all("data")
    assert storage.list() == ()
    assert (tmp_path / "mine" / "a").read_text() == "x"


def test_a_folder_that_is_exchanged_for_a_link_keeps_its_files(tmp_path: Path):
    house = Storage(tmp_path / "house").staying()
    table = house.below("default").below("t")
    table.write("data/a", b"x")
    (tmp_path / "house").rename(tmp_path / "mine")
    (tmp_path / "house").symlink_to(tmp_path / "mine")
    for delete in (partial(table.delete, "data/a"), partial(house.delete_all, "default")):
        with pytest.raises(StorageError, match="its target has changed since it was opened"):
            delete()
    assert table.list() == ()
    assert table.read("data/a") == b"x"
    # as for a worker, whose machine may reach the folder by a link
    elsewhere = pickle.loads(pickle.dumps(table))  # noqa: S301 - made here
    elsewhere.delete("data/a")
    assert not (tmp_path / "mine" / "default" / "t" / "data" / "a").exists()
