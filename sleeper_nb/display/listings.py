"""Listings of a version of a table: its fields, its files and its leaf partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.display.preview import MAX_BYTES, bounded_with_html
from sleeper_nb.model.file_reference import VALUE_COLUMNS, Totals
from sleeper_nb.model.schema import Field
from sleeper_nb.model.state import TableState
from sleeper_nb.report import (
    SHOWN_ROWS,
    Bytes,
    Data,
    Grid,
    Listing,
    Report,
    counted,
)
from sleeper_nb.tabular import Items


@dataclass(frozen=True, slots=True, repr=False)
class FileListing(Report, Items[dict[str, Any]]):
    """References to files, one dictionary each; created on access, as there may be a million.

    Parameters
    ----------
    references
        In the order in which they are shown.
    title
        The line above the listing.
    """

    references: pa.Table
    title: str

    @classmethod
    def of(cls, at: Versioned) -> FileListing:
        """Return the files that a version reads, in the order of their partitions; within each, the oldest first."""
        active, leaves = at.state.files.active, pa.array([leaf.id for leaf in at.state.tree.leaves], pa.string())
        place = pc.index_in(active["partition_id"], value_set=leaves)
        by = pa.table({"place": place, "added": active["added_snapshot"], "filename": active["filename"]})
        ordered = active.take(pc.sort_indices(by, [(name, "ascending") for name in by.column_names]))
        return cls(ordered, f"files of {at.name} at {at.resolved}")

    def grid(self) -> Grid:
        """Return the first files; when there are more, the footer has their number."""
        cut = f"first {SHOWN_ROWS} of {len(self):,} rows" if len(self) > SHOWN_ROWS else ""
        files = len(pc.unique(self.references["filename"]))
        shared = f"{len(self):,} references to {counted(files, 'file')}" if files != len(self) else ""
        footer = " · ".join(filter(None, (cut, shared)))
        return Grid(self._columns(), tuple(map(self._cells, self[:SHOWN_ROWS])), self.title, footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of each column."""
        rows = list(map(self._cells, self))
        return {name: [row[i] for row in rows] for i, name in enumerate(self._columns())}

    def to_arrow(self) -> pa.Table:
        """Return every property of each reference as an Arrow table."""
        return self.references

    def _keys(self) -> list[str]:
        return [name for name in self.references.column_names if name.startswith(VALUE_COLUMNS)]

    def _columns(self) -> tuple[str, ...]:
        return ("file", "partition", "rows", "bytes", "added", *(name.replace("_", " ", 1) for name in self._keys()))

    def _cells(self, row: dict[str, Any]) -> tuple[object, ...]:
        name = row["filename"].rpartition("/")[2]
        keys = (Data(row[key]) for key in self._keys())
        return (name, row["partition_id"], row["rows"], Bytes(row["bytes"]), row["added_snapshot"], *keys)

    def __len__(self) -> int:
        return int(self.references.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.references.to_pylist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.references.take(pa.array(range(len(self))[index], pa.int64())).to_pylist()
        return self.references.slice(range(len(self))[index], 1).to_pylist()[0]


def field_listing(at: Versioned) -> Listing[Field]:
    """Return the fields of a version, with the role, the type and the nullability of each."""
    shown = at.state.schema.grid()
    return Listing(at.state.schema.fields, shown.columns, shown.rows, f"fields of {at.name} at {at.resolved}")


def leaf_listing(at: Versioned) -> Listing[dict[str, Any]]:
    """Return the leaf partitions with their regions, files, rows and bytes."""
    state = at.state
    items, cells = [], []
    totals = state.files.by_partition()
    for leaf in state.tree.leaves:
        files, rows, size = totals.get(leaf.id, Totals())
        region = leaf.region.text(state.schema)
        items.append({"partition_id": leaf.id, "region": region, "files": files, "rows": rows, "bytes": size})
        cells.append((region, leaf.id, files, rows, Bytes(size)))
    columns = ("keys", "partition", "files", "rows", "bytes")
    return Listing(tuple(items), columns, tuple(cells), f"partitions of {at.name} at {at.resolved}")


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Versioned(Protocol):
    """A table at one version, as pictures and listings need it."""

    name: str

    @property
    def resolved(self) -> object: ...  # noqa: D102 - documented by the class that implements it, and so is the next

    @property
    def state(self) -> TableState: ...  # noqa: D102


class Listed(Protocol[T_co]):
    """A listing below a picture: `sleeper_nb.report.Listing`, or anything that is shown as one."""

    def grid(self) -> Grid: ...  # noqa: D102 - as in Report, and so is the next

    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102

    def to_arrow(self) -> pa.Table: ...  # noqa: D102

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Any: ...

    def __iter__(self) -> Iterator[T_co]: ...


@dataclass(frozen=True, slots=True, repr=False)
class Pictured(Report, Items[T], Generic[T]):
    """A listing below a picture; on the console, below the same picture as text."""

    listing: Listed[T]
    picture: str
    lines: str

    def grid(self) -> Grid:
        """Return the listing."""
        return self.listing.grid()

    def to_dict(self) -> dict[str, Any]:
        """Return the values of each column of the listing."""
        return self.listing.to_dict()

    def to_arrow(self) -> pa.Table:
        """Return the listing as an Arrow table."""
        return self.listing.to_arrow()

    def __repr__(self) -> str:
        return f"{self.lines}\n{replace(self.grid(), title='').text()}"

    def _repr_html_(self) -> str:
        _, listing = bounded_with_html(self.grid(), MAX_BYTES - len(self.picture.encode()))
        return f"{self.picture}{listing}"

    def __len__(self) -> int:
        return len(self.listing)

    def __getitem__(self, index: Any) -> Any:
        return self.listing[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self.listing)
