"""What an ingest would do, found without changing anything: rows, leaves, files, and every difference to the schema.

A Parquet file tells its rows and nulls in its footer, so only its row keys are read, and columns of another type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import parquet

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import ONE_FILE_PER_LEAF
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.loading.conforming import (
    Conformed,
    Difference,
    compare_column,
    compare_names,
    null_notes,
    nulls_refused,
)
from sleeper_nb.operations.loading.file_formats import open_parquet, read_parquet
from sleeper_nb.operations.loading.ingest import rows_by_leaf
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import InMemory, Source, conformed
from sleeper_nb.report import Grid, Report, counted


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows that one leaf gets; `region` is its part of the keys, for people."""

    partition_id: str
    region: str
    rows: int


@dataclass(frozen=True, slots=True, repr=False)
class IngestPlan(Report):
    """What an ingest of some data would do; nothing was changed to know it.

    Parameters
    ----------
    snapshot_id
        The version that it was planned against.
    rows
        Rows of the data.
    leaves
        The leaves that would get rows, in the order of the tree; none when there are differences.
    files
        Data files that would be written.
    through_spark
        Whether Spark would do it; in process otherwise.
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf``.
    differences
        Every way in which the data does not fit the table. A run would raise the first, and add nothing.
    notes
        What would be changed although every value fits: NaN of pandas, which are NULL; and columns that are NULL as the
        data has no values for them.
    """

    snapshot_id: int
    rows: int
    leaves: tuple[LeafRows, ...]
    files: int
    through_spark: bool
    strategy: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    def grid(self) -> Grid:
        """Return the leaves and their rows; where there are differences, those and what to change."""
        if self.differences:
            number = counted(len(self.differences), "difference")
            title = f"ingest: would add nothing, as there {'is' if len(self.differences) == 1 else 'are'} {number}"
            told = tuple((d.column, d.problem, d.change, d.source) for d in self.differences)
            return Grid(("column", "what is wrong", "what to change", "file"), told, title)
        how = "through Spark" if self.through_spark else "in process"
        title = f"ingest: would add {counted(self.rows, 'row')} in {counted(self.files, 'file')}, {how}"
        rows = tuple((leaf.region, leaf.partition_id, leaf.rows) for leaf in self.leaves)
        footer = "; ".join((f"on snapshot {self.snapshot_id}; nothing was changed", *self.notes))
        return Grid(("keys", "partition", "rows"), rows, title, footer)


def plan_ingest(state: TableState, sources: Sequence[Source], *, strategy: str, through_spark: bool) -> IngestPlan:
    """Return what an ingest of files and rows in memory would do.

    Raises
    ------
    InvalidInput
        When the data can be read only once.
    """
    found = [_look(source, state) for source in sources]
    by_leaf = sum((Counter(each.by_leaf) for each in found), Counter[str]())
    differences = tuple(difference for each in found for difference in each.differences)
    rows = sum(each.rows for each in found)
    plan = make_plan(state, rows, by_leaf, differences, strategy=strategy, through_spark=through_spark)
    return replace(plan, notes=tuple(dict.fromkeys(note for each in found for note in each.notes)))


def make_plan(
    state: TableState,
    rows: int,
    by_leaf: Mapping[str, int],
    differences: Iterable[Difference],
    *,
    strategy: str,
    through_spark: bool,
) -> IngestPlan:
    """Return the plan of data whose rows, their leaves and differences are known."""
    told = tuple(differences)
    leaves = () if told else tuple(
        LeafRows(leaf.id, leaf.region.text(state.schema), by_leaf[leaf.id])
        for leaf in state.tree.leaves
        if by_leaf.get(leaf.id)
    )  # fmt: skip
    files = len(leaves) if strategy == ONE_FILE_PER_LEAF else min(1, len(leaves))
    return IngestPlan(state.snapshot_id, rows, leaves, files, through_spark, strategy, told)


@dataclass(frozen=True, slots=True)
class _Look:
    rows: int
    by_leaf: Mapping[str, int]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def _look(source: Source, state: TableState) -> _Look:
    if isinstance(source, SourceFile) and source.format == "parquet":
        found = _look_at_parquet(source, state.schema)
    else:
        if isinstance(source, InMemory) and isinstance(source.data, pa.RecordBatchReader):
            raise InvalidInput("a reader gives its rows only once", hint="try with reader.read_all(), and ingest that")
        found = conformed(source, state.schema)
    by_leaf: Mapping[str, int] = {}
    if not found.differences and found.rows:
        keys = pa.table({key.name: found.columns[key.name] for key in state.schema.row_keys})
        by_leaf = rows_by_leaf(keys, state.tree, state.schema)
    return _Look(found.rows, by_leaf, found.differences, found.notes)


def _look_at_parquet(file: SourceFile, schema: Schema) -> Conformed:
    """Return the row keys and every difference of a Parquet file, whose footer tells most of it."""
    keys = {key.name for key in schema.row_keys}
    columns, found = {}, []
    with open_parquet(file) as opened:
        types = {f.name: f.type for f in opened.schema_arrow}
        found += compare_names(opened.schema_arrow.names, schema, types)
        twice = len(types) < len(opened.schema_arrow.names)
        for field in schema.fields if not twice else ():
            if field.name not in types:
                continue
            nulls = 0 if field.nullable else _nulls(opened.metadata, field)
            if nulls:
                found.append(nulls_refused(field.name, nulls))
            elif field.name in keys or nulls is None or types[field.name] != field.type.arrow:
                cast = compare_column(read_parquet(file, opened, field.name), field)
                if isinstance(cast, Difference):
                    found.append(cast)
                else:
                    columns[field.name] = cast
        rows = opened.metadata.num_rows
        return Conformed(columns, rows, tuple(found), null_notes(types, rows, schema)).of(file.address)


def _nulls(metadata: parquet.FileMetaData, field: Field) -> int | None:
    """Return how many nulls a flat column has, as the footer says; None where it does not say."""
    if pa.types.is_nested(field.type.arrow) or not metadata.num_row_groups:
        return None
    places = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == field.name]
    if not places:
        return None
    nulls = 0
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(places[0]).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
    return nulls
