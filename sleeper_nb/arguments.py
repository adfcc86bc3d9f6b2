"""Check the types of public arguments: `checked` refuses a value of another type, naming the argument."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sleeper_nb.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
    type(None): "None",
    Path: "a path",
}
_LONGEST = 60


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments whose types do not match the function's annotations.

    Keyword arguments that a `TypedDict` declares are checked too. Types that are imported for annotations only, `Any`
    and type variables accept every value. A string is not accepted as a sequence of strings, nor True and False as
    numbers. `InvalidInput` names the argument, the types that it takes and the value that was given; its hint is the
    `EXAMPLE` of the expected class, where it has one.
    """
    signature = inspect.signature(function)
    options = next((p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), "")
    several = next((p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_POSITIONAL), "")

    @functools.cache
    def expected() -> tuple[dict[str, Any], dict[str, Any]]:
        hints = _hints(function)
        of_options = get_type_hints(get_args(hints[options])[0]) if options else {}
        return {name: hints[name] for name in signature.parameters if name in hints and name != options}, of_options

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(name for name in signature.parameters if name != "self")
            raise TypeError(f"{function.__name__}() {error}; it takes {names}") from None
        (known, of_options), owner = expected(), bound.arguments.get("self")
        for name, value in bound.arguments.items():
            if name == options:
                _check_names(value, of_options, (*known, *of_options), function.__name__)
                value.update({each: _converted(each, of_options[each], value[each], owner) for each in value})
            elif name == several:
                bound.arguments[name] = tuple(_converted(name, known[name], each, owner) for each in value)
            elif name in known:
                bound.arguments[name] = _converted(name, known[name], value, owner)
        return function(*bound.args, **bound.kwargs)

    return call


def _check_names(given: Iterable[str], options: Iterable[str], known: Iterable[str], function: str) -> None:
    """Raise `TypeError` for an option that a function lacks, as Python does; `known` are all names that it takes."""
    for name in given:
        if name not in options:
            import difflib  # rarely needed

            near = difflib.get_close_matches(name, list(known))
            meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")


def _converted(name: str, hint: Any, value: Any, owner: object) -> Any:
    """Return a number of NumPy as Python's, and a one-pass iterable as a tuple; any other value as it is, or raise."""
    value = plain_integer(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}:
        value = bool(value)
    is_iterable = _is_container(value, Iterable) and not isinstance(value, AbstractSequence)
    if is_iterable and not _fits_a_dict(value, hint):
        origins = {get_origin(option) for option in _options(hint)}
        value = tuple(value) if origins & {AbstractSequence, Iterable} else value
    problem = _problem(value, hint) or _unstorable(value)
    if problem:
        raise InvalidInput(f"{name}{problem}", hint=_example(hint, owner))
    return value


def _example(hint: Any, owner: object) -> str | None:
    """Return the example that the expected class has, or the class that is being made."""
    makers = (*_options(hint), type(owner))
    return next((f"write {maker.EXAMPLE}" for maker in makers if hasattr(maker, "EXAMPLE")), None)


def _fits_a_dict(value: object, hint: Any) -> bool:
    return isinstance(value, Mapping) and any(get_origin(option) is Mapping for option in _options(hint))


def _unstorable(value: object) -> str:
    """Return why a text or a number cannot be stored in any file or catalog; the empty text when it can."""
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        return f" takes valid Unicode, not {described(value)}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f" takes an integer of at most 64 bits, not {described(value)}"
    return ""


class _Unknown:
    """A name that is imported for annotations only: any value fits it, and any type that is made of it."""

    def __getattr__(self, name: str) -> Any:
        return Any

    def __getitem__(self, item: object) -> Any:
        return Any

    def __or__(self, other: object) -> Any:
        return Any

    __ror__ = __or__


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        builtins = sys.modules["builtins"]
        return getattr(builtins, name) if hasattr(builtins, name) else _Unknown()


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    names = _Names(vars(sys.modules[function.__module__]))
    found = get_type_hints(function, globalns={}, localns=names)
    return {name: Any if isinstance(hint, _Unknown) else hint for name, hint in found.items()}


_OTHER: Final = "another type"


def _problem(value: object, hint: Any) -> str:
    """Return the message after the argument's name; the empty text when the value fits one of the types."""
    options = _options(hint)
    problems = [_problem_as(value, option) for option in options]
    if not all(problems):
        return ""
    of_right_kind = next((problem for problem in problems if problem != _OTHER), None)
    if of_right_kind is not None:  # it names the wrong member of a container, or says why it cannot be stored
        return of_right_kind
    choices = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    if choices:
        return f" is one of {', '.join(map(repr, choices))}, not {described(value)}"
    return f" takes {_listed(options)}, not {described(value)}"


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _problem_as(value: object, hint: Any) -> str:
    """Return what is wrong with a value as one type; `_OTHER` for a value of another one."""
    origin = get_origin(hint)
    if origin is Literal:
        return "" if isinstance(value, str) and value in get_args(hint) else _OTHER
    if origin is None:
        if hint is Any or isinstance(hint, (TypeVar, _Unknown, str)):
            return ""
        return _unstorable(value) if _is_a(value, hint) else _OTHER
    if not _is_container(value, origin):
        return _OTHER
    return next((f"{at}{problem}" for at, each, of in _members(value, hint) if (problem := _problem(each, of))), "")


def _is_a(value: object, kind: Any) -> bool:
    if not isinstance(kind, type) or (
        getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)
    ):
        return True
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is datetime and isinstance(value, datetime) and value != value:  # noqa: PLR0124 - pandas' NaT
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _is_container(value: object, origin: Any) -> bool:
    if origin is Callable:
        return callable(value)
    return isinstance(value, origin) and not isinstance(value, (str, bytes))


def _members(value: Any, hint: Any) -> Iterator[tuple[str, object, Any]]:
    """Yield the members of a container that iteration does not use up: the place, the value, and the type."""
    of = get_args(hint)
    if isinstance(value, Mapping) and len(of) == 2:
        for key, each in value.items():
            yield " has a key that", key, of[0]
            yield f"[{key!r}]", each, of[1]
    elif isinstance(value, (AbstractSequence, set, frozenset)) and of:
        for number, each in enumerate(value):
            yield f"[{number}]", each, of[0]


def _listed(options: Iterable[Any]) -> str:
    words = [_word(option) for option in options]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(hint: Any) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dict"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return "a list of strings" if get_args(hint)[:1] == (str,) else "a list"
    name = getattr(hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def plain_integer(value: Any) -> Any:
    """Return an integer of NumPy as Python's; any other value as it is."""
    return int(value) if type(value).__module__ == "numpy" and isinstance(value, Integral) else value


def described(value: object) -> str:
    """Return a value for a message, in one short line: plain values as Python writes them, others by type."""
    if isinstance(value, str):
        text = f"the string {value!r}"
    elif value is None or isinstance(value, (bool, int, float, Decimal, date, timedelta)):
        text = repr(value)
    elif isinstance(value, bytes):
        text = f"the bytes {value!r}"
    else:
        name = type(value).__name__
        text = f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
