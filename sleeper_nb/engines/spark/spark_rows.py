"""The rows of a query on Spark: a DataFrame, whose jobs run when rows are asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeVar

import pyarrow as pa

from sleeper_nb.engines.engine import EngineName
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import DEEP_CHECK, InvalidInput, SleeperError
from sleeper_nb.model.schema import is_utf8
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
from sleeper_nb.tabular import tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class SparkRows:
    """Rows that Spark reads.

    Parameters
    ----------
    bound
        The statement, for the places of errors.
    native
        The rows as a DataFrame.
    runtime
        Runs their jobs.
    """

    bound: Bound
    native: DataFrame
    runtime: SparkRuntime
    engine: ClassVar[EngineName] = "spark"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.native.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for _, kind in self.native.dtypes)

    def first(self, rows: int) -> pa.Table:
        return self._collected(self.native.limit(rows))

    def all(self) -> pa.Table:
        return self._collected(self.native)

    def count(self) -> int:
        return int(self._run(self.native.count))

    def batches(self, rows: int) -> Generator[pa.Table]:
        """Compute the rows once, keep them cached until the last batch, and read them in batches."""
        kept = self._run(self.native.persist)  # otherwise each batch is computed again, perhaps in another order
        try:
            for first in count(0, rows):
                batch = self._collected(kept.offset(first).limit(rows))
                yield batch
                if batch.num_rows < rows:
                    return
        finally:
            kept.unpersist()

    def batches_to_iterate(self, _: int) -> Generator[pa.Table]:
        yield from tables_of(self.all())

    def summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        made = self.runtime.kept_frames(self.native.sparkSession)
        return self._run(lambda: frames.summed_for_chart(made, self.native, values, query), "chart")

    def plan(self) -> str:
        return self._run(lambda: frames.plan_of(self.native), "plan")

    def plan_in(self, rows: pa.Table) -> str | None:
        if rows.column_names != ["plan"] or rows.num_rows != 1:
            return None
        (text,) = rows.column(0).to_pylist()
        return text.rstrip() if isinstance(text, str) and text.startswith("== ") else None

    def to_load(self, names: Sequence[str]) -> DataFrame:
        return self.native.toDF(*names)

    @contextmanager
    def placing(self) -> Iterator[None]:
        try:
            yield
        except SleeperError as error:
            for source in self.bound.sources:
                source.check_files()
            self.bound.texts.placed(error)
            raise

    def _collected(self, frame: DataFrame) -> pa.Table:
        try:
            rows = self._run(lambda: frames.as_arrow_has_it(frame).toArrow())
        except SleeperError:
            raise
        except ValueError as error:  # Arrow has no type for the elements of an empty list
            hint = "cast it: CAST(array() AS array<string>)"
            raise InvalidInput(f"Arrow has no type for a column of Spark's answer: {error}", hint=hint) from error
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if not is_utf8(column):  # Spark does not check
                hint = f"take its bytes: CAST(`{name}` AS binary); a deep check names the data file: "
                raise InvalidInput(f"column {name!r} has text that is not UTF-8", hint=(hint, DEEP_CHECK))
        return rows

    def _run(self, action: Callable[[], T], description: str = "query") -> T:
        with self.placing():
            return self.runtime.run(lambda _: action(), description)
