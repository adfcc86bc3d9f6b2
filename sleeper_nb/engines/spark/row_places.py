"""The places of rows that Spark's own reader reads, and the anti join that removes the deleted ones.

Spark gives the size and the name of a row's file, and its place in the file. A number stands for the file, whose last
bits are free for the place: its size where no other file has the same, as that costs nothing for a row, else a hash of
its name. Deleted rows are kept as arrays of bits, one bit for each row of a block: rows of a file come in
order, so those that follow each other look up the same array, which is in the processor's cache.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.read.live_rows import Positions, positions_of
from sleeper_nb.read.scan_plan import PlannedFile
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.paths import is_foreign

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NUMBER: Final = "sleeper:number"
_BLOCK, _DELETED = "sleeper:block", "sleeper:deleted"
_WORD: Final = 6
"""The rows whose bits are in one whole number, as a power of two."""
_BLOCKS: Final = (16, 12, _WORD)
"""The rows of a block, as powers of two: the larger, the faster, and the more memory for few rows far apart."""
_MOST_BYTES: Final = 32 << 20
"""The most memory for the arrays of one table, unless the smallest blocks need more."""
_BLOCK_BITS: Final = 28
"""The bits of a file's number that are free for the number of a block: no file has 2**34 rows."""
_LARGEST: Final = 1 << 63 - _BLOCK_BITS
"""Files with so many bytes have no number by their size."""
_MOST_SALTS: Final = 10
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_OF_SPARK: Final = ("_metadata", "_tmp_metadata")


@dataclass(frozen=True, slots=True)
class FileNumbers:
    """Different numbers for files, which Spark computes from what it gives for each row's file.

    Parameters
    ----------
    salt
        Makes hashes of names different; None where the numbers are sizes.
    numbers
        The number of each file, by its path.
    """

    spark: SparkSession
    salt: int | None
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, spark: SparkSession, sizes: Mapping[str, int], columns: Sequence[str]) -> FileNumbers | None:
        """Return the numbers; None when Spark cannot tell the files apart, or a column has the name of Spark's own.

        Parameters
        ----------
        spark, sizes
            The session, and the bytes of the files by their paths, as they were checked.
        """
        if any(name.casefold().startswith(_OF_SPARK) for name in columns):
            return None
        is_own = not any(map(is_foreign, sizes))  # sizes of files that others own are not checked
        if is_own and len(set(sizes.values())) == len(sizes) and max(sizes.values(), default=0) < _LARGEST:
            return cls(spark, None, {path: size << _BLOCK_BITS for path, size in sizes.items()})
        return cls._by_names(spark, list(sizes))

    @classmethod
    def _by_names(cls, spark: SparkSession, files: Sequence[str]) -> FileNumbers | None:
        names = [path.rpartition("/")[2] for path in files]
        if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
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

        size = f.shiftleft(f.col("_metadata.file_size"), _BLOCK_BITS)
        number = size if self.salt is None else _hash("_metadata.file_name", self.salt)
        return [number.alias(_NUMBER), f.col("_metadata.row_index").alias(POSITION)]

    def without_deleted(self, rows: DataFrame, files: Sequence[PlannedFile], storage: Storage) -> DataFrame:
        """Return rows of some files without the deleted ones."""
        from pyspark.sql import functions as f

        deleted = {file.filename: positions_of(file.deletions, storage) for file in files}
        size = _block_size(deleted.values())
        blocks = f.broadcast(self.spark.createDataFrame(self._blocks(deleted, size)))
        block = f.col(_NUMBER).bitwiseOR(f.shiftright(POSITION, size))
        word = f"`{_DELETED}`[CAST(shiftright(`{POSITION}`, {_WORD}) AS INT) & {(1 << size - _WORD) - 1}]"
        bit = f.expr(f"shiftright({word}, CAST(`{POSITION}` & 63 AS INT)) & 1")
        return rows.join(blocks, (block == f.col(_BLOCK)) & (bit == 1), "left_anti")

    def numbered(self, rows: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
        """Return rows with the number of each one's file; `numbers` by path."""
        from pyspark.sql import functions as f

        known: Any = pa.table({
            _BLOCK: pa.array([self.numbers[name] for name in numbers], pa.int64()),
            FILE_NUMBER: pa.array(numbers.values(), pa.int32()),
        })  # fmt: skip
        return rows.join(f.broadcast(self.spark.createDataFrame(known)), f.col(_NUMBER) == f.col(_BLOCK))

    def _blocks(self, deleted: Mapping[str, Positions], size: int) -> pa.Table:
        """Return the arrays of bits of the blocks that have deleted rows, and the number of each block and its file."""
        blocks, bits = [], []
        for filename, positions in deleted.items():
            numbers, arrays = _bits_of(positions, size)
            blocks.append(pa.array(numbers | self.numbers[filename]))
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
