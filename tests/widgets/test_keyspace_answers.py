"""Key space as the page is answered: leaves and files as lists, what is to be merged, and the exact keys of a leaf."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.model.file_reference import files_schema
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.keyspace_answers import KeySpace, KeySpaceAnswers
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.request_lanes import RequestLanes
from sleeper_nb.widgets.row_grid_query import ColumnFilter, GridQuery
from tests.support.builders import a_state


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path / "w") as opened:
        schema = sl.Schema({"carrier": "string", "flight": "int"}, values={"note": "string?"})
        table = opened.create_table("flights", schema, ["DL", "UA"])
        for begin in (0, 10, 20):
            table.ingest(
                [{"carrier": c, "flight": begin + n, "note": "x"} for c in ("AA", "DL", "UA") for n in range(10)]
            )
        yield opened


def spaces(session, version, table="flights"):
    """Return all answers to one request, as they go to the page."""
    asked, sent = {"id": 1, "topic": "", "do": "keyspace", "table": table, "version": version}, []
    methods = {"keyspace": KeySpaceAnswers(OpenTables(session)).keyspace}
    RequestLanes(methods, sent.append, background=lambda work: work()).take(asked)
    return [json.loads(json.dumps(each["part"] if "part" in each else each["ok"])) for each in sent]


def filters_of(session, table, version):
    """Return the filters of each leaf, in key order."""
    answers, ids = KeySpaceAnswers(OpenTables(session)), spaces(session, version, table)[0]["leaves"]["id"]
    return [answers.leaf({"table": table, "version": version, "leaf": each}, Watch())["filters"] for each in ids]


def test_leaves_and_files_are_those_of_the_listings(session):
    space = spaces(session, 3)[0]
    leaves, at = space["leaves"], session.table("flights").at(3)
    listed = at.inspect.partitions().to_dict()
    assert (space["version"], space["line"]) == (3, "%sleeper partitions flights@3")
    assert leaves["id"] == listed["partition"]
    assert leaves["range"] == ["carrier before DL", "carrier DL to UA", "carrier UA and after"]
    assert leaves["low"] == ["", "DL", "UA"]
    assert (leaves["rows"], leaves["files"]) == (listed["rows"], listed["files"])
    assert leaves["bytes"] == [each.count for each in listed["bytes"]]
    files = space["files"]
    assert set(files["name"]) == set(at.inspect.files().to_dict()["file"])
    assert (files["first"], files["last"]) == ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2])
    assert len({len(each) for each in files.values()}) == 1


def test_what_a_compaction_would_merge_comes_after_the_leaves(session):
    table = session.table("flights")
    settings = {"strategy.class": "basic", "files.batch.size": "3"}
    table.set_properties({f"sleeper.table.compaction.{name}": value for name, value in settings.items()})
    first, whole = spaces(session, 4)
    plan = table.maintenance.compact(dry_run=True)
    assert (first["jobs"], set(first["files"]["job"])) == ([], {-1})
    assert len(whole["jobs"]) == len(plan.jobs) == 3
    for number, job in enumerate(whole["jobs"]):
        merged = [name for name, of in zip(whole["files"]["name"], whole["files"]["job"], strict=True) if of == number]
        assert set(merged) == {name.rpartition("/")[2] for name in plan.jobs[number].filenames}
        assert (job["leaf"], job["files"]) == (number, 3)
    assert len(spaces(session, 3)) == 1  # nothing is merged in an older version


def test_deleted_rows_and_files_out_of_use_are_counted(session):
    table = session.table("flights")
    table.delete("flight = 3")
    space = spaces(session, 5)[-1]
    assert sum(space["leaves"]["rows"]) == 87


def test_a_file_of_several_leaves_is_listed_once(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, values={}))
        table.ingest([{"k": k} for k in range(100)])
        for point in (40, 80):
            table.maintenance.split(at=point)
        space = spaces(session, table.history()[0].id, "t")[0]
    assert (space["files"]["first"], space["files"]["last"]) == ([0], [2])
    assert space["leaves"]["range"] == ["k before 40", "k 40 to 80", "k 80 and after"]


def test_a_table_without_splits_is_one_leaf_of_every_key(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        session.create_table("new", sl.Schema({"k": "int"}, values={}))
        space = spaces(session, 1, "new")[0]
        assert (space["leaves"]["range"], space["leaves"]["low"]) == (["every key"], [""])
        assert (space["leaves"]["rows"], space["files"]["name"], space["jobs"]) == ([0], [], [])
        assert filters_of(session, "new", 1) == [[]]


KEYS = {
    "string": ["", "a'b\0\n", "zz, top .. > 5", "\U0001f600"],
    "int": [-5, 0, 7],
    "bytearray": [b"\x00\xff", b"\xff\xfe"],
    "date": [date(1, 1, 2), date(2026, 2, 3)],
    "timestamp": [datetime(2026, 1, 1, 2, 3, 4, 567891, tzinfo=UTC)],
}


@pytest.mark.parametrize("kind", KEYS)
def test_the_filters_of_a_leaf_find_just_its_rows(tmp_path, kind):
    points = [each for each in KEYS[kind] if each not in {"", b""}]
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": kind}, values={}), points)
        table.ingest([{"k": each} for each in KEYS[kind]])
        at, found = table.at(2), filters_of(session, "t", 2)
        rows = OpenTables(session).rows("t", 2)
        key = at.schema.row_keys[0]
        for leaf, filters in zip(at.state.tree.leaves, found, strict=True):
            (each,) = json.loads(json.dumps(filters))
            chosen = ColumnFilter.of_keys(key, each["low"], each["high"])
            region = leaf.region.ranges[0]
            assert chosen.values == (region.min, region.max)
            expected = [value for value in KEYS[kind] if value in region]
            assert count_of(rows, chosen) == len(expected)


def count_of(rows, chosen):
    return rows.page(GridQuery(filters=(chosen,)), Watch()).total


def test_a_leaf_of_two_keys_has_a_filter_for_each_that_bounds_it(session):
    table = session.table("flights")
    table.maintenance.split(at=15, key="flight", partition=table.at().state.tree.leaves[1].id)
    assert filters_of(session, "flights", table.history()[0].id)[1] == [
        {"column": "carrier", "low": "DL", "high": "UA"},
        {"column": "flight", "low": None, "high": "15"},
    ]


def test_a_leaf_that_the_version_does_not_have_is_refused(session):
    with pytest.raises(sl.NotFound, match="no leaf partition 'nothing'"):
        KeySpaceAnswers(OpenTables(session)).leaf({"table": "flights", "version": 3, "leaf": "nothing"}, Watch())


def large_state(leaves, files):
    """Return a state of so many leaves, each below the next, and files of about one leaf each."""
    schema = sl.Schema({"k": "string", "n": "int"}, values={})
    ends = [None, *(f"key{number:07}" for number in range(1, leaves)), None]
    partitions = [Partition("root", Region.whole(schema), None, tuple(f"leaf{n}" for n in range(leaves)), 0)]
    partitions += [Partition(f"leaf{n}", Region((Range(ends[n], ends[n + 1]), Range())), "root") for n in range(leaves)]
    columns = {}
    for field in files_schema(schema):
        values = {
            "filename": [f"data/partition/{number:032x}.parquet" for number in range(files)],
            "partition_id": sorted(f"leaf{number % leaves}" for number in range(files)),
            "status": ["ACTIVE"] * files,
        }.get(field.name)
        if values is None and not field.nullable and pa.types.is_integer(field.type):
            values = np.arange(files) % 1000
        columns[field.name] = pa.array(values, field.type) if values is not None else filler(field, files)
    references = FileReferences.of(pa.table(columns, schema=files_schema(schema)))
    return replace(a_state(schema=schema), tree=PartitionTree(tuple(partitions)), files=references)


def filler(field, files):
    if field.nullable and not pa.types.is_boolean(field.type):
        return pa.nulls(files, field.type)
    value = True if pa.types.is_boolean(field.type) else datetime(2026, 1, 1, tzinfo=UTC)
    return pa.array([value] * files, field.type)


def test_fifty_thousand_leaves_and_a_hundred_thousand_files_are_answered_whole():
    state = large_state(50_000, 100_000)
    space = KeySpace(state).columns()
    assert [len(each) for each in space["leaves"].values()] == [50_000] * 6
    assert len(space["files"]["name"]) == 100_000
    assert space["leaves"]["range"][1] == "k key0000001 to key0000002"
