"""A scan as a PyArrow data set: a fragment for each file, with the ranges of its values, by which readers skip files.

Other libraries read a data set by Arrow's C++ code, so nothing in Python can filter or rename what they read. Therefore
only files of which all rows count, under the names that they have in the table, become fragments; the rows of a file
that counts in part are read now, into memory; and what neither can express is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.keys import arrow_value, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.state import TableState
from sleeper_nb.read.file_statistics import ColumnBounds, column_bounds
from sleeper_nb.read.read_rows import check_files, read, selected_fields
from sleeper_nb.read.scan_plan import PlannedFile, ScanPlan
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Expression

_READ_THEM = "; or make one of the rows: pyarrow.dataset.dataset(scan.to_arrow())"


def dataset_of(plan: ScanPlan, state: TableState, storage: Storage, columns: Sequence[str] | None = None) -> Dataset:
    """Return the rows of a plan as a data set, whose files are read when it is.

    `InvalidInput` when the rows are processed, or a column has another name in the files. `NotFound`, `StorageError`
    when a file is gone, or has changed.
    """
    from pyarrow.dataset import UnionDataset

    from sleeper_nb.storage.streamed_dataset import StreamedUnion

    schema = pa.schema(selected_fields(plan.schema.names if columns is None else columns, plan.schema))
    _check(plan, schema)
    check_files(plan.files, storage)
    ranges = _file_ranges(plan, state, schema)
    cut = _cut_files(plan, state, ranges)
    names = [name for name in dict.fromkeys(file.filename for file in plan.files) if name not in cut]
    parts = []
    if names:
        parts.append(storage.dataset(names, schema, [ranges[name].condition for name in names]))
    if cut or not parts:
        parts.append(_in_memory(plan, cut, storage, schema))
    union = UnionDataset if storage.local else StreamedUnion
    return parts[0] if len(parts) == 1 else union(schema, parts)


def _check(plan: ScanPlan, schema: pa.Schema) -> None:
    if not plan.processing.is_nothing:
        raise InvalidInput(
            f"a data set cannot apply what the table does with its rows: {plan.processing}",
            hint=f"read the rows: to_arrow(){_READ_THEM}",
        )
    renamed = next((field for field in plan.schema.fields if field.stored and field.name in schema.names), None)
    if renamed is not None:
        raise InvalidInput(
            f"a data set cannot rename column {renamed.name!r}, which has another name in data files",
            hint=f"leave the column out, or read the rows: to_arrow(){_READ_THEM}",
        )


@dataclass(frozen=True, slots=True)
class _FileRange:
    """The least region with all keys of a file, and the condition that each of its rows meets."""

    region: Region
    condition: Expression


def _file_ranges(plan: ScanPlan, state: TableState, schema: pa.Schema) -> dict[str, _FileRange]:
    from pyarrow import dataset

    active = state.files.active
    wanted = pa.array(dict.fromkeys(file.filename for file in plan.files), pa.string())
    read = replace(state, files=FileReferences.of(active.filter(pc.is_in(active["filename"], value_set=wanted))))
    rows, keys = read.files.active, plan.schema.row_keys
    of_values = column_bounds(read, [name for name in schema.names if name not in {key.name for key in keys}])
    columns = {name: ends for name, ends in of_values.items() if ends.type == schema.field(name).type}
    ends = [(rows[f"min_{key.name}"].to_pylist(), rows[f"max_{key.name}"].to_pylist()) for key in keys]
    ranges = {}
    for i, name in enumerate(rows["filename"].to_pylist()):
        of_keys = ((key, lows[i], highs[i]) for key, (lows, highs) in zip(keys, ends, strict=True))
        sides = (Range(low, None if high is None else key_after(key, high)) for key, low, high in of_keys)
        region = Region(tuple(sides))
        met = region.comparisons(
            plan.schema, lambda key: dataset.field(key.name), lambda key, value: arrow_value(value, key.type.arrow)
        )
        met += [each for column, of_column in columns.items() for each in _comparisons(column, of_column, i)]
        ranges[name] = _FileRange(region, reduce(and_, met) if met else dataset.scalar(True))  # noqa: FBT003 - a value
    return ranges


def _comparisons(column: str, bounds: ColumnBounds, file: int) -> list[Expression]:
    """Return conditions on a column that each row of a file meets, in the form by which Arrow prunes files."""
    from pyarrow import dataset

    nulls = None if bounds.nulls is None else bounds.nulls[file].as_py()
    if nulls is None:
        return []
    field, least, greatest = dataset.field(column), bounds.least[file], bounds.greatest[file]
    if not least.is_valid:
        return [field.is_null()]
    met = [field >= least.cast(bounds.type), field <= greatest.cast(bounds.type)]
    return [each | field.is_null() for each in met] if nulls else met


def _cut_files(plan: ScanPlan, state: TableState, ranges: dict[str, _FileRange]) -> set[str]:
    """Return the files of which only some rows count: those with deleted rows, and those that are read for some leaves.

    All rows of a file that a split has left to several leaves count if it is read for each leaf that it reaches into.
    """
    read_for: dict[str, set[str]] = {}
    partly: set[str] = set()
    deleted: set[str] = set()
    for leaf in plan.leaves:
        for file in leaf.files:
            if file.deletions is not None:
                deleted.add(file.filename)
            if file.region is None:
                continue
            partly.add(file.filename)
            if file.region.covers(leaf.partition.region):
                read_for.setdefault(file.filename, set()).add(leaf.partition.id)
    return deleted | {
        name
        for name in partly
        if not {leaf.id for leaf in state.tree.leaves_in(ranges[name].region)} <= read_for.get(name, set())
    }


def _in_memory(plan: ScanPlan, names: set[str], storage: Storage, schema: pa.Schema) -> Dataset:
    from pyarrow import dataset

    def of(files: Sequence[PlannedFile]) -> tuple[PlannedFile, ...]:
        return tuple(file for file in files if file.filename in names)

    leaves = tuple(replace(leaf, files=files) for leaf in plan.leaves if (files := of(leaf.files)))
    return dataset.dataset(read(replace(plan, leaves=leaves), storage, columns=schema.names))
