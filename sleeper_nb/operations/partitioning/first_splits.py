"""The split points that a new table is cut at: as values, as their texts, or in the file that its properties name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.keys import parse_key
from sleeper_nb.model.properties import SPLITS_BASE64, SPLITS_FILE, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.split_points import read_split_points
from sleeper_nb.operations.loading.source_files import find_files
from sleeper_nb.storage.bounds import lies_within
from sleeper_nb.storage.filesystem import Storage


def with_splits(properties: TableProperties, given: bool, file: str | None, strings_base64: bool) -> TableProperties:
    """Return a table's properties with another split points file, or with none when points are given by themselves."""
    if file is None and not given:
        return properties
    texts = {name: text for name, text in properties.texts.items() if name not in {SPLITS_FILE, SPLITS_BASE64}}
    if file is not None:
        texts |= {SPLITS_FILE: file, SPLITS_BASE64: "true" if strings_base64 else "false"}
    return replace(properties, texts=texts)


def initial_split_points(
    schema: Schema, given: Iterable[Any] | None, properties: TableProperties, home: Storage
) -> list[Any]:
    """Return values of the first row key; none where neither points nor a file is given.

    Parameters
    ----------
    schema
        The table's schema.
    given
        Values, or texts of values as they stand in a split points file; None is none.
    properties
        ``sleeper.table.splits.file`` names a file, or ``s3://`` object; ``sleeper.table.splits.base64.encoded`` says
        that strings in it are in base64.
    home
        Where the warehouse is: its region and server are those of other buckets too.

    Raises
    ------
    NotFound
        When there is no such file.
    InvalidInput
        When points are given twice, or one cannot be; the line of a file is named.
    """
    field, points, file = schema.row_keys[0], list(() if given is None else given), properties[SPLITS_FILE]
    if not file:
        return [parse_key(field, point, what="split point") if isinstance(point, str) else point for point in points]
    if points:
        raise InvalidInput(f"split points are given, and the file {file} too", hint="leave one of them out")
    try:
        found = find_files(file, home)
    except NotFound as error:
        raise NotFound(f"no split points file {file!r}", hint="give the path of a file") from error
    if len(found) != 1:
        raise InvalidInput(f"{file} is {len(found)} files", hint="give the path of one file of split points")
    try:
        text = found[0].storage.read(found[0].path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is no UTF-8", hint="write the split points in UTF-8, or in base64") from error
    # of a file elsewhere, which a property may name by mistake, errors show no line
    within = lies_within(file, home.root.rpartition("/")[0])
    return list(
        read_split_points(text, field, strings_base64=properties[SPLITS_BASE64], source=file, shows_lines=within)
    )
