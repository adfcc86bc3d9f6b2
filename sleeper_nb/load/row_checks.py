"""The rules that the rows of a load must keep beyond their types: CHECKs, expectations and unique row keys.

CHECKs and expectations are conditions as scans take them, parsed and bound by the engine; `RowCheck.broken` is the
negation, which a row meets when the condition is false for it. NULL passes, as in SQL. A row that breaks a CHECK is
refused; one that breaks an expectation is refused or counted.

A row key that occurs twice is two neighbours in the merge of sorted files. So a load merges the row keys of its new
files and of the table's files whose keys overlap with them, leaf by leaf; no other file is opened. Rows that the
table's filters drop count as well: they would be there again without the filters. A commit that loses against another
one is checked again before its next try, against the files that came in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.clock import Clock
from sleeper_nb.errors import UNCHANGED_FIRST, Hint, InvalidInput, parts_of
from sleeper_nb.load.conform import BadValue, Difference, no_place
from sleeper_nb.model.expectations import COUNT, Expectation, counts_text
from sleeper_nb.model.file_reference import CONTENT
from sleeper_nb.model.keys import KeyValue, key_after
from sleeper_nb.model.load_hints import OnTable
from sleeper_nb.model.partitions import Partition, Range, Region
from sleeper_nb.model.properties import EXPECT_ACTION
from sleeper_nb.model.schema import Check, Schema
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import AddFiles, EditRows
from sleeper_nb.read.predicate import Condition, RowFilter
from sleeper_nb.read.read_rows import merged
from sleeper_nb.read.scan_plan import PlannedFile, files_in, plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import run_starts
from sleeper_nb.storage.filesystem import Storage

_INDEX: Final = "index of the row"
"""A name with spaces, so that no column has it."""
_LONGEST: Final = 60


Rule = Check | Expectation


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A CHECK or an expectation that was bound to a schema.

    Parameters
    ----------
    broken
        The condition that the rows meet for which it is false.
    """

    check: Rule
    broken: Condition

    def picklable(self) -> RowCheck:
        return replace(self, broken=self.broken.picklable())


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """How many rows of a load break each expectation of the table.

    Parameters
    ----------
    broken
        For those that some rows break: how many, and the first row with its file and line.
    """

    conditions: tuple[str, ...] = ()
    broken: Mapping[str, Difference] = field(default_factory=dict)

    def plus(self, other: JudgedRows) -> JudgedRows:
        """Return the counts of two parts of a load, with the first row of each expectation."""
        both = dict(self.broken)
        for condition, found in other.broken.items():
            both[condition] = both[condition].plus(found) if condition in both else found
        return JudgedRows(tuple(dict.fromkeys((*self.conditions, *other.conditions))), both)

    @property
    def text(self) -> str | None:
        counts = {each: self.broken[each].values if each in self.broken else 0 for each in self.conditions}
        return counts_text(counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each expectation that rows break: how many, and the first of them."""
        return tuple(each.line for each in self.broken.values())


NOT_JUDGED: Final = JudgedRows()
"""The counts of a table without expectations."""


def no_rows_judged(checks: Sequence[RowCheck]) -> JudgedRows:
    return JudgedRows(tuple(each.check.condition for each in checks if isinstance(each.check, Expectation)))


@dataclass(frozen=True, slots=True)
class OpenedChecks:
    """Checks that are open for evaluation during one load."""

    filters: Sequence[tuple[Rule, RowFilter]]

    def differences(
        self, rows: pa.Table, place: Callable[[int], str] = no_place, source: str = ""
    ) -> Iterator[Difference]:
        """Yield a difference for each rule that some rows break and that refuses them: how many, and the first."""
        for rule, row_filter in self.filters:
            found = _found(rule, row_filter, rows, place, source) if isinstance(rule, Check) or rule.refuses else None
            if found is not None:
                yield found

    def judged(self, rows: pa.Table, place: Callable[[int], str] = no_place, source: str = "") -> JudgedRows:
        """Return how many rows break each expectation; parameters are those of `differences`.

        No row of a load breaks one that refuses rows.
        """
        conditions, broken = [], {}
        for rule, row_filter in self.filters:
            if isinstance(rule, Expectation):
                conditions.append(rule.condition)
                found = None if rule.refuses else _found(rule, row_filter, rows, place, source)
                if found is not None:
                    broken[rule.condition] = found
        return JudgedRows(tuple(conditions), broken)

    def bad_values(self, rows: pa.Table, known: Container[tuple[int, str]] = ()) -> Iterator[BadValue]:
        """Yield each row that breaks a rule, for each rule, also of expectations that only count.

        Parameters
        ----------
        known
            Rows and columns whose values are bad for another reason, and NULL here: no check of them is broken.
        """
        for check, row_filter in self.filters:
            for batch in _broken(row_filter, rows):
                for values in batch.to_pylist():
                    row = values.pop(_INDEX)
                    if all((row, name) not in known for name in row_filter.columns):
                        yield BadValue.of(row, _difference(check, 1, "", values, ""))


def _broken(row_filter: RowFilter, rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows that meet a condition: the columns that it names, and the index of each row."""
    names = [name for name in rows.column_names if name in row_filter.columns]
    looked_at = rows.select(names).append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    return list(row_filter.filter(looked_at.to_batches()))


@contextmanager
def opened_checks(checks: Sequence[RowCheck]) -> Iterator[OpenedChecks]:
    with ExitStack() as stack:
        yield OpenedChecks([(each.check, stack.enter_context(each.broken.opened())) for each in checks])


def _found(
    rule: Rule, row_filter: RowFilter, rows: pa.Table, place: Callable[[int], str], source: str
) -> Difference | None:
    """Return how many rows break a rule, and the first of them; None when none does."""
    broken = _broken(row_filter, rows)
    count = sum(batch.num_rows for batch in broken)
    if not count:
        return None
    first = next(batch for batch in broken if batch.num_rows).slice(0, 1).to_pylist()[0]
    return _difference(rule, count, place(first.pop(_INDEX)), first, source)


def _difference(rule: Rule, count: int, place: str, values: dict[str, Any], source: str) -> Difference:
    shown, kind = values_text(values), f"{rule.condition} is false"
    first = ": ".join(filter(None, (place, shown)))
    if isinstance(rule, Expectation):
        column, problem = "expectation", f"expectation {rule.condition!r} is broken by {first}"
        counted = OnTable(
            "properties",
            f"{EXPECT_ACTION}={COUNT}",
            f"table.set_properties({{{EXPECT_ACTION!r}: {COUNT!r}}})",
            defined=f"give the table the property {EXPECT_ACTION}={COUNT}",
        )
        hint = ("correct the rows, or count them: ", counted)
    else:
        column, problem = f"check {rule.name}", f"check {rule.name!r} ({rule.condition}) fails for {first}"
        dropped = OnTable(
            "alter",
            f"--drop-check {rule.name}",
            f"table.alter(checks={{{rule.name!r}: None}})",
            defined="leave it out of the table's definition",
        )
        hint = ("correct the rows, or drop the check: ", dropped)
    return Difference(column, problem, hint, source, kind, count, example=shown, place=place, unit="row")


def values_text(values: Mapping[str, Any]) -> str:
    """Return some values of a row for an error: ``city = 'a', at = 2026-01-31T12:00:00+00:00, fare = NULL``."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, date | time):
        return value.isoformat()
    text = str(value) if isinstance(value, int | float | Decimal) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


Key = tuple[KeyValue, ...]
_SAME_KEY: Final = "an earlier row has the row key"
_THERE: Final = "the table already has the row key"
_LOAD_ONCE: Final = "load each row key once"
_REPLACE: Final = (
    "to replace the rows that have these keys: ",
    OnTable("upsert", "$df", "table.upsert(df)", defined="give each key once"),
)
"""A name with spaces, so that no column has it."""


_Content = tuple[str, str, str | None]
"""A partition, one of its data files, and the file with the rows that it no longer has of that one."""


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A row key of a load that occurs more than once.

    Parameters
    ----------
    key
        Its columns and values, as text.
    rows
        In how many rows of the load it is; with 1, the table has it already.
    """

    key: str
    rows: int
    filenames: tuple[str, ...]

    @property
    def problem(self) -> str:
        where = f"occurs {self.rows:,} times in the rows" if self.rows > 1 else "is in the table already"
        return f"the row key {self.key} {where}, and the table has unique keys"

    @property
    def hint(self) -> Hint:
        if self.rows > 1:
            return _LOAD_ONCE
        return _REPLACE


class UniqueKeysOfLoad:
    """Checks the files of one load, at first against the whole table, and then against what was added since.

    Parameters
    ----------
    change
        The files of the load, which are written; of a change of rows, those with new rows are compared.
    """

    def __init__(self, storage: Storage, clock: Clock, change: AddFiles | EditRows) -> None:
        self._storage, self._clock, self._change = storage, clock, change
        kept = {each.filename for each in change.replaced} if isinstance(change, EditRows) else set()
        self._new = {reference.filename for reference in change.references} - kept
        self._compared: set[_Content] | None = None  # what the table has of files, without a key of the load

    @classmethod
    def of(cls, store: StateStore, change: AddFiles | EditRows) -> UniqueKeysOfLoad:
        """Return the check of what is to be committed to a store."""
        return cls(store.storage, store.clock, change)

    def check(self, state: TableState) -> None:
        """Raise when a row key of the load occurs twice in it, or is in a state of the table.

        Raises
        ------
        InvalidInput
            Names such a key.
        StateRuleBroken
            When the state does not allow the load at all.
        """
        taken = self.taken(state)
        if taken is not None:
            raise InvalidInput(taken.problem, hint=(UNCHANGED_FIRST, *parts_of(taken.hint)))

    def taken(self, state: TableState) -> TakenKey | None:
        """Return a row key that occurs twice in the load, or is in a state of the table; None when there is none.

        Raises `StateRuleBroken` when the state does not allow the load at all.
        """
        if not state.schema.unique_keys:
            return None
        self._change.validate(state)
        after = self._change.apply(state, CommitPoint(state.snapshot_id + 1, self._clock.now()))
        new = self._new
        for leaf, part in _parts_with(after, new):
            files = files_in(after, leaf, part)
            if self._compared is not None:
                files = [
                    each for each in files if each.filename in new or _content(leaf.id, each) not in self._compared
                ]
                if all(each.filename in new for each in files):
                    continue
            key = repeated_key(files, after.schema, self._storage)
            if key is not None:
                return self._taken(key, [each for each in files if each.filename in new], after.schema)
        contents = zip(*(state.files.active[name].to_pylist() for name in CONTENT), strict=True)
        self._compared = (self._compared or set()) | set(contents)
        return None

    def _taken(self, key: Key, new: Sequence[PlannedFile], schema: Schema) -> TakenKey:
        region = _region_of(schema, [key])
        parts = [(each, (each.region or region).intersect(region)) for each in new]
        found = [each._replace(region=part) for each, part in parts if part is not None]
        names = [field.name for field in schema.row_keys]
        rows = {
            each.filename: sum(batch.num_rows for batch in merged([each], schema, self._storage, columns=names))
            for each in found
        }
        holding = tuple(name for name, count in rows.items() if count)
        return TakenKey(_text(key, schema), sum(rows.values()), holding)


def check_unique(state: TableState, storage: Storage) -> None:
    """Raise `InvalidInput` when two rows of a state have the same row keys; names such a key."""
    for leaf in plan_scan(state).leaves:
        key = repeated_key(leaf.files, state.schema, storage)
        if key is not None:
            raise InvalidInput(
                f"the keys are not unique: the row key {_text(key, state.schema)} occurs more than once",
                hint="keep one row of each key before",
            )


def taken_keys(rows: pa.Table, state: TableState, storage: Storage) -> Iterator[BadValue]:
    """Yield each row whose row key an earlier row has, or a row of the table, where its keys are unique.

    Parameters
    ----------
    rows
        Rows to load, in order, with the columns and types of the state's schema; others than row keys are ignored.
    """
    for problem, keys in _taken(rows, state, storage):
        for place in range(keys.num_rows):
            yield _bad_value(problem, keys.slice(place, 1), 1, state.schema)


def counted_taken_keys(rows: pa.Table, state: TableState, storage: Storage) -> Iterator[BadValue]:
    """Yield the first row whose row key an earlier row has, and the first whose row key the table has; each counts all.

    Parameters are those of `taken_keys`.
    """
    counts: dict[str, int] = {}
    first: dict[str, pa.Table] = {}
    for problem, keys in _taken(rows, state, storage):
        counts[problem] = counts.get(problem, 0) + keys.num_rows
        found = pa.concat_tables([keys, *([first[problem]] if problem in first else [])])
        first[problem] = found.filter(pc.equal(found[_INDEX], pc.min(found[_INDEX])))
    for problem, key in first.items():
        yield _bad_value(problem, key, counts[problem], state.schema)


def _taken(rows: pa.Table, state: TableState, storage: Storage) -> Iterator[tuple[str, pa.Table]]:
    """Yield what is wrong with row keys, and some of the row keys, each with the index of its row."""
    schema = state.schema
    names = [key.name for key in schema.row_keys]
    if not schema.unique_keys or not rows.num_rows:
        return
    keys = rows.select(names).append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    first = keys.group_by(names).aggregate([(_INDEX, "min")])[f"{_INDEX}_min"]
    is_first = pc.is_in(keys[_INDEX], first.combine_chunks())
    if repeated := keys.filter(pc.invert(is_first)):
        yield _SAME_KEY, repeated
    region = _region_of(schema, zip(*(pc.min_max(keys[name]).as_py().values() for name in names), strict=True))
    for leaf in state.tree.leaves:
        part = leaf.region.intersect(region)
        files = files_in(state, leaf, part) if part is not None else []
        for known in _large_parts(merged(files, schema, storage, columns=names), keys.num_rows):
            if there := keys.join(known, names, join_type="left semi"):
                yield _THERE, there


def _large_parts(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield batches together, each time about as many rows as are looked up: a join costs the rows of both."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.num_rows
        if held >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _bad_value(problem: str, key: pa.Table, rows: int, schema: Schema) -> BadValue:
    """Return the row of a key that is taken, as one of so many."""
    hint = _LOAD_ONCE if problem == _SAME_KEY else _REPLACE
    (values,) = key.to_pylist()
    row = values.pop(_INDEX)
    text = _text(tuple(values.values()), schema)
    return BadValue.of(
        row, Difference("unique keys", f"{problem} {text}", hint, kind=problem, values=rows, example=text, unit="row")
    )


def repeated_key(files: Sequence[PlannedFile], schema: Schema, storage: Storage) -> Key | None:
    """Return the first row key that two rows of some files of a leaf have; None when there is none."""
    names = [key.name for key in schema.row_keys]
    last: pa.RecordBatch | None = None
    for batch in merged(files, schema, storage, columns=names):
        if not batch.num_rows:
            continue
        rows = pa.concat_batches([last, batch]) if last is not None else batch
        starts = run_starts(rows, names)
        if len(starts) < rows.num_rows:
            at = next((i for i, start in enumerate(starts.tolist()) if start != i), len(starts))
            return tuple(rows[name][at].as_py() for name in names)
        last = rows.slice(rows.num_rows - 1)
    return None


def _content(partition_id: str, file: PlannedFile) -> _Content:
    return partition_id, file.filename, None if file.deletions is None else file.deletions.filename


def _parts_with(state: TableState, names: Collection[str]) -> Iterator[tuple[Partition, Region]]:
    """Yield each leaf that has some of the files, and the part of its region in which they have keys."""
    rows = state.files.active
    rows = rows.filter(pc.is_in(rows["filename"], pa.array(list(names), pa.string())))
    owners = rows["partition_id"].to_pylist()
    ends: dict[str, list[Key]] = {}
    for end in ("min_", "max_"):
        columns = [rows[f"{end}{key.name}"].to_pylist() for key in state.schema.row_keys]
        for owner, key in zip(owners, zip(*columns, strict=True), strict=True):
            ends.setdefault(owner, []).append(key)
    for owner, keys in ends.items():
        leaf = state.tree[owner]
        part = leaf.region.intersect(_region_of(state.schema, keys))
        if part is not None:
            yield leaf, part


def _region_of(schema: Schema, keys: Iterable[Key]) -> Region:
    region = Region.whole(schema)
    for i, (key, values) in enumerate(zip(schema.row_keys, zip(*keys, strict=True), strict=True)):
        region = region.narrowed(i, Range(min(values), key_after(key, max(values))))
    return region


def _text(key: Key, schema: Schema) -> str:
    return values_text({field.name: value for field, value in zip(schema.row_keys, key, strict=True)})
