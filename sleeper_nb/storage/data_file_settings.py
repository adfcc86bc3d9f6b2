"""How data files are written: a table's properties as one value that every writer is handed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema

_PREFIX = "sleeper.table.parquet"
_DICTIONARY = f"{_PREFIX}.dictionary.encoding"


@dataclass(frozen=True, slots=True)
class DataFileSettings:
    """What a table's ``sleeper.table.parquet.*`` properties ask of its data files; the defaults are theirs.

    Parameters
    ----------
    row_group_rows
        Rows of a row group; its first keys are an equi-depth sample of the file's keys.
    page_bytes
        How large a page grows before it is compressed. A dictionary that would outgrow it is given up for the rest of
        its row group.
    compression
        ``zstd``, ``snappy``, ``gzip``, ``lz4``, ``none`` or ``uncompressed``.
    page_version
        Of the data pages, 1 or 2.
    row_key_dictionaries, sort_key_dictionaries, value_dictionaries
        Whether these columns are written with dictionaries. Sleeper's defaults are false for all. Ours are true for
        sort keys and values: on real data the files are smaller and aggregations over them take less than half.
    """

    row_group_rows: int = 100_000
    page_bytes: int = 131_072
    compression: str = "zstd"
    page_version: int = 2
    row_key_dictionaries: bool = False
    sort_key_dictionaries: bool = True
    value_dictionaries: bool = True

    @classmethod
    def of(cls, properties: TableProperties) -> Self:
        """Return the settings of a table."""
        return cls(
            row_group_rows=properties[f"{_PREFIX}.rowgroup.rows.max"],
            page_bytes=properties[f"{_PREFIX}.page.size"],
            compression=properties[f"{_PREFIX}.compression.codec"],
            page_version=int(properties[f"{_PREFIX}.writer.version"].removeprefix("v")),
            row_key_dictionaries=properties[f"{_DICTIONARY}.rowkey.fields"],
            sort_key_dictionaries=properties[f"{_DICTIONARY}.sortkey.fields"],
            value_dictionaries=properties[f"{_DICTIONARY}.value.fields"],
        )

    def writer_options(self, schema: Schema) -> dict[str, Any]:
        """Return what PyArrow's Parquet writer is told for files of a schema."""
        groups = (
            (self.row_key_dictionaries, schema.row_keys),
            (self.sort_key_dictionaries, schema.sort_keys),
            (self.value_dictionaries, schema.values),
        )
        with_dictionary = [field for on, fields in groups if on for field in fields]
        return {
            "compression": "none" if self.compression == "uncompressed" else self.compression,
            "data_page_size": self.page_bytes,
            "dictionary_pagesize_limit": self.page_bytes,
            "data_page_version": f"{self.page_version}.0",
            "use_dictionary": [path for field in with_dictionary for path in _columns_of(field.name, field.type.arrow)],
        }


def _columns_of(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a field's columns in a Parquet file: several, when it is nested."""
    if pa.types.is_list(kind):
        yield from _columns_of(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _columns_of(f"{path}.key_value.key", kind.key_type)
        yield from _columns_of(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _columns_of(f"{path}.{field.name}", field.type)
    else:
        yield path
