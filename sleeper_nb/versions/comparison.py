"""Plan a comparison of two versions: find the regions where they can differ, because their files differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.evolution import mapped
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition, PartitionTree, Region
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.read.predicate import Condition, Regions, inclusive_projection, prune_regions
from sleeper_nb.read.scan_plan import PlannedFile, PlannedLeaf, files_in, files_of, regions_of


@dataclass(frozen=True, slots=True)
class DifferingRegion:
    """A region that lies in one leaf of each version, with the files of each leaf that must be read to compare it."""

    before: PlannedLeaf
    after: PlannedLeaf


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Which rows are compared: by default all."""

    regions: Sequence[Region] | None = None  # only rows in these regions, which must not overlap; all when None
    reached: Regions | None = None  # regions outside of which no row meets `where`; the whole table when None
    where: Condition | None = None

    @classmethod
    def of(cls, schema: Schema, keys: Any, region: Any, where: Condition | None) -> ComparedRows:
        """Return it for keys or a region as `regions_of` takes them, and for a condition; errors as `regions_of`."""
        regions: Sequence[Region] | None = regions_of(schema, keys, region)
        if where is None:
            return cls(regions)
        met = where.predicate
        return cls(prune_regions(regions, met, schema), inclusive_projection(met, schema), where)

    def parts_of(self, region: Region) -> list[Region]:
        """Return the parts of a region that are compared."""
        if self.reached is not None and not any(region.intersect(each) is not None for each in self.reached):
            return []
        if self.regions is None:
            return [region]
        return [part for each in self.regions if (part := region.intersect(each)) is not None]


ALL_ROWS = ComparedRows()


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """What must be read to find the rows that two versions do not share."""

    # before, after: the schemas of the two versions, with which their rows are read and processed
    before: Schema
    after: Schema
    newer: Schema
    # processing_before, processing_after: how their rows are processed before they are compared: as queries do now
    processing_before: DataProcessing
    processing_after: DataProcessing
    regions: tuple[DifferingRegion, ...]  # in the order of the leaves of `after`
    files_of: int  # how many data files the two versions have together
    where: Condition | None = None  # the condition of the rows that are compared; None for all in the regions

    @property
    def files(self) -> int:
        leaves = [leaf for region in self.regions for leaf in (region.before, region.after)]
        return len({file.filename for leaf in leaves for file in leaf.files})

    @property
    def bytes(self) -> int:
        leaves = [leaf for region in self.regions for leaf in (region.before, region.after)]
        return sum({file.filename: file.bytes for leaf in leaves for file in leaf.files}.values())

    @property
    def stored_rows(self) -> bool:
        return self.processing_before.is_nothing and self.processing_after.is_nothing

    @property
    def columns_differ(self) -> bool:
        before, after = (
            [(each.column, each.name, each.type) for each in of.fields] for of in (self.before, self.after)
        )
        return before != after

    def of(self, regions: Iterable[DifferingRegion]) -> VersionComparison:
        return replace(self, regions=tuple(regions))

    @property
    def schema(self) -> pa.Schema:
        """The columns that are compared: those of the newer version; nullable where either version has nulls."""
        versions = [{field.column: field for field in schema.fields} for schema in (self.before, self.after)]
        fields = []
        for field in self.newer.fields:
            is_nullable = any(field.column not in own or own[field.column].nullable for own in versions)
            fields.append(field.arrow.with_nullable(is_nullable))
        return pa.schema(fields)

    def names(self, schema: Schema) -> Mapping[str, str]:
        """Return the name of each compared column in the schema of one of the versions, where it has the column.

        Columns are matched by their names in data files: a column of the same name can be a different one.
        """
        own = {field.column: field.name for field in schema.fields}
        return {field.name: own[field.column] for field in self.newer.fields if field.column in own}


def compare(
    before: TableState,
    after: TableState,
    processing_before: DataProcessing,
    processing_after: DataProcessing,
    rows: ComparedRows = ALL_ROWS,
) -> VersionComparison:
    """Return what to read, from the metadata of the two versions alone.

    Data files never change. So a file that both versions have in a region has the same rows in both, and is not read
    there; if its deletion vectors differ, only the rows at positions that just one of them has are read. With an
    iterator or aggregations that is not enough, because a row may change through its neighbours, which come from other
    files: then a region is skipped only when all of its files are the same, and read whole otherwise. Filters judge
    each row by itself, as of one moment for both versions. Where the two versions process their rows in different
    ways, all files are read. Where only some `rows` are compared, files that have none of them are not read.

    `InvalidInput` when the versions have different keys, so that their rows have no common order; or when the columns
    of the newer version cannot hold the rows of the older one.
    """
    newer = newer_schema(before, after)
    processed_alike = _by_columns(processing_before, before.schema) == _by_columns(processing_after, after.schema)
    row_by_row = processed_alike and processing_before.only_filters
    old, new = _unshared(before, after) if processed_alike else (before, after)
    regions = []
    for new_leaf, old_leaf, region in _regions(old, new):
        pairs: list[tuple[list[PlannedFile], list[PlannedFile]]] = []
        for part in rows.parts_of(region):
            reached = rows.reached
            old_files, new_files = files_in(old, old_leaf, part, reached), files_in(new, new_leaf, part, reached)
            if processed_alike:  # after a split, both may have a file through different references
                old_files, new_files = _only_of_one(old_files, new_files), _only_of_one(new_files, old_files)
            if (old_files or new_files) and not row_by_row:
                old_files = files_in(before, old_leaf, part, reached)
                new_files = files_in(after, new_leaf, part, reached)
            pairs.append((old_files, new_files))
        if any(old_files or new_files for old_files, new_files in pairs):
            old_leaves, new_leaves = zip(*pairs, strict=True)
            before_leaf = PlannedLeaf(old_leaf, tuple(chain(*old_leaves)))
            regions.append(DifferingRegion(before_leaf, PlannedLeaf(new_leaf, tuple(chain(*new_leaves)))))
    files = files_of(before)[0] + _new_files(new, before)
    return VersionComparison(
        before.schema, after.schema, newer, processing_before, processing_after, tuple(regions), files, rows.where
    )


def _only_of_one(files: Sequence[PlannedFile], others: Sequence[PlannedFile]) -> list[PlannedFile]:
    """Return what must be read of one version's files in a region, given those of the other version.

    Of a file that both have, only rows that the other version has deleted are read: the others are in both.
    """
    vectors = {file.filename: file.deletions for file in others}
    needed = [file for file in files if file.filename not in vectors]
    for file in files:
        deleted = vectors.get(file.filename)
        if deleted is not None and deleted != file.deletions:
            needed.append(file._replace(only=deleted, rows_exact=False))
    return needed


def newer_schema(before: TableState, after: TableState) -> Schema:
    """Return the schema of the newer state, whose columns are compared; errors as of `compare`."""
    if _keys(before.schema) != _keys(after.schema):
        raise InvalidInput(
            f"snapshots {before.snapshot_id} and {after.snapshot_id} have different row keys or sort keys",
            hint="compare them by SQL",
        )
    older, newer = sorted((before, after), key=lambda state: state.snapshot_id)
    try:
        mapped(older.schema, newer.schema)
    except InvalidInput as error:
        raise InvalidInput(
            f"snapshots {older.snapshot_id} and {newer.snapshot_id} cannot be compared: {error.message}",
            hint="compare them by SQL",
        ) from error
    return newer.schema


def _by_columns(processing: DataProcessing, schema: Schema) -> tuple[object, ...]:
    """Return a value that is equal for equal processing, even if columns have other names in the other version."""
    columns = {field.name: field.column for field in schema.fields}
    return (
        [(columns[each.field], each.max_age_ms) for each in processing.filters],
        processing.now if processing.filters else None,
        (processing.iterator, schema) if processing.iterator else None,  # it sees the names of all columns
        {(columns[each.field], each.operation, columns.get(each.sequence)) for each in processing.aggregations},
        columns.get(processing.delete_column),
    )


def _keys(schema: Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in (*schema.row_keys, *schema.sort_keys)]


def _unshared(before: TableState, after: TableState) -> tuple[TableState, TableState]:
    """Return the two states with only those references that the other one does not have.

    A partition's region never changes, so a reference that both have cannot make a difference.
    """
    old_files, new_files = map(FileReferences.of, before.files.unshared(after.files))
    return replace(before, files=old_files), replace(after, files=new_files)


def _regions(before: TableState, after: TableState) -> Iterator[tuple[Partition, Partition, Region]]:
    """Yield the leaf of `after`, the leaf of `before` and the region that they share, where either has references."""
    used_before, used_after = _used_leaves(before), _used_leaves(after)
    for leaf in after.tree.leaves:
        for older in _overlapping(before.tree, leaf):
            region = leaf.region.intersect(older.region)
            if region is not None and (leaf.id in used_after or older.id in used_before):
                yield leaf, older, region


def _used_leaves(state: TableState) -> set[str]:
    used: set[str] = set()
    for partition_id in state.files.active["partition_id"].unique().to_pylist():
        partition = state.tree[partition_id]
        leaves = (partition,) if partition.is_leaf else state.tree.leaves_in(partition.region)
        used.update(leaf.id for leaf in leaves)
    return used


def _overlapping(tree: PartitionTree, leaf: Partition) -> tuple[Partition, ...]:
    """Return the leaves of a tree that share keys with a leaf of another tree; usually the same leaf."""
    if leaf.id in tree and tree[leaf.id].is_leaf and tree[leaf.id].region == leaf.region:
        return (tree[leaf.id],)
    return tree.leaves_in(leaf.region)


def _new_files(unshared: TableState, before: TableState) -> int:
    names = unshared.files.active["filename"].unique()
    earlier = before.files.active["filename"]
    known = earlier.filter(pc.is_in(earlier, value_set=names))
    return len(names) - len(known.unique())
