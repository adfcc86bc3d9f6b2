"""Random programs of every operation that a session and a table have, against a model of plain rows.

After each step every version that is retained or saved is read and compared. ``--hypothesis-profile=nightly`` runs
more and longer programs.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS
from sleeper_nb.model.snapshots import SavepointReference, SnapshotReference
from sleeper_nb.table.table_maintenance import Maintenance
from tests.support.builders import EMBEDDED, START
from tests.support.value_pools import KEYS
from tests.whole.program_inputs import INPUTS
from tests.whole.program_model import (
    COMPARED,
    POOLS,
    SUMMED,
    Column,
    Named,
    Processing,
    Role,
    TableModel,
    Version,
    counted,
    plain,
    schema_of,
)

NAMES = ("trips", "flights")
FREE_COLUMNS = ("extra", "note", "v0", "v1")
picks = st.integers(0, 9)
which = st.integers(0, 1)

READS = {
    "session": {
        "admin", "closed", "doctor", "duckdb_connection", "explore", "inspect", "location", "properties",
        "spark_session", "status", "table_names", "tables", "warehouse",
    },
    "table": {
        "append", "describe", "explore", "grid", "inspect", "profile", "properties", "publish", "savepoint_manager",
        "savepoints", "schema", "timeline", "to_dict", "unpublish",
    },
    "maintenance": {"purge"},  # takes versions away, which the model keeps: test_purged_tables.py is about it
}  # fmt: skip
"""Members that change nothing, and what `Session.sql` calls; programs may leave them out."""


def columns(types: Sequence[str], role: Role, prefix: str, first: int) -> Iterator[Column]:
    """Yield columns of these types; a trailing ``?`` means that nulls are allowed."""
    for place, kind in enumerate(types):
        yield Column(first + place, f"{prefix}{place}", kind.rstrip("?"), role, kind.endswith("?"))


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Column, ...], bool]:
    """One or two row keys, perhaps a sort key, and up to three values; and whether the values can be combined."""

    def some(types: Sequence[str], least: int, most: int) -> list[str]:
        return draw(st.lists(st.sampled_from(types), min_size=least, max_size=most))

    summed = draw(st.booleans())
    of_values = [*SUMMED, *COMPARED] if summed else [f"{kind}?" for kind in POOLS] + list(POOLS)
    made = (
        *columns(some(sorted(KEYS), 1, 2), "row", "k", 0),
        *columns(some(sorted(KEYS), 0, 1), "sort", "s", 10),
        *columns(some(of_values, 0, 3), "value", "v", 20),
    )
    return made, summed


class Programs(RuleBasedStateMachine):
    """Two sessions on one warehouse, and beside them what each table must be."""

    spark: SparkSession | None = None

    @initialize(seed=st.integers(0, 2**31))
    def open(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START, seed)
        self.sessions = [self.connect(), self.connect()]
        self.tables: dict[str, TableModel] = {}
        self.turn = self.files = 0

    def connect(self) -> sl.Session:
        return sl.connect(
            self.folder / "w", clock=self.clock, spark=self.spark, properties={"sleeper.storage.sync": "false"}
        )

    # What a step works on.

    def session(self, who: int) -> sl.Session:
        self.clock.advance(timedelta(seconds=1))
        return self.sessions[who]

    def model(self, pick: int) -> TableModel:
        return self.tables[sorted(self.tables)[pick % len(self.tables)]]

    def version_of(self, model: TableModel, pick: int) -> int:
        return model.kept[pick % len(model.kept)]

    def reference(self, model: TableModel, number: int) -> int | str:
        """Return what names a version, by a savepoint when its snapshot has expired."""
        if number in model.retained:
            return number
        return next(f"savepoint.{point}" for point, saved in model.savepoints.items() if saved == number)

    def new_folder(self) -> Path:
        self.files += 1
        made = self.folder / f"files-{self.files}"
        made.mkdir()
        return made

    def committed(self, model: TableModel, table: sl.Table, **changes: Any) -> None:
        """Note that an operation made one version."""
        snapshot = table.history()[0]
        assert snapshot.id == model.head + 1
        model.commit(snapshot.time, **changes)

    def caught_up(self, model: TableModel, table: sl.Table, **changes: Any) -> None:
        """Note the versions that an operation made; ids have no gaps, and all have the rows of now."""
        for number in range(model.head + 1, table.at().resolved.snapshot_id + 1):
            time = next((s.time for s in table.history() if s.id == number), self.clock.now())
            model.commit(time, **changes)

    @contextmanager
    def refused(self, model: TableModel, table: sl.Table, *errors: type[Exception]) -> Iterator[None]:
        """Hold that what is done is refused, and changes nothing."""
        with pytest.raises(errors):
            yield
        assert table.at().resolved.snapshot_id == model.head

    # Tables.

    @precondition(lambda self: len(self.tables) < len(NAMES))
    @rule(
        who=which, of=tables(), data=st.data(), kind=st.sampled_from(EMBEDDED),
        strategy=st.sampled_from(["one_file_per_leaf", "one_reference_per_leaf"]),
        rows=st.sampled_from(["1", "3", "100000"]), declared=st.booleans(),
    )  # fmt: skip
    def create_table(
        self, who: int, of: tuple[tuple[Column, ...], bool], data: st.DataObject, kind: str, strategy: str, rows: str,
        declared: bool,
    ) -> None:  # fmt: skip
        made, summed = of
        name = next(name for name in NAMES if name not in self.tables)
        points = sorted(data.draw(st.sets(st.sampled_from(KEYS[made[0].kind][1:]), max_size=2)))
        properties = {
            "sleeper.table.ingest.file.writing.strategy": strategy,
            "sleeper.table.parquet.rowgroup.rows.max": rows,
            "sleeper.table.statestore.classname": kind,
        }
        if declared:
            self.session(who).admin.apply({"tables": {name: {**self.declaration(made), "properties": properties}}})
        else:
            self.session(who).create_table(name, schema_of(made), points, properties=properties)
        table = self.session(who).table(name)
        self.tables[name] = TableModel(name, summed, {1: Version(made, (), table.history()[0].time)}, properties)

    def declaration(self, of: Sequence[Column]) -> dict[str, Any]:
        parts = {"row-keys": "row", "sort-keys": "sort", "values": "value"}
        return {part: {c.name: c.text for c in of if c.role == role} for part, role in parts.items()}

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, least=st.integers(2, 12))
    def apply(self, who: int, pick: int, least: int) -> None:
        model, session = self.model(pick), self.session(who)
        change = {"snapshot.num-retained.min": str(least)}
        declared = {"tables": {model.name: {**self.declaration(model.now.columns), "properties": change}}}
        session.admin.apply(declared, dry_run=True)
        session.admin.apply(declared)
        model.properties |= change

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, again=st.booleans())
    def delete_table(self, who: int, pick: int, again: bool) -> None:
        model, session = self.model(pick), self.session(who)
        if not again and model.head < 8:
            return
        assert session.drop_table(model.name, dry_run=True).dry_run
        with pytest.raises(sl.ConfirmationNeeded):
            session.drop_table(model.name)
        session.drop_table(model.name, force=True)
        del self.tables[model.name]
        for each in self.sessions:
            with pytest.raises(sl.NotFound):
                each.table(model.name)
        assert not any(table.name == model.name for table in session.tables())

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def rename_table(self, who: int, pick: int) -> None:
        model = self.model(pick)
        name = next(name for name in ("Renamed", "other", *NAMES) if name not in self.tables)
        self.session(who).rename_table(model.name, name)
        del self.tables[model.name]
        model.name = name
        self.tables[name] = model

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, to=st.sampled_from(EMBEDDED))
    def migrate_state_store(self, who: int, pick: int, to: str) -> None:
        model, session = self.model(pick), self.session(who)
        table = session.table(model.name)
        if table._store.head().state_store == to:
            with self.refused(model, table, sl.InvalidInput):
                session.admin.migrate(model.name, to)
            return
        session.admin.migrate(model.name, to)
        self.committed(model, table)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, points=st.none() | st.integers(0, 2))
    def reinitialise_table(self, who: int, pick: int, points: int | None) -> None:
        model, session = self.model(pick), self.session(who)
        if model.head < 5:
            return
        options: dict[str, Any] = {}
        if points is not None:
            values = sorted(KEYS[model.now.columns[0].kind][1 : 1 + points])
            options = {"delete_partitions": True, "split_points": values}
        plan = session.admin.reinitialise(model.name, **options, dry_run=True)
        with pytest.raises(sl.ConfirmationNeeded):
            session.admin.reinitialise(model.name, **options)
        done = session.admin.reinitialise(model.name, **options, force=True)
        assert (plan.rows, plan.snapshots) == (done.rows, done.snapshots)
        if done.snapshot is not None:
            self.committed(model, session.table(model.name), rows=(), baked=False)
        model.retained = {model.head}

    # Rows.

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data(), form=st.sampled_from(sorted(INPUTS)), job=st.none() | picks)
    def ingest(self, who: int, pick: int, data: st.DataObject, form: str, job: int | None) -> None:
        model = self.model(pick)
        given, source = self.drawn_input(model, data, form)
        table = self.session(who).table(model.name)
        job_id = None if job is None else f"job-{job}"
        assert table.ingest(source, dry_run=True).rows == len(given)
        table.ingest(source, job_id=job_id)
        self.note_load(model, table, given, job_id)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data(), form=st.sampled_from(sorted(INPUTS)))
    def ingest_again(self, who: int, pick: int, data: st.DataObject, form: str) -> None:
        """Loads are what most programs do most."""
        self.ingest(who, pick, data, form, None)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data(), form=st.sampled_from(["Parquet", "CSV", "JSON"]))
    def watch_folder(self, who: int, pick: int, data: st.DataObject, form: str) -> None:
        """The second watch finds nothing new."""
        model = self.model(pick)
        given, file = self.drawn_input(model, data, form)
        table = self.session(who).table(model.name)
        for _ in range(2):
            table.watch(file.parent, once=True, job_id=file.parent.name)
        self.note_load(model, table, given, f"{file.parent.name}/{file.name}")

    def drawn_input(self, model: TableModel, data: st.DataObject, form: str) -> tuple[list[dict[int, Any]], Any]:
        """Rows by the tokens of their columns, and what has them to load."""
        given = self.drawn_rows(model, data)
        names = {column.token: column.name for column in model.now.columns}
        named = [{names[token]: value for token, value in row.items()} for row in given]
        return given, INPUTS[form](named, schema_of(model.now.columns), self.new_folder())

    def drawn_rows(self, model: TableModel, data: st.DataObject) -> list[dict[int, Any]]:
        values = {column.token: st.sampled_from(model.pool(column)) for column in model.now.columns}
        return data.draw(st.lists(st.fixed_dictionaries(values), max_size=6))

    def note_load(self, model: TableModel, table: sl.Table, rows: Sequence[Any], job_id: str | None = None) -> None:
        if not rows or job_id in model.jobs:
            assert table.at().resolved.snapshot_id == model.head
            self.note_periodic(model, table)  # a load that adds nothing makes the savepoint that is due, too
            return
        model.jobs |= {job_id} - {None}  # type: ignore[arg-type]
        self.committed(model, table, rows=(*model.now.rows, *rows))
        self.note_periodic(model, table)

    # Rows that change.

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data(), by=st.sampled_from(["method", "sql", "keys"]))
    def delete_rows(self, who: int, pick: int, data: st.DataObject, by: str) -> None:
        model, table = self.changed_table(who, pick)
        column = model.now.columns[0]
        value = data.draw(st.sampled_from(model.pool(column)))
        where, params = f'"{column.name}" = :value', {"value": value}
        statement = f"DELETE FROM {model.name} WHERE {where}"

        def delete(**options: Any) -> Any:
            if by == "keys":
                return table.overwrite(schema_of(model.now.columns).arrow.empty_table(), keys=[value], **options)
            if by == "method":
                return table.delete(where, params=params, **options)
            return self.sessions[who].sql(statement, engine="duckdb", params=params, **options)

        if not model.now.processing.is_nothing:
            with self.refused(model, table, sl.InvalidInput):
                delete()
            return
        planned = delete(dry_run=True)
        kept = [row for row in model.now.rows if plain(row[column.token]) != plain(value)]
        self.note_change(model, table, planned, delete(), kept, deleted=len(model.now.rows) - len(kept))

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data())
    def update(self, who: int, pick: int, data: st.DataObject) -> None:
        model, table = self.changed_table(who, pick)
        values = [each for each in model.now.columns if each.kind in {"int", "long", "string", "boolean"}]
        if not values or not model.now.processing.is_nothing:
            return
        of, column = model.now.columns[0], data.draw(st.sampled_from(values))
        value, new = data.draw(st.sampled_from(model.pool(of))), data.draw(st.sampled_from(model.pool(column)))
        options: dict[str, Any] = {"new_values": {column.name: new}, "params": {"value": value}}
        planned = table.update(where=f'"{of.name}" = :value', dry_run=True, **options)
        done = table.update(where=f'"{of.name}" = :value', **options)
        met = [plain(row[of.token]) == plain(value) for row in model.now.rows]
        rows = [{**row, column.token: new} if is_met else row for row, is_met in zip(model.now.rows, met, strict=True)]
        self.note_change(model, table, planned, done, rows, updated=sum(met))

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data(), how=st.sampled_from(["upsert", "delete", "replace"]))
    def upsert_or_merge(self, who: int, pick: int, data: st.DataObject, how: str) -> None:
        """Update rows of new keys, delete them, or replace all rows; each as a job that runs twice and changes once."""
        model, table = self.changed_table(who, pick)
        if not model.now.processing.is_nothing or model.now.baked:
            return
        keys = [each.token for each in model.now.columns if each.role == "row"]
        new = {tuple(plain(row[key]) for key in keys): row for row in self.drawn_rows(model, data)}
        names = {column.token: column.name for column in model.now.columns}
        on = [names[key] for key in keys]
        named = [{names[token]: value for token, value in row.items()} for row in new.values()]
        source = pa.Table.from_pylist(named, schema_of(model.now.columns).arrow)

        model.next_token += 1
        job = f"change-{model.next_token}"

        def change(**options: Any) -> Any:
            if how == "upsert":
                return table.upsert(source, on=on, **options)
            merge = table.merge(source, on).when_not_matched_insert_all()
            if how == "delete":
                return merge.when_matched_delete().execute(**options)
            return merge.when_matched_update_all().when_not_matched_by_source_delete().execute(**options)

        planned, done = change(dry_run=True), change(job_id=job)
        change(job_id=job)
        old = [(row, new.get(tuple(plain(row[key]) for key in keys))) for row in model.now.rows]
        met = {tuple(plain(row[key]) for key in keys) for row, other in old if other is not None}
        matched = sum(other is not None for _, other in old)
        left = {"upsert": old, "delete": [each for each in old if each[1] is None]}
        rows = [{**row, **(other or {})} for row, other in left.get(how, [each for each in old if each[1] is not None])]
        inserted = [row for key, row in new.items() if key not in met]
        has_more = any(each.role != "row" for each in model.now.columns)  # otherwise an upsert has nothing to set
        updated, deleted = (matched if how == "replace" or (how == "upsert" and has_more) else 0), len(old) - len(rows)
        counts = {"updated": updated, "deleted": deleted, "inserted": len(inserted)}
        self.note_change(model, table, planned, done, [*rows, *inserted], **counts)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data())
    def overwrite(self, who: int, pick: int, data: st.DataObject) -> None:
        model, table = self.changed_table(who, pick)
        if not model.now.processing.is_nothing or model.now.baked:
            return
        new = self.drawn_rows(model, data)
        names = {column.token: column.name for column in model.now.columns}
        named = [{names[token]: value for token, value in row.items()} for row in new]
        source = pa.Table.from_pylist(named, schema_of(model.now.columns).arrow)
        with self.refused(model, table, sl.ConfirmationNeeded):
            table.overwrite(source)
        planned, done = table.overwrite(source, dry_run=True), table.overwrite(source, force=True)
        self.note_change(model, table, planned, done, new, inserted=len(new), deleted=len(model.now.rows))

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, data=st.data())
    def overwrite_a_part(self, who: int, pick: int, data: st.DataObject) -> None:
        model, table = self.changed_table(who, pick)
        if not model.now.processing.is_nothing or model.now.baked:
            return
        column = model.now.columns[0]
        value = data.draw(st.sampled_from(model.pool(column)))
        new = [{**row, column.token: value} for row in self.drawn_rows(model, data)]
        names = {column.token: column.name for column in model.now.columns}
        named = [{names[token]: each for token, each in row.items()} for row in new]
        source = pa.Table.from_pylist(named, schema_of(model.now.columns).arrow)
        kept = [row for row in model.now.rows if plain(row[column.token]) != plain(value)]
        part: dict[str, Any] = {"where": f'"{column.name}" = :value', "params": {"value": value}}
        planned, done = table.overwrite(source, **part, dry_run=True), table.overwrite(source, **part)
        counts = {"inserted": len(new), "deleted": len(model.now.rows) - len(kept)}
        self.note_change(model, table, planned, done, [*kept, *new], **counts)

    def changed_table(self, who: int, pick: int) -> tuple[TableModel, sl.Table]:
        model = self.model(pick)
        return model, self.session(who).table(model.name)

    def note_change(
        self, model: TableModel, table: sl.Table, planned: Any, done: Any, rows: Sequence[Any], **counts: int
    ) -> None:
        """Note the version that a change of rows made, if it changed any; a dry run counted the same."""
        found = {name: getattr(done, name) for name in ("inserted", "updated", "deleted")}
        assert found == {name: getattr(planned, name) for name in found}
        assert model.now.baked or found == {"inserted": 0, "updated": 0, "deleted": 0, **counts}
        if done.snapshot is None:
            assert not any(found.values())
            assert table.at().resolved.snapshot_id == model.head
        else:
            self.committed(model, table, rows=tuple(rows))
            assert model.now.baked or done.snapshot.rows == len(rows)
        self.note_periodic(model, table)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, of=picks, to=st.sampled_from(["rows.csv", "rows.parquet", "rows.tsv", "folder"]))
    def export_and_ingest(self, who: int, pick: int, of: int, to: str) -> None:
        """What a version exports, and the same table takes in again, is what the version shows."""
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        number = self.version_of(model, of)
        if len(model.now.rows) > 60 or [c for c in model.versions[number].columns] != [*model.now.columns]:  # noqa: C416
            return
        destination = self.new_folder() / to
        rows = model.versions[number].processing.visible(
            model.versions[number].columns, model.versions[number].rows, self.clock.now()
        )
        if number == model.head:
            table.export(destination)
        else:
            table.scan(version=self.reference(model, number)).export(destination)
        if not rows and to == "folder":
            return
        table.ingest(destination)
        self.note_load(model, table, rows)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def add_files(self, who: int, pick: int) -> None:
        """What a table exports, it can take in without a copy."""
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        now = model.versions[model.head]
        rows = now.processing.visible(now.columns, now.rows, self.clock.now())
        if not rows or len(model.now.rows) > 60:
            return
        destination = self.folder / "w" / f"lake-{self.new_folder().name}"
        table.export(destination)
        plan = table.add_files(destination, dry_run=True).plan
        if not plan.refused:
            assert plan.rows == len(rows)
        table.add_files(destination, copy=bool(plan.refused))  # columns have other names in files of an altered table
        self.note_load(model, table, rows)

    @precondition(lambda self: self.tables)
    @rule(
        who=which, pick=picks, drop=st.booleans(), rename=st.booleans(), add=st.booleans(), column=picks,
        name=st.sampled_from(FREE_COLUMNS), kind=st.sampled_from(sorted(POOLS)), dry_run=st.booleans(),
    )  # fmt: skip
    def alter(
        self, who: int, pick: int, drop: bool, rename: bool, add: bool, column: int, name: str, kind: str,
        dry_run: bool,
    ) -> None:  # fmt: skip
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        of_now = list(model.now.columns)
        values = [each for each in of_now if each.role == "value"]
        options: dict[str, Any] = {}
        used = {*model.now.processing.combined, *(model.now.processing.age or ())[:1]}
        touched: set[int] = set()
        if drop and values:
            gone = values.pop(column % len(values))
            of_now.remove(gone)
            touched.add(gone.token)
            options["drop_columns"] = [gone.name]
        if rename and values:
            old = values[column % len(values)]
            new = next(each for each in (*FREE_COLUMNS, "last") if each not in {c.name for c in of_now})
            of_now[of_now.index(old)] = replace(old, name=new)
            touched.add(old.token)
            options["rename_columns"] = {old.name: new}
        if add and name not in {c.name for c in of_now}:
            model.next_token += 1
            of_now.append(Column(model.next_token, name, kind, "value", nullable=True))
            options["add_columns"] = {name: f"{kind}?"}
        if not options:
            return
        if touched & used or ("add_columns" in options and model.now.processing.combined):
            with self.refused(model, table, sl.InvalidInput):
                table.alter(**options)
            return
        report = table.alter(**options, dry_run=dry_run)
        assert report.after.names == tuple(each.name for each in of_now)
        if dry_run:
            assert table.at().resolved.snapshot_id == model.head
            return
        self.committed(model, table, columns=tuple(of_now))

    # Properties.

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, how=st.sampled_from(["nothing", "age", "combine", "both"]), data=st.data())
    def set_processing(self, who: int, pick: int, how: str, data: st.DataObject) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        of_now = model.now.columns
        new, texts = Processing(), {FILTERS: None, AGGREGATIONS: None}
        aged = [each for each in of_now if each.kind in {"long", "timestamp"}]
        if how in {"age", "both"} and aged:
            column = data.draw(st.sampled_from(aged))
            age = data.draw(st.sampled_from([1_800_000, 7_200_000, 10**15]))
            new, texts[FILTERS] = replace(new, age=(column.token, age)), f"ageOff({column.name},{age})"
        values = [each for each in of_now if each.role == "value"]
        if how in {"combine", "both"} and model.summed and values and not any(each.nullable for each in values):
            combined = {each.token: data.draw(st.sampled_from(operations(each))) for each in values}
            new = replace(new, combined=combined)
            texts[AGGREGATIONS] = ",".join(f"{combined[each.token]}({each.name})" for each in values)
        if model.now.baked and new != model.now.processing:
            return  # what the rows were before they were combined is not known any more
        table.set_properties(texts)
        if new != model.now.processing:
            self.committed(model, table, processing=new)

    @precondition(lambda self: self.tables)
    @rule(
        who=which, pick=picks, name=st.sampled_from(
            ["sleeper.table.compaction.files.batch.size", "sleeper.table.partition.splitting.threshold",
             "snapshot.num-retained.min", "sleeper.table.gc.delay.minutes", "savepoint.create-interval"]
        ), number=st.integers(2, 30), unset=st.booleans(),
    )  # fmt: skip
    def set_properties(self, who: int, pick: int, name: str, number: int, unset: bool) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        text = f"{number} h" if name == "savepoint.create-interval" else str(number)
        table.set_properties({name: None if unset else text})
        assert table.at().resolved.snapshot_id == model.head
        model.properties.pop(name, None)
        if not unset:
            model.properties[name] = text

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def accept_properties(self, who: int, pick: int) -> None:
        """A file that was edited by hand is taken over, and changes no answer by itself."""
        model, session = self.model(pick), self.session(who)
        path = (
            self.folder
            / "w"
            / "default"
            / "config"
            / "tables"
            / f"table-{session.table(model.name).entry.id}.properties"
        )
        path.write_text(path.read_text() + "# looked at\n")
        table = session.table(model.name)
        with self.refused(model, table, sl.ConfirmationNeeded):
            table.maintenance.expire(dry_run=False)
        assert table.inspect.status().notes
        table.accept_properties()
        assert not table.inspect.status().notes
        assert table.at().resolved.snapshot_id == model.head

    @rule(who=which, minutes=st.none() | st.integers(10, 60))
    def set_properties_of_the_instance(self, who: int, minutes: int | None) -> None:
        name = "sleeper.default.table.parquet.rowgroup.rows.max"
        self.session(who).set_properties({name: None if minutes is None else str(minutes)})
        self.sessions[who].allow(data_paths=[self.folder / "elsewhere"])

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def set_online(self, who: int, pick: int) -> None:
        """Offline, another session refuses maintenance too, and loads as ever."""
        model = self.model(pick)
        mine, others = (session.table(model.name) for session in (self.session(who), self.session(1 - who)))
        mine.maintenance.offline()
        assert not others.maintenance.is_online
        for work in (others.maintenance.compact, others.maintenance.split, others.maintain):
            with self.refused(model, others, sl.StateRuleBroken):
                work()
        for work in (others.maintenance.expire, others.maintenance.collect_garbage, others.maintenance.sweep_orphans):
            with self.refused(model, others, sl.StateRuleBroken):
                work(dry_run=False)
            work(dry_run=True)
        mine.maintenance.online()

    # Maintenance.

    @precondition(lambda self: self.tables)
    @rule(
        who=which, pick=picks, strategy=st.sampled_from([None, "all", "basic", "size-ratio"]), background=st.booleans()
    )
    def compact(self, who: int, pick: int, strategy: str | None, background: bool) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        planned = table.maintenance.compact(strategy, dry_run=True)
        if background:
            done = table.maintenance.start_compaction(strategy, engine="local").result()
        else:
            done = table.maintenance.compact(strategy, engine="local")
        assert [(job.partition_id, job.inputs) for job in planned.jobs] == [
            (job.partition_id, job.inputs) for job in done.jobs
        ]
        assert not done.refused
        self.note_compaction(model, table, bool(done.jobs))

    def note_compaction(self, model: TableModel, table: sl.Table, merged: bool) -> None:
        baked = model.now.baked or (merged and not model.now.processing.is_nothing)
        self.caught_up(model, table, baked=baked)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, threshold=st.integers(2, 6), at=st.none() | picks)
    def split_partitions(self, who: int, pick: int, threshold: int, at: int | None) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        keys = [column for column in model.now.columns if column.role == "row"]
        options: dict[str, Any] = {"threshold": threshold}
        if at is not None:
            key = keys[at % len(keys)]
            options = {"at": KEYS[key.kind][at % len(KEYS[key.kind])], "key": key.name}
        try:
            planned = table.maintenance.split(dry_run=True, **options)
        except sl.InvalidInput:
            assert at is not None  # a leaf begins there already
            return
        done = table.maintenance.split(**options)
        assert [(each.region, each.rows) for each in planned.splits] == [(e.region, e.rows) for e in done.splits]
        if done.splits:
            self.committed(model, table)

    @rule(minutes=st.sampled_from([1, 20, 45, 300, 60 * 24 * 8]))
    def time_passes(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, least=st.integers(1, 3), more=st.integers(0, 9), minutes=st.sampled_from([0, 5, 60]))
    def expire_snapshots(self, who: int, pick: int, least: int, more: int, minutes: int) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        window = timedelta(minutes=minutes)
        options: dict[str, Any] = {
            "time_retained": window, "num_retained_min": least, "num_retained_max": least + more,
        }  # fmt: skip
        expected = model.expected_expiry(self.clock.now(), window, least, least + more)
        for dry_run in (True, False):
            report = table.maintenance.expire(dry_run=dry_run, **options)
            assert {snapshot.id for snapshot in report.expired} == expected
        model.retained -= expected

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, delay=st.sampled_from([None, timedelta(0), timedelta(minutes=1)]))
    def collect_garbage(self, who: int, pick: int, delay: timedelta | None) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        planned, done = (table.maintenance.collect_garbage(dry_run=dry_run, delay=delay) for dry_run in (True, False))
        assert (planned.data_files, planned.metadata_files) == (done.data_files, done.metadata_files)
        if done.data_files:
            self.committed(model, table)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def sweep_orphans(self, who: int, pick: int) -> None:
        """A file that a dead writer left goes, and nothing else."""
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        planned, done = (
            table.maintenance.sweep_orphans(dry_run=dry_run, older_than=timedelta(days=1)) for dry_run in (True, False)
        )
        assert not planned.files
        assert not done.files
        assert table.at().resolved.snapshot_id == model.head

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, whole=st.booleans())
    def maintain(self, who: int, pick: int, whole: bool) -> None:
        models = [*self.tables.values()] if whole else [self.model(pick)]
        session = self.session(who)
        handles = [session.table(model.name) for model in models]
        session.maintain(dry_run=True) if whole else handles[0].maintain(dry_run=True)
        report = session.maintain() if whole else handles[0].maintain()
        assert not report.failed, report
        for model, table in zip(models, handles, strict=True):
            steps = {step.step: step.report for step in report.steps if step.table == model.name}
            self.note_compaction(model, table, bool(steps["compact"].jobs))
            model.retained -= {snapshot.id for snapshot in steps["expire"].expired}
            self.note_periodic(model, table)

    # Versions.

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, of=st.none() | picks, name=st.none() | st.sampled_from(["before", "good", "é"]))
    def create_savepoint(self, who: int, pick: int, of: int | None, name: str | None) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        number = model.head if of is None else self.version_of(model, of)
        version = None if of is None else self.reference(model, number)
        if name in model.names:
            with self.refused(model, table, sl.AlreadyExists):
                table.create_savepoint(name, snapshot=version)
            return
        made = table.create_savepoint(name, "why", snapshot=version)
        assert made.saved_snapshot_id == number
        self.note_savepoint(model, made)

    def note_periodic(self, model: TableModel, table: sl.Table) -> None:
        """Note the savepoint that the table's properties may have asked for; it is of a version of now."""
        made = [point for point in table.savepoints() if point.id not in model.savepoints]
        assert len(made) <= int("savepoint.create-interval" in model.properties)
        for point in made:
            assert point.saved_snapshot_id in model.versions
            self.note_savepoint(model, point)

    def note_savepoint(self, model: TableModel, made: sl.Savepoint) -> None:
        model.savepoints[made.id] = made.saved_snapshot_id
        model.names |= {made.name} - {None}  # type: ignore[arg-type]

    @precondition(lambda self: any(model.savepoints for model in self.tables.values()))
    @rule(who=which, pick=picks, of=picks)
    def delete_savepoint(self, who: int, pick: int, of: int) -> None:
        model = [each for each in self.tables.values() if each.savepoints][
            pick % sum(bool(m.savepoints) for m in self.tables.values())
        ]
        table = self.session(who).table(model.name)
        point = sorted(model.savepoints)[of % len(model.savepoints)]
        number = model.savepoints[point]
        others = [saved for other, saved in model.savepoints.items() if other != point]
        lost = number not in {*model.retained, *others}
        assert table.delete_savepoint(point, dry_run=True).loses_version == lost
        if lost:
            with self.refused(model, table, sl.ConfirmationNeeded):
                table.delete_savepoint(point)
        table.delete_savepoint(point, force=lost)
        del model.savepoints[point]

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, of=picks, by=st.sampled_from(["version", "reference", "time"]))
    def rollback(self, who: int, pick: int, of: int, by: str) -> None:
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        number = self.version_of(model, of)
        then, now = model.versions[number], model.now
        if then.baked and then.processing != now.processing:
            return
        options: dict[str, Any] = {}
        if by == "time":
            number = max(n for n in model.kept if model.versions[n].time <= then.time)
            then = model.versions[number]
            options = {"timestamp": then.time}
        elif by == "version":
            options = {"version": self.reference(model, number)}
        if by == "reference":
            point = next((point for point, saved in model.savepoints.items() if saved == number), None)
            to = SnapshotReference(number) if number in model.retained else SavepointReference(point)
            planned, done = (table.rollback(to, dry_run=dry_run) for dry_run in (True, False))
        else:
            planned, done = (table.rollback(**options, dry_run=dry_run) for dry_run in (True, False))
        assert replace(planned, dry_run=False) == replace(done, snapshot=None)
        rows = carried(then, now.columns)
        if done.snapshot is None:
            before, after = (Version(now.columns, each, now.time) for each in (now.rows, rows))
            assert self.rows_of(before) == self.rows_of(after)
        else:
            self.committed(model, table, rows=rows, baked=then.baked)

    def rows_of(self, version: Version) -> Counter[Any]:
        return counted(version.visible(self.clock.now()), version.names)

    # Reading.

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, of=picks, column=picks, value=picks, limit=st.integers(0, 5))
    def query(self, who: int, pick: int, of: int, column: int, value: int, limit: int) -> None:
        """Parts of a version: by a condition, keys, a region, columns and a limit; by SQL; and at a moment."""
        model, session = self.model(pick), self.session(who)
        number = self.version_of(model, of)
        version, table = model.versions[number], session.table(model.name)
        reference, rows = self.reference(model, number), version.visible(self.clock.now())
        key = version.columns[0].name
        wanted = KEYS[version.columns[0].kind][value % len(KEYS[version.columns[0].kind])]
        named = version.columns[column % len(version.columns)].name
        self.hold(
            table.scan(where=f"{named} IS NULL", version=reference), [r for r in rows if r[named] is None], version
        )
        of_key = [row for row in rows if row[key] == wanted]
        self.hold(table.scan(keys=[wanted], version=reference), of_key, version)
        at = table.at(reference)
        self.hold(at.scan(region={key: (wanted, None)}), [row for row in rows if row[key] >= wanted], version)
        some = at.scan(columns=[named], limit=limit)
        assert some.to_arrow().column_names == [named]
        assert some.to_arrow().num_rows == min(limit, len(rows)) == some.count()
        asked = f"'{reference}'" if isinstance(reference, str) else reference
        sql = f"SELECT * FROM {model.name} VERSION AS OF {asked} WHERE {key} = :wanted"
        self.hold(session.sql(sql, engine="duckdb", params={"wanted": wanted}), of_key, version)
        self.hold_relation(at.scan().to_duckdb().to_arrow_table(), rows, version)
        if len({model.versions[n].time for n in model.kept}) == len(model.kept):
            self.hold(table.scan(timestamp=version.time), rows, version)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks, of=picks, to=picks)
    def compare(self, who: int, pick: int, of: int, to: int) -> None:
        """What changed between two versions, in the columns of the newer one."""
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        numbers = [self.version_of(model, each) for each in (of, to)]
        newest = model.versions[max(numbers)].columns
        names = [column.name for column in newest]
        before, after = (counted(model.versions[n].visible(self.clock.now(), newest), names) for n in numbers)
        a, b = (self.reference(model, number) for number in numbers)
        changes = table.changes(a, b)
        assert counted(changes.added.to_arrow().to_pylist(), names) == after - before
        assert counted(changes.removed.to_arrow().to_pylist(), names) == before - after
        expected = ((after - before).total(), (before - after).total())
        assert tuple(changes.count()) == tuple(table.diff(a, b).rows) == expected
        self.read_with_the_columns_of_now(model, table, numbers[0])

    def read_with_the_columns_of_now(self, model: TableModel, table: sl.Table, number: int) -> None:
        """Hold that a version has the columns and the processing of now, when it is asked for so."""
        then, now = model.versions[number], model.now
        if then.baked and then.processing != now.processing:
            return
        expected = replace(model.now, rows=carried(then, now.columns)).visible(self.clock.now())
        read = table.at(self.reference(model, number), schema="current").scan().to_arrow()
        assert counted(read.to_pylist(), now.names) == counted(expected, now.names)

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def release_lease(self, who: int, pick: int) -> None:
        """Who reads long holds a version, until the lease is ended by hand."""
        model, table = self.model(pick), self.session(who).table(self.model(pick).name)
        relation = table.scan().to_duckdb()
        for lease in table.inspect.leases():
            assert table.maintenance.release_lease(lease.id).id == lease.id
        assert not table.inspect.leases()
        del relation
        assert table.at().resolved.snapshot_id == model.head

    @precondition(lambda self: self.tables)
    @rule(who=which, pick=picks)
    def check(self, who: int, pick: int) -> None:
        report = self.session(who).table(self.model(pick).name).maintenance.check(deep=True)
        assert report.findings == ()

    @rule(who=which)
    def reopen(self, who: int) -> None:
        self.sessions[who].close()
        self.sessions[who] = self.connect()

    # What holds after each step.

    def hold(self, read: Any, rows: Sequence[Named], version: Version) -> None:
        self.hold_relation(read.to_arrow(), rows, version)

    def hold_relation(self, table: pa.Table, rows: Sequence[Named], version: Version) -> None:
        """Hold that an engine gives these rows; it may have types of its own for the same values."""
        assert table.column_names == version.names
        target = pa.schema([pa.field(field.name, field.type) for field in schema_of(version.columns).arrow])
        assert counted(table.cast(target).to_pylist(), version.names) == counted(rows, version.names)

    @invariant()
    def every_version_is_what_the_model_says(self) -> None:
        if not hasattr(self, "sessions"):
            return
        self.turn += 1
        session = self.sessions[self.turn % 2]
        assert {table.name for table in session.tables()} == set(self.tables)
        for name, model in self.tables.items():
            table, now = session.table(name), self.clock.now()
            assert {snapshot.id for snapshot in table.history()} == model.retained
            assert {point.id: point.saved_snapshot_id for point in table.savepoints()} == model.savepoints
            assert table.at().resolved.snapshot_id == model.head
            for snapshot in table.history():
                version = model.versions[snapshot.id]
                assert snapshot.time == version.time
                assert version.baked or snapshot.rows == len(version.rows)
            points = {saved: f"savepoint.{point}" for point, saved in model.savepoints.items()}
            asked = [*((number, number) for number in sorted(model.retained)), *points.items()]
            for number, reference in asked:
                version = model.versions[number]
                rows, scan = version.visible(now), table.scan(version=reference)
                self.hold(scan, rows, version)
                assert scan.count() == len(rows)

    def teardown(self) -> None:
        if hasattr(self, "sessions"):
            for name in self.tables:
                assert self.sessions[0].table(name).maintenance.check(deep=True).findings == ()
            for session in self.sessions:
                session.close()
            shutil.rmtree(self.folder)


def carried(version: Version, of_now: Sequence[Column]) -> tuple[dict[int, Any], ...]:
    """Return the rows of a version with other columns: null in those that it had not."""
    known = {column.token for column in version.columns}
    return tuple({c.token: row.get(c.token) if c.token in known else None for c in of_now} for row in version.rows)


def operations(column: Column) -> list[str]:
    """Return what can combine the values of a column."""
    if column.kind.startswith("map"):
        return ["map_sum", "map_min", "map_max"]
    return ["sum", "min", "max"] if column.kind in SUMMED else ["min", "max"]


class ProgramsOnSpark(Programs):
    """Programs that Spark has a part in too."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        super().__init__()

    @precondition(lambda self: self.tables)
    @rule(pick=picks, data=st.data())
    def bulk_import(self, pick: int, data: st.DataObject) -> None:
        model, table = self.model(pick), self.session(0).table(self.model(pick).name)
        given = self.drawn_rows(model, data)
        names = {column.token: column.name for column in model.now.columns}
        rows = [{names[token]: value for token, value in row.items()} for row in given]
        table.bulk_import(pa.Table.from_pylist(rows, schema_of(model.now.columns).arrow))
        self.note_load(model, table, given)

    @precondition(lambda self: self.tables)
    @rule(pick=picks, of=picks)
    def compact_and_query(self, pick: int, of: int) -> None:
        model, session = self.model(pick), self.session(1)
        table = session.table(model.name)
        self.note_compaction(model, table, bool(table.maintenance.compact("all", engine="spark").jobs))
        number = self.version_of(model, of)
        version, reference = model.versions[number], self.reference(model, number)
        rows = version.visible(self.clock.now())
        self.hold_relation(table.scan(version=reference).to_spark().toArrow(), rows, version)
        asked = f"'{reference}'" if isinstance(reference, str) else reference
        self.hold(session.sql(f"SELECT * FROM {model.name} VERSION AS OF {asked}"), rows, version)


def test_random_programs():
    examples = settings.default.max_examples // 2
    run_state_machine_as_test(Programs, settings=settings(settings.default, max_examples=examples))


@pytest.mark.spark
def test_random_programs_on_spark(spark_engine: Any):
    run_state_machine_as_test(
        lambda: ProgramsOnSpark(spark_engine.session()),
        settings=settings(settings.default, max_examples=3, stateful_step_count=10),
    )


@pytest.mark.parametrize(("kind", "of"), [("session", sl.Session), ("table", sl.Table), ("maintenance", Maintenance)])
def test_programs_use_every_operation(kind: str, of: type) -> None:
    source = inspect.getsource(Programs) + inspect.getsource(ProgramsOnSpark)
    used = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    public = {name for name in dir(of) if not name.startswith("_")}
    assert READS[kind] <= public
    assert public - READS[kind] <= used
