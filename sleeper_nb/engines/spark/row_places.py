"""The places of rows that Spark's own reader reads, and the join that leaves out the deleted ones.

Spark tells the name of a row's file and its place in the file. A number stands for the name, a hash whose last bits are
free for the place. Deleted rows are kept as arrays of bits, one bit for each row of a block: rows of a file come in
order, so those that follow each other look up the same array, which is in the processor's cache.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from sleeper_nb.operations.scanning.live_rows import Positions, positions_of
from sleeper_nb.operations.scanning.scan_plan import FILE_NUMBER, POSITION, PlannedFile
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HASH: Final = "sleeper:hash"
_BLOCK, _DELETED = "sleeper:block", "sleeper:deleted"
_WORD: Final = 6
"""The rows whose bits are in one whole number, as a power of two."""
_BLOCKS: Final = (16, 12, _WORD)
"""The rows of a block, as powers of two: the larger, the faster, and the more memory for few rows far apart."""
_MOST_BYTES: Final = 32 << 20
"""The most memory for the arrays of one table, unless the smallest blocks need more."""
_BLOCK_BITS: Final = 28
"""The bits of a hash that are free for the number of a block: no file has 2**34 rows."""
_MOST_SALTS: Final = 10
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_OF_SPARK: Final = ("_metadata", "_tmp_metadata")


@dataclass(frozen=True, slots=True)
class FileHashes:
    """Different numbers for the names of files, which Spark computes from the name of each row's file.

    Parameters
    ----------
    spark
        Computes them.
    salt
        Makes them different.
    hashes
        The number of each file, by its path.
    """

    spark: SparkSession
    salt: int
    hashes: Mapping[str, int]

    @classmethod
    def of(cls, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> FileHashes | None:
        """Return the numbers; None when Spark cannot tell the files apart, or a column has the name of Spark's own.

        Parameters
        ----------
        spark, files
            The session, and the paths.
        columns
            The columns that the files have.
        """
        names = [path.rpartition("/")[2] for path in files]
        if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
            return None
        if any(name.casefold().startswith(_OF_SPARK) for name in columns):
            return None
        rows = spark.createDataFrame(pa.table({"name": names}))
        for salt in range(_MOST_SALTS):
            hashes = rows.select(_hash("name", salt).alias("hash")).toArrow()["hash"].to_pylist()
            if len(set(hashes)) == len(files):
                return cls(spark, salt, dict(zip(files, hashes, strict=True)))
        return None

    def columns(self) -> list[Column]:
        """Return the columns that rows need for the other methods, the last of them their positions."""
        from pyspark.sql import functions as f

        return [_hash("_metadata.file_name", self.salt).alias(_HASH), f.col("_metadata.row_index").alias(POSITION)]

    def without_deleted(self, rows: DataFrame, files: Sequence[PlannedFile], storage: Storage) -> DataFrame:
        """Return rows of some files without the deleted ones."""
        from pyspark.sql import functions as f

        deleted = {file.filename: positions_of(file.deletions, storage) for file in files}
        size = _block_size(deleted.values())
        blocks = f.broadcast(self.spark.createDataFrame(self._blocks(deleted, size)))
        block = f.col(_HASH).bitwiseOR(f.shiftright(POSITION, size))
        word = f"`{_DELETED}`[CAST(shiftright(`{POSITION}`, {_WORD}) AS INT) & {(1 << size - _WORD) - 1}]"
        bit = f.expr(f"shiftright({word}, CAST(`{POSITION}` & 63 AS INT)) & 1")
        return rows.join(blocks, (block == f.col(_BLOCK)) & (bit == 1), "left_anti")

    def numbered(self, rows: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
        """Return rows with the number of each one's file; `numbers` by path."""
        from pyspark.sql import functions as f

        known: Any = pa.table({
            _BLOCK: pa.array([self.hashes[name] for name in numbers], pa.int64()),
            FILE_NUMBER: pa.array(numbers.values(), pa.int32()),
        })  # fmt: skip
        return rows.join(f.broadcast(self.spark.createDataFrame(known)), f.col(_HASH) == f.col(_BLOCK))

    def _blocks(self, deleted: Mapping[str, Positions], size: int) -> pa.Table:
        """Return the arrays of bits of the blocks that have deleted rows, and the number of each block and its file."""
        blocks, bits = [], []
        for filename, positions in deleted.items():
            numbers, arrays = _bits_of(positions, size)
            blocks.append(pa.array(numbers | self.hashes[filename]))
            bits.append(arrays)
        return pa.table({_BLOCK: pa.chunked_array(blocks, pa.int64()), _DELETED: pa.chunked_array(bits)})


def _block_size(deleted: Collection[Positions]) -> int:
    """Return how large blocks are, as a power of two: the largest whose arrays do not need too much memory."""
    for size in _BLOCKS:
        blocks = sum(np.count_nonzero(np.diff(positions >> size)) + 1 for positions in deleted)
        if blocks << size >> 3 <= _MOST_BYTES:
            return size
    return _BLOCKS[-1]


def _bits_of(positions: Positions, size: int) -> tuple[Positions, pa.Array]:
    """Return the numbers of the blocks of some sorted positions, and for each an array with the bits of its rows."""
    words, firsts = np.unique(positions >> _WORD, return_index=True)
    numbers, at = np.unique(words >> size - _WORD, return_inverse=True)
    width = 1 << size - _WORD
    bits = np.zeros((len(numbers), width), np.int64)
    if len(words):
        bits[at, words & width - 1] = np.bitwise_or.reduceat(np.left_shift(np.int64(1), positions & 63), firsts)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * width
    return numbers, pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(bits.ravel()))


def _hash(name: str, salt: int) -> Column:
    from pyspark.sql import functions as f

    return f.xxhash64(f.col(name), f.lit(salt)).bitwiseAND(f.lit(-1 << _BLOCK_BITS))
