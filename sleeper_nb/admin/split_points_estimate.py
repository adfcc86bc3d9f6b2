"""Split points estimated from data, as Sleeper's ``estimateSplitPoints`` does: values, leaves, and a file of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sleeper_nb.errors import AlreadyExists, StorageError
from sleeper_nb.load.ingest import rows_by_leaf
from sleeper_nb.load.split import KeySample
from sleeper_nb.model.even_partitions import even_tree
from sleeper_nb.model.keys import KeyValue, key_text, write_split_points
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.report import Grid, TableReport, counted


@dataclass(frozen=True, slots=True, repr=False)
class SplitPointsEstimate(TableReport):
    """Split points of the first row key that cut data into leaves with about equal shares of its rows.

    Parameters
    ----------
    key
        The first row key.
    points
        The split points, in increasing order: one fewer than leaves.
    sampled
        How many of the sampled rows each leaf has.
    rows
        The number of rows of the data.
    asked
        How many leaves were asked for; there are fewer when one value occurs too often.
    """

    key: Field
    points: tuple[KeyValue, ...]
    sampled: tuple[int, ...]
    rows: int
    asked: int

    @classmethod
    def of(cls, schema: Schema, sample: KeySample, leaves: int) -> SplitPointsEstimate:
        """Estimate the points from a sample of the row keys."""
        first = Schema(schema.row_keys[:1])
        keys = sample.keys.select(first.names)
        tree = even_tree(first, keys, leaves, map("{:08}".format, count(1)).__next__)
        counts = rows_by_leaf(keys, tree, first)
        ordered = tuple(counts.get(leaf.id, 0) for leaf in tree.leaves)
        return cls(first.row_keys[0], tree.split_points(), ordered, sample.rows, leaves)

    def grid(self) -> Grid:
        """Return a row for each leaf: its keys, and about how many rows it gets."""
        total = max(1, sum(self.sampled))
        ends = ("-∞", *map(key_text, self.points), "∞")
        rows = tuple(
            (f"[{ends[i]}, {ends[i + 1]})" if i else f"({ends[i]}, {ends[i + 1]})", round(self.rows * count / total))
            for i, count in enumerate(self.sampled)
        )
        title = f"{counted(len(self.points), 'split point')} of {self.key.name}, for {counted(self.rows, 'row')}"
        footer = f"estimated from {counted(total, 'sampled row')}"
        if len(self.sampled) < self.asked:
            few = f"{self.asked} leaves were asked for, but values of {self.key.name} occur too often"
            footer += f"; {few}: create --from divides them by the next row key"
        return Grid((f"{self.key.name}", "rows, about"), rows, title, footer)

    def write(self, path: str | Path, *, strings_base64: bool = False) -> Path:
        """Write the points to a new file, one a line, as ``--splits-file`` reads them; return its path.

        Raises
        ------
        AlreadyExists
            When there is such a file.
        InvalidInput
            When a string does not fit on a line: write them in base64.
        """
        text, target = write_split_points(self.points, self.key, strings_base64=strings_base64), Path(path).expanduser()
        try:
            with target.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        except FileExistsError as error:
            raise AlreadyExists(f"{target} exists already", hint="give the name of a new file") from error
        except OSError as error:
            raise StorageError(f"cannot write {target}: {error.strerror}", hint="choose another place") from error
        return target
