"""The page of costs says of 10 files what the code does today; its server in memory behaves as S3 does."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

import sleeper_nb as sl
from benchmarks.request_costs import (
    MONTH,
    PAGE,
    SIZES,
    STORES,
    WORK,
    Bench,
    CountedDynamoDB,
    Prices,
    Used,
    first_leaf,
    measured,
    month_of,
    prepared,
    row_of,
    rows,
)
from tests.servers.memory import MemoryDynamoDB
from tests.servers.memory_s3 import memory_s3

TEXT = PAGE.read_text(encoding="utf-8")


def of_page(kind: str, files: int) -> dict[str, list[str]]:
    """Return the cells of each kind of work on the page."""
    _, _, section = TEXT.partition(f"## `{kind}`, {files:,} files\n")
    rows = re.findall(r"^\| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return {cells[0]: cells[1:] for cells in (row.split(" | ") for row in rows) if cells[0] in WORK}


def counts(cells: list[str]) -> list[str]:
    """Return the numbers of requests, without bytes, which depend on random ids, and units, which depend on bytes."""
    return [cells[0], cells[1], cells[4]]


VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED",
             "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")  # fmt: skip


@contextlib.contextmanager
def counted_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[sl.Session, Bench]]:
    """Open the table of ten files of the benchmark."""
    with memory_s3() as (s3, server):
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        bench = Bench(s3, CountedDynamoDB(MemoryDynamoDB(page=4000)), server.endpoint_url)
        prepared(bench, kind, SIZES[0], 2)
        with bench.session() as session:
            yield session, bench


@pytest.mark.parametrize("kind", STORES)
def test_the_page_says_what_work_on_ten_files_asks_for(kind: str, monkeypatch: pytest.MonkeyPatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the benchmark sets is gone afterwards
    found, told = measured(kind, SIZES[0]), of_page(kind, SIZES[0])
    now = {name: counts(row_of(name, used).strip("| ").split(" | ")[1:]) for name, used in found.items()}
    assert {name: counts(cells) for name, cells in told.items()} == now, (
        "the requests changed: run python -m docs.regenerate costs"
    )


@pytest.mark.parametrize("kind", STORES)
def test_each_size_and_work_has_a_row(kind: str):
    for files in SIZES:
        assert list(of_page(kind, files)) == list(WORK)


def test_a_month_is_priced_by_its_parts():
    used = dict.fromkeys(MONTH, Used(2, 5, 0, 0, 0, 3, 4))
    times = sum(number for _, number in MONTH.values())
    each = 2 * 0.005 / 1e3 + 5 * 0.0004 / 1e3 + 3 * 0.625 / 1e6 + 4 * 0.125 / 1e6
    assert month_of(used, Prices()) == pytest.approx(each * times)


def test_the_server_in_memory_counts_kinds_and_bytes():
    with memory_s3() as (s3, server):
        client = server.client("s3")
        client.put_object(Bucket="b", Key="folder/a", Body=b"12345")
        assert client.get_object(Bucket="b", Key="folder/a", Range="bytes=1-2")["Body"].read() == b"23"
        with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
            client.put_object(Bucket="b", Key="folder/a", Body=b"x", IfNoneMatch="*")
        client.put_object(Bucket="b", Key="z & more", Body=b"")
        listed = client.list_objects_v2(Bucket="b", Delimiter="/")
        assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["folder/"]
        assert [each["Key"] for each in listed["Contents"]] == ["z & more"]
        asked = s3.take()
        assert dict(asked.counts) == {"PUT": 3, "GET": 1, "LIST": 1}
        assert asked.sent == 5
        client.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "folder/a"}]})
        assert list(s3.objects) == ["b/z & more"]


NEAR = 0.35
"""How far an estimate may be from what is counted, as a part of it."""


def near(told: int, counted: float) -> bool:
    """Whether an estimate says about what was counted; of few requests, one or two more or less."""
    return abs(told - counted) <= max(2, NEAR * counted)


@pytest.mark.parametrize("kind", STORES)
def test_dry_runs_say_about_what_the_work_then_asks(kind: str, monkeypatch: pytest.MonkeyPatch):
    with counted_table(kind, monkeypatch) as (session, bench):
        table = session.table("t")
        merged = table.maintenance.compact(
            "all", engine="local", partition=first_leaf(table._store.load()).id, dry_run=True
        )
        plans = {
            "query of a key, again": session.sql("SELECT * FROM t WHERE key = 5").cost(),
            "ingest": table.ingest(rows(20_000), dry_run=True).plan,
            "compaction": merged,
            "change of rows": table.update({"value": "'changed'"}, "key = 5", dry_run=True),
        }
        for name, plan in plans.items():
            bench.used()
            WORK[name](session)
            used, told = bench.used(), plan.requests
            assert near(told.puts, used.puts), (name, told, used)
            assert near(told.gets, used.gets), (name, told, used)
            assert near(told.write_units, used.write_units), (name, told, used)
            assert near(told.read_units, used.read_units), (name, told, used)
            assert str(told) in repr(plan)


def test_a_folder_has_no_requests_to_tell(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"key": "long"}))
        table.ingest([{"key": 1}])
        table.ingest([{"key": 2}])
        plans = (table.ingest([{"key": 3}], dry_run=True).plan, table.maintenance.compact("all", dry_run=True),
                 table.delete("key = 1", dry_run=True), session.sql("SELECT * FROM t").cost())  # fmt: skip
        assert [plan.requests for plan in plans] == [None] * 4
        assert not any("PUT" in repr(plan) for plan in plans)
