"""Check the names that a load gives to columns: in order, or as pairs, against the data and the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from sleeper_nb.errors import Action, HintParts, InvalidInput, NotFound
from sleeper_nb.load.conform import BY_NAME
from sleeper_nb.load.csv_files import NO_HEADER, is_of_values
from sleeper_nb.load.data_columns import DataColumn
from sleeper_nb.load.file_formats import header_names
from sleeper_nb.load.in_memory import names_of
from sleeper_nb.load.json_files import json_names
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.model.schema import Schema


def check_named_columns(sources: Sequence[IngestSource], matching: Matching, schema: Schema | None = None) -> None:
    """Check the names before any row is loaded; reads headers, and of JSON files as many rows as it needs.

    Parameters
    ----------
    matching
        How its columns become those of the table.
    schema
        The table's schema; None while there is none.

    Raises
    ------
    InvalidInput
        When columns are named in order, but the data has none, or one in each file.
    NotFound
        When a pair names a column that the table or the data lacks.
    """
    if matching.columns:
        _check_order(sources, matching)
    targets = [target for _, target in matching.renames] if schema is not None else []
    for target in targets:
        if schema is not None and target not in schema.names:
            raise NotFound.of("column", target, schema.names, where=" in the table")
    if matching.renames:
        _check_sources(sources, [source for source, _ in matching.renames])


def _check_order(sources: Sequence[IngestSource], matching: Matching) -> None:
    known: dict[str, tuple[int, str]] = {}
    for source in sources:
        label = source.label if isinstance(source, SourceFile) else "the data"
        names = _ordered_names(source)
        if names is None:
            what = f"the objects of {label}" if isinstance(source, SourceFile) else "a list of dictionaries"
            raise InvalidInput(f"columns cannot be named in order for {what}", hint=_hint_to_pairs(matching.columns))
        if len(sources) == 1:
            return
        for name in dict.fromkeys(names):
            place = names.index(name)
            first, where = known.setdefault(name, (place, label))
            if first != place:
                problem = f"column {name!r} is number {first + 1} in {where}, but number {place + 1} in {label}"
                raise InvalidInput(problem, hint=_hint_to_pairs(matching.columns))


def _hint_to_pairs(columns: Sequence[str]) -> HintParts:
    option = Action(f"--columns NAME={columns[0]}", f"columns={{NAME: {columns[0]!r}}}")
    return "give pairs of the data's and the table's name: ", option


def _ordered_names(source: IngestSource) -> Sequence[str] | None:
    """Return the names of the columns in order; none of a file without a header, None where there is no order."""
    if not isinstance(source, SourceFile):
        return None if isinstance(source.data, list) else names_of(source.data) or ()
    return None if source.format == "json" else header_names(source)


def _check_sources(sources: Sequence[IngestSource], wanted: Sequence[str]) -> None:
    missing, found = dict.fromkeys(wanted), dict[str, None]()
    for source in sources:
        names = _names(source)
        if names is None:  # it can be read only once, and does not say its columns before
            return
        for name in names:
            found[name] = None
            missing.pop(name, None)
            if not missing:
                return
    for name in missing:
        raise NotFound.of("column", name, found, where=" in the data")


def _names(source: IngestSource) -> Iterable[str] | None:
    """Return every name of a column, some several times; None if they are only known after reading."""
    if not isinstance(source, SourceFile):
        if isinstance(source.data, list):
            return (str(name) for row in source.data if isinstance(row, dict) for name in row)
        return names_of(source.data)
    of_file = json_names(source) if source.format == "json" else header_names(source)
    return chain((value.name for value in source.folder_values), of_file)


def check_has_names(sources: Sequence[IngestSource], columns: Sequence[DataColumn], matching: Matching) -> None:
    """Check that the columns of new tables have names: given ones, or those of a header that has no values.

    Raises
    ------
    InvalidInput
        When the first line of a file is said to have no names, and none are given; or may have values.
    """
    files = [each for each in sources if isinstance(each, SourceFile) and each.format in {"csv", "excel"}]
    bare = next((each for each in files if not each.csv.header), None)
    if bare is not None and not matching.columns:
        letters = [f"c{number}" for number in range(1, len(columns) + 1)]
        names = Action(f"--columns {','.join(letters)}", f"columns={letters!r}")
        raise InvalidInput(f"{bare.label} has no column names", hint=("name them in order: ", names))
    given = [each.name_in_data for each in columns] if matching.columns else [each.name for each in columns]
    if bare is None and files and is_of_values(given):
        listed = ", ".join(map(repr, [each.name_in_data for each in columns][:_MOST_NAMES]))
        option = NO_HEADER if matching.columns else Action("--no-header --columns a,b", "header=False, columns=[…]")
        hint: HintParts = ("if it has values, add ", option)
        if not matching.columns:
            hint = (*hint, "; if it has names, add ", BY_NAME)
        raise InvalidInput(f"the first line of {files[0].label} may have no column names: {listed}", hint=hint)


_MOST_NAMES = 5
