"""What public functions say of an argument of another type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import sleeper_nb as sl
from sleeper_nb.arguments import checked
from sleeper_nb.progress import SILENT, Progress

if TYPE_CHECKING:
    import nowhere


@checked
def take(
    limit: int | None = None,
    name: str = "",
    names: Iterable[str] = (),
    columns: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    engine: Literal["spark", "duckdb"] = "duckdb",
    force: bool = False,
    folder: str | Path = ".",
    other: nowhere.Frame | None = None,
    values: Iterable[Any] = (),
):
    return limit, columns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["a", "\ud800"]}, "columns[1] takes valid Unicode, not the string '\\ud800'"),
        ({"names": ("\udfff",)}, "names[0] takes valid Unicode, not the string '\\udfff'"),
        ({"limit": "5"}, "limit takes an integer or None, not the string '5'"),
        ({"limit": True}, "limit takes an integer or None, not True"),
        ({"limit": 2.0}, "limit takes an integer or None, not 2.0"),
        ({"name": 5}, "name takes a string, not 5"),
        ({"names": "city"}, "names takes a list of strings, not the string 'city'"),
        ({"names": ["a", 5]}, "names[1] takes a string, not 5"),
        ({"columns": "city"}, "columns takes a list of strings or None, not the string 'city'"),
        ({"properties": {"a": 5}}, "properties['a'] takes a string, not 5"),
        ({"properties": {5: "a"}}, "properties has a key that takes a string, not 5"),
        ({"properties": ["a"]}, "properties takes a dict or None, not a list"),
        ({"engine": "spork"}, "engine is one of 'spark', 'duckdb', not the string 'spork'"),
        ({"engine": None}, "engine is one of 'spark', 'duckdb', not None"),
        ({"force": 1}, "force takes True or False, not 1"),
        ({"folder": b"x"}, "folder takes a string or a path, not the bytes b'x'"),
        ({"values": "gn"}, "values takes a list, not the string 'gn'"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_argument(arguments, message):
    with pytest.raises(sl.InvalidInput) as error:
        take(**arguments)
    assert error.value.message == message


def test_numbers_of_numpy_and_one_pass_iterables_are_taken():
    limit, columns = take(np.int64(5), columns=(name for name in "ab"), force=np.array([True])[0])
    assert (type(limit), limit, columns) == (int, 5, ("a", "b"))


@checked
def work(progress: Progress = SILENT) -> Progress:
    return progress


def test_a_callback_that_lacks_a_method_is_refused():
    assert work(SILENT) is SILENT
    with pytest.raises(sl.InvalidInput, match="progress takes a Progress, not "):
        work({}.update)


def test_a_type_that_is_only_imported_for_annotations_takes_every_value():
    take(other=object(), folder=Path())


def test_each_of_several_values_is_checked():
    @checked
    def join(*names: str) -> str:
        return "".join(names)

    assert join() == ""
    assert join("a", "é") == "aé"
    with pytest.raises(sl.InvalidInput, match="names takes a string, not 5"):
        join("a", 5)


def test_arguments_that_a_function_lacks_are_answered_with_those_that_it_has(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        with pytest.raises(TypeError, match=r"sql\(\) got an unexpected .*'x'; it takes statement, engine, params, "):
            session.sql("SELECT :x", x=60)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"sql\(\) too many positional arguments; it takes statement, engine, "):
            session.sql("SELECT :x", {"x": 60})  # type: ignore[misc]
