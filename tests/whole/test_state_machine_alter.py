"""Columns that come, go and change their names between loads, compactions and rollbacks, against plain dictionaries.

A column of the model has a token that never changes; every version knows which name each token had.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sleeper_nb.admin.alter import alter
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.model.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaAlteration,
    mapped,
)
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.model.state import TableState
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.builders import (
    EMBEDDED,
    a_store,
    compact,
    condition,
    ingest,
    reopened,
    split,
)

NAMES = ("a", "b", "c", "a__2")
Row = Mapping[int, int]
"""The values of a row by their tokens; the key is under 0."""


class Altering(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(EMBEDDED))
    def create(self, kind: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = a_store(self.folder, Schema({"k": "int"}, {}, {"a": "int?"}), [40], kind=kind)
        self.columns, self.rows, self.next = {1: "a"}, [], 2
        self.history: dict[int, tuple[dict[int, str], list[Row]]] = {}
        self.note()

    def note(self) -> None:
        self.history[self.store.head().id] = dict(self.columns), list(self.rows)

    def new_value(self) -> int:
        self.next += 1
        return self.next

    @rule(keys=st.lists(st.integers(0, 80), min_size=1, max_size=4), empty=st.booleans())
    def load(self, keys: list[int], empty: bool) -> None:
        rows = [{0: key, **({} if empty else {token: self.new_value() for token in self.columns})} for key in keys]
        named = {0: "k", **self.columns}
        ingest(self.store, [{name: row.get(token) for token, name in named.items()} for row in rows])
        self.rows = [*self.rows, *rows]
        self.note()

    @rule(name=st.sampled_from(NAMES), to=st.sampled_from(NAMES), drop=st.booleans())
    def alter(self, name: str, to: str, drop: bool) -> None:
        token = next((token for token, known in self.columns.items() if known == name), None)
        change: SchemaAlteration
        if token is None:
            change = AddColumn(Field(name, FieldType("int"), nullable=True))
            columns = {**self.columns, self.new_value(): name}
        elif drop:
            change = DropColumn(name)
            columns = {known: text for known, text in self.columns.items() if known != token}
        elif to not in self.columns.values():
            change = RenameColumn(name, to)
            columns = {**self.columns, token: to}
        else:
            return
        alter(self.store, "table", [change], NOTHING, dry_run=False)
        self.columns = columns
        self.note()

    @rule(splits=st.booleans())
    def tidy(self, splits: bool) -> None:
        before = self.store.head().id
        if splits:
            split(self.store, 4)
        else:
            compact(self.store)
        for number in range(before + 1, self.store.head().id + 1):
            self.history[number] = dict(self.columns), list(self.rows)

    @rule(pick=st.integers(0, 99))
    def roll_back(self, pick: int) -> None:
        number = 1 + pick % self.store.head().id
        to = resolve(self.store.catalog, self.store.table_id, "table", SnapshotReference(number))
        if roll_back(self.store, to, dry_run=False).snapshot is not None:
            self.rows = self.history[number][1]
            self.note()

    @rule()
    def reopen(self) -> None:
        self.store = reopened(self.store)

    @invariant()
    def the_table_is_what_the_model_says(self) -> None:
        if hasattr(self, "store"):
            state = reopened(self.store).load()
            self.hold(state, self.columns, self.rows)

    @rule(pick=st.integers(0, 99))
    def read_an_old_version(self, pick: int) -> None:
        number = 1 + pick % self.store.head().id
        columns, rows = self.history[number]
        (version,) = (s for s in self.store.catalog.snapshots(self.store.table_id) if s.id == number)
        state = reopened(self.store).load(version)
        self.hold(state, columns, rows)
        self.hold(
            replace(state, schema=mapped(state.schema, self.store.load().schema)), self.columns, rows, then=columns
        )

    def hold(
        self, state: TableState, columns: dict[int, str], rows: list[Row], then: Mapping[int, str] | None = None
    ) -> None:
        """Hold that a state has rows: `columns` in their order, null what a version had no column for `then`."""
        known = columns if then is None else then
        tokens = [0, *columns]
        expected = [tuple(row.get(t) if t == 0 or t in known else None for t in tokens) for row in rows]
        plan, storage = plan_scan(state), self.store.storage
        assert plan.schema.names == ("k", *columns.values())
        found = reading.read(plan, storage)
        assert in_order(tuple(row.values()) for row in found.to_pylist()) == in_order(expected)
        assert in_order(relations.relation(Database().connect(), plan, storage).fetchall()) == in_order(expected)
        for name, place in zip(columns.values(), range(1, 9), strict=False):
            kept = reading.read(plan, storage, where=condition(f"{name} > 20 OR {name} IS NULL", plan.schema)).num_rows
            assert kept == sum(row[place] is None or row[place] > 20 for row in expected)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.catalog.close()
            shutil.rmtree(self.folder)


def in_order(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


TestAltering = Altering.TestCase
TestAltering.settings = settings(
    settings.default, max_examples=max(5, settings.default.max_examples // 10), stateful_step_count=12
)
