"""Where two versions of a table can differ: the regions whose files are not the same in both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.evolution import mapped
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition, PartitionTree, Region
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.scan_plan import PlannedLeaf, files_in, files_of


@dataclass(frozen=True, slots=True)
class DifferingRegion:
    """A region that lies in one leaf of each version, with those files of each leaf that must be read to compare it."""

    before: PlannedLeaf
    after: PlannedLeaf


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """What is read to know which rows two versions do not share, and what is left unread.

    Parameters
    ----------
    before, after
        The schemas of the two versions, with which their rows are read and processed.
    newer
        The schema of the newer version, whose columns are compared.
    processing_before, processing_after
        What is done with their rows before they are compared: what queries do now.
    regions
        In the order of the leaves of the later version.
    files_of
        How many data files the two versions have together.
    """

    before: Schema
    after: Schema
    newer: Schema
    processing_before: DataProcessing
    processing_after: DataProcessing
    regions: tuple[DifferingRegion, ...]
    files_of: int

    @property
    def files(self) -> int:
        """How many data files are read."""
        sides = (side for region in self.regions for side in (region.before, region.after))
        return len({file.filename for side in sides for file in side.files})

    @property
    def stored_rows(self) -> bool:
        """Whether the rows that are compared are those in the files."""
        return self.processing_before.is_nothing and self.processing_after.is_nothing

    def of(self, regions: Iterable[DifferingRegion]) -> VersionComparison:
        """Return the comparison of some of the regions."""
        return replace(self, regions=tuple(regions))

    @property
    def schema(self) -> pa.Schema:
        """The columns that are compared: those of the newer version; nullable where either version has nulls."""
        known = [{field.column: field for field in schema.fields} for schema in (self.before, self.after)]
        return pa.schema(
            field.arrow.with_nullable(any(field.column not in of or of[field.column].nullable for of in known))
            for field in self.newer.fields
        )

    def names(self, schema: Schema) -> Mapping[str, str]:
        """Return what the compared columns are called in the schema of one of the versions, where it has them.

        A column is known by its name in data files: one of the same name can be another one.
        """
        own = {field.column: field.name for field in schema.fields}
        return {field.name: own[field.column] for field in self.newer.fields if field.column in own}


def compare(
    before: TableState, after: TableState, processing_before: DataProcessing, processing_after: DataProcessing
) -> VersionComparison:
    """Find out what to read; the metadata of the two versions tells.

    Data files never change. So the rows that a file common to both versions has in a region are in both, and it is not
    read there. With an iterator or aggregations that is not enough, as a row may change because of rows beside it,
    which come from other files: then a region is passed over only when all of its files are the same, and is read
    whole otherwise. Filters judge each row by itself, and at one moment for both versions. Where the two versions
    process their rows in different ways, all files are read.

    Raises
    ------
    InvalidInput
        When the versions have other keys, so that their rows have no common order; or when the columns of the newer one
        cannot hold the rows of the older one.
    """
    if _keys(before.schema) != _keys(after.schema):
        raise InvalidInput(
            f"snapshots {before.snapshot_id} and {after.snapshot_id} have other row keys or sort keys",
            hint="compare them by SQL",
        )
    newer = _newer_schema(before, after)
    same = _of_columns(processing_before, before.schema) == _of_columns(processing_after, after.schema)
    alone = same and processing_before.only_filters
    old, new = _unshared(before, after) if same else (before, after)
    found = []
    for leaf, older, region in _regions(old, new):
        mine, theirs = files_in(old, older, region), files_in(new, leaf, region)
        # by other references, of a split
        common = {file.filename for file in mine} & {file.filename for file in theirs} if same else set()
        mine, theirs = ([file for file in side if file.filename not in common] for side in (mine, theirs))
        if not mine and not theirs:
            continue
        if not alone:
            mine, theirs = files_in(before, older, region), files_in(after, leaf, region)
        found.append(DifferingRegion(PlannedLeaf(older, tuple(mine)), PlannedLeaf(leaf, tuple(theirs))))
    files = files_of(before)[0] + _new_files(new, before)
    return VersionComparison(
        before.schema, after.schema, newer, processing_before, processing_after, tuple(found), files
    )


def _newer_schema(before: TableState, after: TableState) -> Schema:
    """Return the schema of the newer state; raise when the rows of the older one cannot have its columns."""
    older, newer = sorted((before, after), key=lambda state: state.snapshot_id)
    try:
        mapped(older.schema, newer.schema)
    except InvalidInput as error:
        raise InvalidInput(
            f"snapshots {older.snapshot_id} and {newer.snapshot_id} cannot be compared: {error.message}",
            hint="compare them by SQL",
        ) from error
    return newer.schema


def _of_columns(processing: DataProcessing, schema: Schema) -> tuple[object, ...]:
    """Return what is equal when rows are processed in one way, whatever the columns are called in each version."""
    columns = {field.name: field.column for field in schema.fields}
    return (
        [(columns[each.field], each.max_age_ms) for each in processing.filters],
        processing.now if processing.filters else None,
        (processing.iterator, schema) if processing.iterator else None,  # it sees the names of all columns
        {(columns[each.field], each.operation) for each in processing.aggregations},
    )


def _keys(schema: Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in (*schema.row_keys, *schema.sort_keys)]


def _unshared(before: TableState, after: TableState) -> tuple[TableState, TableState]:
    """Return the two states with only those references that the other one does not have.

    A partition's region never changes, so a reference that is in both says nothing of their difference.
    """
    mine, theirs = map(FileReferences.of, before.files.unshared(after.files))
    return replace(before, files=mine), replace(after, files=theirs)


def _regions(before: TableState, after: TableState) -> Iterator[tuple[Partition, Partition, Region]]:
    """Yield each region that is one leaf's part in both trees, with the leaf after and before, where references are."""
    used_before, used_after = _used_leaves(before), _used_leaves(after)
    for leaf in after.tree.leaves:
        for older in _overlapping(before.tree, leaf):
            region = leaf.region.intersect(older.region)
            if region is not None and (leaf.id in used_after or older.id in used_before):
                yield leaf, older, region


def _used_leaves(state: TableState) -> set[str]:
    """Return the leaves that take rows from a file, by a reference of their own or of a partition above them."""
    owners = map(state.tree.__getitem__, state.files.active["partition_id"].unique().to_pylist())
    leaves = ((owner,) if owner.is_leaf else state.tree.leaves_in(owner.region) for owner in owners)
    return {leaf.id for each in leaves for leaf in each}


def _overlapping(tree: PartitionTree, leaf: Partition) -> tuple[Partition, ...]:
    """Return the leaves of one tree that share keys with a leaf of another; mostly it is the same leaf."""
    if leaf.id in tree and tree[leaf.id].is_leaf and tree[leaf.id].region == leaf.region:
        return (tree[leaf.id],)
    return tree.leaves_in(leaf.region)


def _new_files(unshared: TableState, before: TableState) -> int:
    """Return how many data files some references name that no reference of an earlier state names."""
    names = unshared.files.active["filename"].unique()
    known = before.files.active["filename"].filter(pc.is_in(before.files.active["filename"], value_set=names))
    return len(names) - len(known.unique())
