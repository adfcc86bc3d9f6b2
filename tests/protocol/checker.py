"""Explores every order of the steps of a few operations, breadth first: the first trace found is a shortest one.

An operation is a generator function: it yields a request to the world, and is sent the answer. What it knows between
two requests follows from the answers that it has had; so an operation under way is the tuple of its answers, and two
orders of steps that lead to the same world and the same answers are explored once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Refused(Exception):  # noqa: N818 - an answer, not a failure of the checker
    """The world does not do what was asked; `why` is the name of the reason."""

    def __init__(self, why: str, about: Hashable = None) -> None:
        super().__init__(why if about is None else f"{why} {about}")
        self.why, self.about = why, about

    @property
    def key(self) -> tuple[str, Hashable]:
        return self.why, self.about


LOST, FAILED = "the answer was lost", "failed"


class Request(Protocol):
    """A step: one call of the catalog or the storage."""

    @property
    def changes(self) -> bool:
        """Whether it can change something."""

    def do(self, world: Any) -> tuple[Any, Hashable]:
        """Return the world afterwards and the answer; raise `Refused` when nothing is done."""


Program = Generator[Any, Any, Hashable]
Answer = tuple[bool, Hashable]
"""Whether the request was done, and the answer or the reason."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an operation ended: with a value, or refused."""

    value: Hashable = None
    refused: tuple[str, Hashable] | None = None


DEAD = Ended(refused=("killed", None))


@dataclass(frozen=True)
class Operation:
    """An operation of one process.

    Parameters
    ----------
    name
        Of the process.
    program
        Starts it.
    """

    name: str
    program: Callable[[], Program]
    _next: dict[tuple[Answer, ...], Any] = field(default_factory=dict, compare=False)

    def after(self, answers: tuple[Answer, ...]) -> Any:
        """Return the request that follows some answers, or how the operation ended."""
        if answers not in self._next:
            self._next[answers] = self._replayed(answers)
        return self._next[answers]

    def _replayed(self, answers: tuple[Answer, ...]) -> Any:
        program = self.program()
        try:
            request = next(program)
            for done, answer in answers:
                request = program.send(answer) if done else program.throw(Refused(*answer))  # type: ignore[misc]
        except StopIteration as end:
            return Ended(end.value)
        except Refused as refused:
            return Ended(refused=refused.key)
        return request


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a trace: which process did what, and what came of it."""

    who: str
    request: Any
    came: str

    @property
    def kind(self) -> tuple[str, ...]:
        return self.who, type(self.request).__name__, self.came

    def __str__(self) -> str:
        return f"{self.who:<12} {self.request!s:<70} {self.came}"


@dataclass(frozen=True, slots=True)
class Faults:
    """How many processes may be killed, and how many calls may fail: with their effect, or without."""

    kills: int = 0
    lost: int = 0
    failed: int = 0


State = tuple[Any, tuple[Any, ...], Faults]
"""The world, what each operation was answered or how it ended, and the faults that may still come."""


@dataclass(frozen=True)
class Counterexample:
    """The shortest way to what must not be."""

    broken: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = (f"{number:>3}. {step}" for number, step in enumerate(self.steps, 1))
        return "\n".join([f"{self.broken}, after {len(self.steps)} steps:", *lines])


@dataclass(frozen=True)
class Explored:
    """What was explored, and what was found.

    Parameters
    ----------
    states, steps
        How many different states there are, and how many steps lead from one to another.
    ends
        The states from which no step leads on.
    found
        None when every state is as it must be.
    paths
        Where each state was first reached from.
    """

    states: int
    steps: int
    ends: tuple[State, ...] = field(repr=False)
    found: Counterexample | None
    paths: dict[State, tuple[State, Step] | None] = field(repr=False)

    def covering(self, fits: Callable[[Sequence[Step]], bool]) -> list[tuple[tuple[Step, Any], ...]]:
        """Return few whole traces that have every kind of step: process, request and what came of it.

        Each step comes with the world after it. Only traces that fit are chosen.
        """
        traces = [trace_to(end, self.paths) for end in self.ends]
        traces = [trace for trace in traces if fits([step for step, _ in trace])]
        kinds = [{step.kind for step, _ in trace} for trace in traces]
        chosen, seen = list[int](), set[tuple[str, ...]]()
        while True:
            best = max(range(len(traces)), key=lambda at: (len(kinds[at] - seen), -len(traces[at])))
            if kinds[best] <= seen:
                return [traces[at] for at in chosen]
            chosen.append(best)
            seen |= kinds[best]


def trace_to(state: State, paths: dict[State, tuple[State, Step] | None]) -> tuple[tuple[Step, Any], ...]:
    """Return the steps that lead to a state, each with the world after it."""
    steps: list[tuple[Step, Any]] = []
    while (came := paths[state]) is not None:
        steps.append((came[1], state[0]))
        state = came[0]
    return tuple(reversed(steps))


class World(Protocol):
    """What the operations share."""

    def broken(self, operations: Sequence[Operation], under_way: Sequence[Any]) -> str | None:
        """Return what must not be and is."""

    def broken_at_end(self) -> str | None:
        """Return what must not be once nothing is under way any more."""

    def ended(self, who: str) -> Any:
        """Return the world once a process has ended."""

    def later(self) -> Iterator[tuple[str, Any]]:
        """Yield what time alone can do, and the world then."""


def explore(world: World, operations: Sequence[Operation], faults: Faults = Faults(), *, most: int = 10**6) -> Explored:
    """Explore every state that some operations can reach together; stop at the first that must not be.

    Raises
    ------
    AssertionError
        When there are more than `most` states.
    """
    start: State = (world, ((),) * len(operations), faults)
    paths: dict[State, tuple[State, Step] | None] = {start: None}
    waiting = deque([start])
    steps, ends = 0, list[State]()
    while waiting:
        state = waiting.popleft()
        broken = state[0].broken(operations, state[1])
        is_end = True
        for step, reached in () if broken else _steps(state, operations):
            steps += 1
            is_end = False
            if reached not in paths:
                paths[reached] = state, step
                waiting.append(reached)
        if is_end and broken is None:
            ends.append(state)
            broken = state[0].broken_at_end()
        if broken is not None:
            found = Counterexample(broken, tuple(step for step, _ in trace_to(state, paths)))
            return Explored(len(paths), steps, tuple(ends), found, paths)
        assert len(paths) <= most, f"more than {most:,} states"
    return Explored(len(paths), steps, tuple(ends), None, paths)


def _steps(state: State, operations: Sequence[Operation]) -> Iterator[tuple[Step, State]]:
    world, under_way, faults = state
    for place, (operation, answers) in enumerate(zip(operations, under_way, strict=True)):
        if isinstance(answers, Ended):
            continue
        request = operation.after(answers)
        for came, after, answer, left in _outcomes(world, request, faults):
            reached = operation.after((*answers, answer))
            has_ended = isinstance(reached, Ended)
            local = _with(under_way, place, reached if has_ended else (*answers, answer))
            yield (
                Step(operation.name, request, came),
                (after.ended(operation.name) if has_ended else after, local, left),
            )
        if faults.kills:
            left = Faults(faults.kills - 1, faults.lost, faults.failed)
            killed = world.ended(operation.name)
            yield Step(operation.name, "is killed", "killed"), (killed, _with(under_way, place, DEAD), left)
    for what, after in world.later():
        yield Step("time", what, "later"), (after, under_way, faults)


def _outcomes(world: Any, request: Any, faults: Faults) -> Iterator[tuple[str, Any, Answer, Faults]]:
    try:
        after, answer = request.do(world)
    except Refused as refused:
        yield f"refused: {refused}", world, (False, refused.key), faults
        return
    yield "done", after, (True, answer), faults
    if request.changes and faults.lost:
        left = Faults(faults.kills, faults.lost - 1, faults.failed)
        yield "lost answer", after, (False, (LOST, None)), left
    if request.changes and faults.failed:
        left = Faults(faults.kills, faults.lost, faults.failed - 1)
        yield "failed", world, (False, (FAILED, None)), left


def _with(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def run(world: Any, operation: Operation) -> tuple[Any, Ended]:
    """Run one operation alone to its end."""
    answers: tuple[Answer, ...] = ()
    while not isinstance(reached := operation.after(answers), Ended):
        try:
            world, answer = reached.do(world)
        except Refused as refused:
            answers = (*answers, (False, refused.key))
        else:
            answers = (*answers, (True, answer))
    return world.ended(operation.name), reached
