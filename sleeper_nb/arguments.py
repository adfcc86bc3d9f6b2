"""Check the types of public arguments: `checked` refuses a value of another type, naming the argument."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import (
    Any,
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
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments whose types do not match the function's annotations.

    Keyword arguments that a `TypedDict` declares are checked too. Types that are imported for annotations only, `Any`
    and type variables accept every value. A string is not accepted as a sequence of strings, nor True and False as
    numbers. The hint of an error is the `EXAMPLE` of the expected
    class, where it has one.

    Raises
    ------
    InvalidInput
        From the returned function: names the argument, the types that it takes and the value that was given.
    """
    signature = inspect.signature(function)
    options = next((p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), "")
    shape = _Shape.of(signature)

    @functools.cache
    def expected() -> dict[str, _Argument]:
        hints = _hints(function)
        return {
            name: _Argument.of(name, hints[name], several=parameter.kind is inspect.Parameter.VAR_POSITIONAL)
            for name, parameter in signature.parameters.items()
            if name in hints and name != options
        }

    @functools.cache
    def expected_options() -> dict[str, _Argument]:
        (named,) = get_args(_hints(function)[options])
        return {name: _Argument.of(name, hint, several=False) for name, hint in get_type_hints(named).items()}

    def fits_as_it_is(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        known, given = expected(), chain(zip(shape.by_place, args, strict=False), kwargs.items())
        return shape.binds(args, kwargs) and all(
            name not in known or known[name].plainly_fits(value) for name, value in given
        )

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if fits_as_it_is(args, kwargs):
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(name for name in signature.parameters if name != "self")
            raise TypeError(f"{function.__name__}() {error}; it takes {names}") from None
        for name, argument in expected().items():
            if name in bound.arguments and not argument.plainly_fits(bound.arguments[name]):
                bound.arguments[name] = argument.converted(bound.arguments[name], bound.arguments.get("self"))
        if options in bound.arguments:
            given = bound.arguments[options]
            _check_names(given, expected_options(), (*expected(), *expected_options()), function.__name__)
            for name, argument in expected_options().items():
                if name in given and not argument.plainly_fits(given[name]):
                    given[name] = argument.converted(given[name], bound.arguments.get("self"))
        return function(*bound.args, **bound.kwargs)

    return call


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which arguments a function takes, taken apart once: `inspect.Signature.bind` takes longer than most calls.

    Parameters
    ----------
    by_place
        The names of the arguments that can be given by their place.
    by_name
        Those that can be given by their name.
    required
        Those without a default.
    """

    by_place: tuple[str, ...]
    by_name: frozenset[str]
    required: frozenset[str]

    @classmethod
    def of(cls, signature: inspect.Signature) -> _Shape:
        kinds = {p.name: p.kind for p in signature.parameters.values()}
        by_place = tuple(name for name, kind in kinds.items() if kind in _BY_PLACE)
        by_name = frozenset(name for name, kind in kinds.items() if kind in _BY_NAME)
        empty = inspect.Parameter.empty
        required = frozenset(name for name in (*by_place, *by_name) if signature.parameters[name].default is empty)
        return cls(by_place, by_name, required)

    def binds(self, args: AbstractSequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether the function takes these arguments; False also for ``*args`` and ``**kwargs`` of its own."""
        placed = self.by_place[: len(args)]
        return (
            len(placed) == len(args)
            and self.by_name.issuperset(kwargs)
            and kwargs.keys().isdisjoint(placed)
            and self.required.issubset((*placed, *kwargs))
        )


def _check_names(given: Iterable[str], options: Iterable[str], known: Iterable[str], function: str) -> None:
    """Raise `TypeError` for an option that a function lacks, as Python does; `known` are all names that it takes."""
    for name in given:
        if name not in options:
            import difflib  # rarely needed

            near = difflib.get_close_matches(name, list(known))
            meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")


@dataclass(frozen=True, slots=True)
class _Argument:
    """The type of one argument, taken apart once so that most values are accepted at a glance.

    Parameters
    ----------
    name, hint
        The argument's name and annotation.
    several
        Whether it is a tuple of values, as ``*args`` are.
    classes
        The classes whose own instances fit.
    choices
        The strings that a `Literal` allows.
    members
        The class of the members of a list or tuple, where the annotation names exactly one.
    """

    name: str
    hint: Any
    several: bool
    classes: frozenset[type]
    choices: frozenset[str]
    members: frozenset[type]

    @classmethod
    def of(cls, name: str, hint: Any, *, several: bool) -> _Argument:
        options = _options(hint)
        classes = frozenset(option for option in options if isinstance(option, type) and option is not int)
        literals = (get_args(option) for option in options if get_origin(option) is Literal)
        lists = [get_args(option)[0] for option in options if get_origin(option) in (AbstractSequence, Iterable)]
        plain = len(lists) == 1 and isinstance(lists[0], type) and lists[0] is not int
        members = frozenset(lists) if plain else frozenset()
        if several:
            return cls(name, hint, several, frozenset(), frozenset(), classes)
        if hint is Any:
            classes = frozenset({str, list, tuple})
        return cls(name, hint, several, classes, frozenset(choice for each in literals for choice in each), members)

    def plainly_fits(self, value: Any) -> bool:
        """Return whether a value fits as it is; False when only a closer look can tell."""
        kind = type(value)
        if kind is str:
            return value.isascii() and (str in self.classes or value in self.choices)
        if kind in self.classes:
            return True
        if kind is list or kind is tuple:
            known = bool(self.members) and self.members.issuperset(map(type, value))
            return known and all(each.isascii() for each in value if type(each) is str)
        return False

    def converted(self, value: Any, owner: object) -> Any:
        """Return a value as the function takes it, or raise; `owner` is the function's ``self``."""
        if self.several:
            return tuple(self._converted(each, owner) for each in value)
        return self._converted(value, owner)

    def _converted(self, value: Any, owner: object) -> Any:
        """Return a number of NumPy as Python's, and a one-pass iterable as a tuple; any other value as it is."""
        value = plain_integer(value)
        if type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}:
            value = bool(value)
        is_iterable = _is_container(value, Iterable) and not isinstance(value, AbstractSequence)
        if is_iterable and not _fits_a_dict(value, self.hint):
            origins = {get_origin(option) for option in _options(self.hint)}
            value = tuple(value) if origins & {AbstractSequence, Iterable} else value
        problem = _problem(value, self.hint) or _unstorable(value) or _unstorable_member(value, self.hint)
        if problem:
            raise InvalidInput(f"{self.name}{problem}", hint=_example(self.hint, owner))
        return value


def _example(hint: Any, owner: object) -> str | None:
    """Return the example that the expected class has, or the class that is being made."""
    makers = (*_options(hint), type(owner))
    return next((f"write {maker.EXAMPLE}" for maker in makers if hasattr(maker, "EXAMPLE")), None)


def _fits_a_dict(value: object, hint: Any) -> bool:
    return isinstance(value, Mapping) and any(get_origin(option) is Mapping for option in _options(hint))


def _unstorable(value: object) -> str:
    """Return why a text or a number cannot be stored in any file or catalog; the empty text when it can."""
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        return f" takes valid Unicode, not {described(value)}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f" takes an integer of at most 64 bits, not {described(value)}"
    return ""


def _unstorable_member(value: object, hint: Any) -> str:
    for option in _options(hint):
        if get_origin(option) in (AbstractSequence, Iterable) and _is_container(value, AbstractSequence):
            problems = ((where, _unstorable(each)) for where, each, of in _members(value, option) if of in (str, int))
            return next((f"{where}{problem}" for where, problem in problems if problem), "")
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


def _problem(value: object, hint: Any) -> str:
    """Return the message after the argument's name; the empty text when the value fits."""
    if _fits(value, hint):
        return ""
    options = _options(hint)
    for option in options:  # of a container of the right kind, name the wrong member
        inner = _wrong_member(value, option)
        if inner:
            return inner
    choices = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    if choices:
        return f" is one of {', '.join(map(repr, choices))}, not {described(value)}"
    return f" takes {_listed(options)}, not {described(value)}"


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    if hint is Any or isinstance(hint, (TypeVar, _Unknown, str)):
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin is None:
        return _is_a(value, hint)
    return _is_container(value, origin) and all(_fits(each, of) for _, each, of in _members(value, hint))


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


def _wrong_member(value: object, hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (None, Literal, Union, types.UnionType) or not _is_container(value, origin):
        return ""
    wrong = ((where, each, of) for where, each, of in _members(value, hint) if not _fits(each, of))
    found = next(wrong, None)
    return "" if found is None else f"{found[0]}{_problem(found[1], found[2])}"


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
