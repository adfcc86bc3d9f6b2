"""Iterators: a user's Python functions that change rows, found by name and checked against their contract.

An iterator is a function ``(batch: pyarrow.RecordBatch, config: str) -> pyarrow.RecordBatch``. It receives every column
of the table and all rows of one or more row keys, never a part of the rows of a row key; the rows are sorted by row
keys and sort keys. It must return rows with the same columns, still sorted, with keys between the first and the last
key that it received. The result for a row key must not depend on the rows of other row keys, nor on the order of rows
that are equal on all keys.

Compaction runs the iterator on some files of a leaf, and queries run it again on what compaction has written. So it
must also not matter whether it has already processed a part of the rows: ``f(f(a) + b) == f(a + b)``. Functions that
keep the last row of each key, drop rows or round values meet this rule; functions that number rows or double values do
not.

For example, in a table with one row key ``id``, this keeps the last row of each key::

    def last_only(batch, config):
        id = batch["id"]
        return batch.filter(pa.concat_arrays([pc.not_equal(id[:-1], id[1:]), pa.array([True])]))
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound, first_line
from sleeper_nb.model.permissions import Function
from sleeper_nb.model.processing import PythonIterator
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.data_files import is_sorted, run_starts

logger = logging.getLogger(__name__)

ENTRY_POINTS = "sleeper_nb.iterators"
"""The group of entry points under which packages offer iterators by a short name."""


def find_iterator(iterator: PythonIterator) -> Function:
    """Return the function that an iterator names, if the user has allowed that name.

    A name that is not allowed is not imported, as it comes from a file in the warehouse.

    `NotAllowed` when the user has not allowed the name; the hint says how to. `NotFound` when there is no such entry
    point or function; the hint suggests the nearest. `InvalidInput` when the module cannot be imported, or the name is
    not that of a function.
    """
    name = iterator.name
    allowed = iterator.permissions.function(name)
    if allowed is not None:
        return allowed
    logger.debug("importing iterator %s", name)
    if ":" in name:
        return _function_in_module(name)
    import importlib.metadata  # slow, and few tables have an iterator

    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    if name not in points.names:
        known = sorted(points.names)
        error = NotFound.of("iterator", name, known)
        raise error if known else NotFound(error.message, hint="write package.module:function")
    return _checked_callable(name, _imported(name, points[name].load))


def _function_in_module(name: str) -> Function:
    module_name, _, path = name.partition(":")
    module = _imported(name, lambda: importlib.import_module(module_name))
    value = module
    for part in path.split("."):
        if not hasattr(value, part):
            functions = [each for each, member in vars(module).items() if callable(member) and not each.startswith("_")]
            raise NotFound.of("function", path, functions, where=f" in {module_name}")
        value = getattr(value, part)
    return _checked_callable(name, value)


def _imported(name: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except Exception as error:  # the import of a user's module can raise anything
        raise InvalidInput(
            f"iterator {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint="install its package wherever the table is read, including Spark's executors",
        ) from error


def _checked_callable(name: str, value: object) -> Function:
    if not callable(value):
        hint = "name a function with the parameters (batch, config)"
        raise InvalidInput(f"iterator {name!r} is a {type(value).__name__}, not a function", hint=hint)
    return value


def run_iterator(
    batches: Iterable[pa.RecordBatch], function: Function, iterator: PythonIterator, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that an iterator returns; it gets all rows of a row key in one call.

    Holds one batch and the rows of one row key in memory.

    `InvalidInput` when the function fails or breaks its contract; the error names the iterator.

    Parameters
    ----------
    function, iterator
        The function, and the name and configuration that it is called with.
    """
    for batch in _whole_keys(batches, [key.name for key in schema.row_keys]):
        try:
            output = function(batch, iterator.config)
        except Exception as error:
            raise InvalidInput(
                f"iterator {iterator.name!r} failed: {type(error).__name__}: {error}",
                hint="correct the function; no row was changed",
            ) from error
        yield _checked_output(output, batch, iterator.name, schema)


def _whole_keys(batches: Iterable[pa.RecordBatch], keys: list[str]) -> Iterator[pa.RecordBatch]:
    """Divide a sorted stream into new batches, so that no two batches have rows of the same row key."""
    last_key: list[pa.RecordBatch] = []  # the rows of the last row key, which may continue in the next batch
    for batch in batches:
        if not batch.num_rows:
            continue
        last_start = int(run_starts(batch, keys)[-1])
        if last_start or not (last_key and _same_key(last_key[-1], batch, keys)):
            yield from _one_batch([*last_key, batch.slice(0, last_start)])
            last_key = []
        last_key.append(batch.slice(last_start))
    yield from _one_batch(last_key)


def _one_batch(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        yield pa.concat_batches(rows)


def _same_key(one: pa.RecordBatch, other: pa.RecordBatch, keys: list[str]) -> bool:
    return all(one[key][0] == other[key][0] for key in keys)


def _checked_output(output: object, given: pa.RecordBatch, name: str, schema: Schema) -> pa.RecordBatch:
    """Return an iterator's output with the types of the table; raise `InvalidInput` if it breaks the contract."""
    if not isinstance(output, pa.RecordBatch):
        raise InvalidInput(
            f"iterator {name!r} returned a {type(output).__name__}, not a RecordBatch",
            hint="return a pyarrow.RecordBatch",
        )
    if output.schema.names != given.schema.names:
        raise InvalidInput(
            f"iterator {name!r} returned the columns {', '.join(output.schema.names)}",
            hint=f"return the columns that it receives: {', '.join(given.schema.names)}",
        )
    try:
        rows = output.cast(schema.arrow)
        rows.validate(full=True)  # a cast does not check that text is UTF-8
    except (ValueError, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"iterator {name!r} returned rows that do not fit the table: {first_line(error)}",
            hint="keep the types of the columns, and return no null where it receives none",
        ) from error
    keys = list(schema.sort_order)
    # Between the first and last key that it received, so that batches stay in order and within this leaf's region.
    ends = [given.slice(0, 1), rows, given.slice(given.num_rows - 1)]
    if not is_sorted(pa.Table.from_batches(ends).select(keys)):
        raise InvalidInput(
            f"iterator {name!r} returned rows that are not sorted, or keys outside the range that it received",
            hint=f"keep the rows in order of {', '.join(keys)}",
        )
    return rows
