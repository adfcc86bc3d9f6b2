"""What creating a table from data makes: its columns, its partitions and their rows; possible keys; split points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sleeper_nb.errors import Action, AlreadyExists, Hint, StorageError, hint_text
from sleeper_nb.load.conform import Difference
from sleeper_nb.load.data_columns import DataColumn, GroupedNumbers, OddTexts, has_valid_name
from sleeper_nb.load.ingest import rows_by_leaf
from sleeper_nb.load.load_options import valid_name
from sleeper_nb.load.load_report import LeafRows
from sleeper_nb.load.split import KeyCandidate, KeySample
from sleeper_nb.model.keys import KeyValue, key_text, write_split_points
from sleeper_nb.model.load_hints import BY_NAME
from sleeper_nb.model.partitions import even_tree
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.report import Bytes, Grid, Report, TableReport, counted


@dataclass(frozen=True, slots=True, repr=False)
class CreatePlan(Report):
    """What `Session.create_table` would create from data, or which columns could be its row keys.

    Parameters
    ----------
    table
        The table's name.
    schema
        Its schema; None while no row keys are chosen, or a column does not fit.
    rows, bytes
        Rows of the data, and the size of its files; 0 bytes for data in memory. None for rows that were not counted.
    leaves
        The rows that each leaf would get.
    differences
        Every column that no field can hold, and every value that does not fit its field.
    candidates
        The columns as possible row keys, when none were chosen.
    columns
        The columns of the data, in its order.
    replaces
        Whether an existing table would be replaced.
    notes
        What a load changes although every value fits.
    odd_texts
        The columns that are text only because of a few values, or of separators of thousands.
    choice
        What chooses row keys.
    """

    table: str
    schema: Schema | None
    rows: int | None
    bytes: int
    leaves: tuple[LeafRows, ...] = ()
    differences: tuple[Difference, ...] = ()
    candidates: tuple[KeyCandidate, ...] = ()
    columns: tuple[DataColumn, ...] = ()
    replaces: bool = False
    notes: tuple[str, ...] = ()
    odd_texts: tuple[OddTexts | GroupedNumbers, ...] = ()
    choice: Hint = Action("--keys a,b", "row_keys=['a', 'b']")  # noqa: RUF009 - it is frozen
    prefix: str = ""

    def grid(self) -> Grid:
        """Return the columns of the table; or what is wrong with the data, or the possible row keys."""
        if self.candidates:
            return self._keys()
        if self.schema is None or self.differences:
            return self._wrong()
        schema, verb = self.schema, "replace" if self.replaces else "create"
        rows = tuple((f.name, schema.role(f.name), str(f.type), _yes(f.nullable)) for f in schema.fields)
        title = f"would {verb} {self.table} with {self._size()}"
        footer = "; ".join(("nothing was changed", self._leaves_text(), *self.notes))
        footer = "\n".join((footer, *self._text_notes()))
        return Grid(("column", "role", "type", "nullable"), rows, title, footer)

    def _text_notes(self) -> Iterator[str]:
        return (hint_text(each.line, self.prefix) for each in self.odd_texts)

    def _size(self) -> str:
        rows = "rows" if self.rows is None else counted(self.rows, "row")
        return f"{rows} of {Bytes(self.bytes)} of files" if self.bytes else rows

    def _leaves_text(self) -> str:
        if not self.leaves:
            return "1 leaf"
        counts = [leaf.rows for leaf in self.leaves]
        if len(counts) == 1:
            return "1 leaf"
        return f"{len(counts)} leaves of {min(counts):,} to {max(counts):,} rows"

    def _wrong(self) -> Grid:
        title = f"would not create {self.table} ({counted(len(self.differences), 'difference')})"
        cells = tuple((d.column, d.problem, hint_text(d.hint, self.prefix), d.source) for d in self.differences)
        return Grid(("column", "what is wrong", "what to change", "file"), cells, title)

    def _can_be_key(self, candidate: KeyCandidate, names: Counter[str]) -> str:
        name = candidate.column.name
        if names[name.casefold()] > 1:
            return "no, another column has its name"
        if not candidate.fits or has_valid_name(candidate.column):
            return _yes(candidate.fits)
        return f"as {valid_name(name)}, with {BY_NAME.text(self.prefix)}"

    def _keys(self) -> Grid:
        names = Counter(each.column.name.casefold() for each in self.candidates)
        rows = tuple(
            (
                each.column.name,
                str(each.column.type or ""),
                *((each.distinct, each.nulls) if each.compared else ("", "")),
                self._can_be_key(each, names),
            )
            for each in self.candidates
        )
        looked_at = self.candidates[0].rows if self.candidates else 0
        title = f"columns of the data, as row keys of {self.table}"
        choose = hint_text(self.choice, self.prefix)
        footer = f"based on {counted(looked_at, 'row')}; choose with {choose}, the column you filter on most first"
        for each in self.differences:
            footer += f"\n{each.problem}: {hint_text(each.hint, self.prefix)}"
        footer = "\n".join((footer, *self.notes, *self._text_notes()))
        return Grid(("column", "type", "distinct", "nulls", "can be a key"), rows, title, footer)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# Split points estimated from data, as Sleeper's ``estimateSplitPoints`` does: values, leaves, and a file of them.


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
