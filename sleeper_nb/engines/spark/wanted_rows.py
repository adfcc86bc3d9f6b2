"""Which rows the options of Spark's data source want: those in a region, and those that meet a condition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.spark.source_options import SourceOptions
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.read.file_statistics import columns_of
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Predicate, Pruning, inclusive_projection
from sleeper_nb.read.row_condition import Condition
from sleeper_nb.read.scan_plan import PlannedLeaf, regions_of, within_region
from sleeper_nb.versions.comparison import ComparedRows


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Which rows are wanted of a table that is read with a schema.

    Parameters
    ----------
    region
        Only rows in it; None for the whole table.
    where
        Only rows that meet it, after the table's filters, iterator and aggregations; it can be pickled.
    """

    schema: Schema
    region: Region | None
    where: Condition | None

    @classmethod
    def of(cls, options: SourceOptions, schema: Schema, engines: Engines) -> WantedRows:
        """Return what options want.

        Raises
        ------
        InvalidInput, NotFound
            When the region or the condition does not fit the schema.
        """
        regions = regions_of(schema, region=options.region)
        where = None if options.where is None else engines.condition(options.where, schema, repeatable=True).picklable()
        return cls(schema, None if regions is None else regions[0], where)

    @property
    def predicate(self) -> Predicate:
        """What a row must meet at least to meet the condition."""
        return ALWAYS_TRUE if self.where is None else And((self.where.predicate, *self.where.implied))

    def pruning(self, state: TableState, *, by_row: bool = True) -> Pruning:
        """Return what can be pruned of a version, as no row in it meets the condition.

        Statistics are used only `by_row`, where no row changes through others before the condition, and where the
        version's columns are those of the schema: a stream keeps the columns that it was started with, and a column
        that was added later can have the name of another.
        """
        tested = columns_of(self.predicate)
        own, theirs = (
            {field.name: field.column for field in schema.fields if field.name in tested}
            for schema in (self.schema, state.schema)
        )
        return Pruning(
            inclusive_projection(self.predicate, self.schema),
            self.predicate if by_row and own == theirs else ALWAYS_TRUE,
        )

    def chosen(self, leaves: Iterable[PlannedLeaf]) -> Iterator[PlannedLeaf]:
        """Yield the leaves that the region reaches, each file restricted to it."""
        yield from leaves if self.region is None else within_region(leaves, self.region)

    @property
    def compared(self) -> ComparedRows:
        """The same rows, for a comparison of two versions."""
        reached = inclusive_projection(self.predicate, self.schema)
        return ComparedRows(None if self.region is None else [self.region], reached, self.where)
