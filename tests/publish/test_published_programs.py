"""Random programs of loads, changes of rows, columns and partitions: other engines read what we read, at every version.

PyIceberg reads each published version after each step that publishes; DuckDB too where its extension is installed.
"""

from __future__ import annotations

import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.publish.publish import PublishReport
from sleeper_nb.publish.verify import verify
from sleeper_nb.versions.resolve import resolve
from tests.support.builders import EMBEDDED, START
from tests.support.other_engines import by_duckdb, by_pyiceberg, plain_rows, published_now

KEYS = st.lists(st.integers(0, 60), min_size=1, max_size=8)
NAMES = ("a", "b", "c")
TYPES = {
    "int": "long", "float": "double", "decimal(6,2)": "decimal(9,2)", "string": None, "boolean": None, "date": None,
    "timestamp": None, "tinyint": "smallint", "smallint": "long", "bytearray": None, "time": None, "uuid": None,
    "list<int>": None, "map<string,long>": None, "struct<x:int,y:string?>": None, "list<struct<x:int?>>": None,
}  # fmt: skip
"""The types of columns, and the wider one that Iceberg knows."""
VALUES = {
    "int": -7, "long": 2**40, "float": 0.5, "double": 0.1, "string": "né'%", "boolean": True, "tinyint": -3,
    "smallint": 300, "bytearray": b"\x00\xff", "uuid": "8ddf5a6c-7e8b-4b87-a6a9-0d6c7c1f0a11", "list<int>": [1, None],
    "map<string,long>": [("a", 1), ("b", None)], "struct<x:int,y:string?>": {"x": 1, "y": None},
    "list<struct<x:int?>>": [{"x": None}, {"x": 4}],
    "timestamp": START, "date": START.date(), "time": START.time(),
}  # fmt: skip


class Publishing(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(EMBEDDED), points=st.lists(st.sampled_from((10, 20, 40)), unique=True))
    def create(self, kind: str, points: list[int]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="a b%20"))
        self.session = sl.connect(self.folder)
        schema = sl.Schema({"k": "int", "s": "string"}, {}, {"v": "long?", "at": "timestamp?"})
        self.table = self.session.create_table("t", schema, split_points=sorted(points), state_store=kind)
        self.store = self.table._store
        self.report: PublishReport | None = None
        self.at: dict[str, int] = {}
        self.count = 0

    def state(self) -> Any:
        return self.store.load()

    def rows(self, keys: list[int], *, empty: bool) -> pa.Table:
        fields = self.state().schema.fields
        self.count += 1
        columns = []
        for field in fields:
            if field.name == "k":
                values: list[Any] = keys
            elif field.name == "s":
                values = [f"{key % 3}" for key in keys]
            else:
                value = None if empty else self._value(str(field.type))
                values = [value if place % 2 else None for place in range(len(keys))]
            columns.append(pa.array(values, field.type.arrow))
        return pa.table(columns, names=[field.name for field in fields])

    def _value(self, kind: str) -> Any:
        if kind.startswith("decimal"):
            return Decimal("1.25")
        return self.count if kind == "long" else VALUES[kind]

    @rule(keys=KEYS, empty=st.booleans())
    def load(self, keys: list[int], empty: bool) -> None:
        self.table.ingest(self.rows(keys, empty=empty))

    @rule(low=st.integers(0, 60), width=st.integers(0, 20))
    def delete(self, low: int, width: int) -> None:
        self.table.delete(f"k BETWEEN {low} AND {low + width}")

    @rule(low=st.integers(0, 60), value=st.integers(0, 9))
    def update(self, low: int, value: int) -> None:
        self.table.update({"v": str(value)}, f"k >= {low} AND k < {low + 5}")

    @rule(
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(sorted(TYPES)),
        to=st.sampled_from(NAMES),
        how=st.integers(0, 2),
    )
    def alter(self, name: str, kind: str, to: str, how: int) -> None:
        fields = {field.name: field for field in self.state().schema.values}
        if name not in fields:
            self.table.alter(add_columns={name: f"{kind}?"})
        elif how == 0:
            self.table.alter(drop_columns=[name])
        elif how == 1 and to not in fields:
            self.table.alter(rename_columns={name: to})
        elif wider := TYPES.get(str(fields[name].type)):
            self.table.alter(types={name: wider})
        elif str(fields[name].type) == "struct<x:int,y:string?>":
            self.table.alter(types={f"{name}.x": "long"}, add_columns={f"{name}.z": "date?"})

    @rule(at=st.integers(1, 59))
    def split(self, at: int) -> None:
        try:
            self.table.maintenance.split(at=at)
        except InvalidInput:
            return

    @rule()
    def compact(self) -> None:
        self.table.maintenance.compact("all")

    @rule(pick=st.integers(0, 99))
    def compact_one_leaf(self, pick: int) -> None:
        leaves = self.state().tree.leaves
        self.table.maintenance.compact("all", partition=leaves[pick % len(leaves)].id)

    @rule(pick=st.integers(0, 99))
    def roll_back(self, pick: int) -> None:
        try:
            self.table.rollback(1 + pick % self.store.head().id)
        except InvalidInput:  # columns were dropped that the rows need
            return

    @rule()
    def save(self) -> None:
        self.count += 1
        self.table.create_savepoint(f"p{self.count}")

    @rule(pick=st.none() | st.integers(0, 99))
    def publish(self, pick: int | None) -> None:
        number = self.store.head().id if pick is None else 1 + pick % self.store.head().id
        version = resolve(self.store.catalog, self.store.table_id, "t", SnapshotReference(number)).version
        report = published_now(self.store, version)
        self._compare(report.address, number, number)
        self._compare(report.address, None, report.main)
        for saved in report.tags.values():
            self._compare(report.address, saved, saved)
        assert verify(self.store) == ()
        again = published_now(self.store, version)
        assert again.is_nothing
        assert again.metadata == report.metadata

    def _compare(self, address: str, snapshot_id: int | None, number: int) -> None:
        own = self.table.at(number).scan().to_arrow()
        expected = plain_rows(own, own.schema)
        assert plain_rows(by_pyiceberg(address, snapshot_id), own.schema) == expected
        by_other = by_duckdb(address, str(self.folder / "answer.parquet"), snapshot_id)
        if by_other is not None:
            assert plain_rows(by_other, own.schema) == expected

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            shutil.rmtree(self.folder)


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(stateful_step_count=20)
