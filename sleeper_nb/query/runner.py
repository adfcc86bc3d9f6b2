"""Hand a bound statement to an engine, which plans what it reads; its rows are not read yet."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.engine import EngineName, EngineQuery
from sleeper_nb.errors import SleeperError
from sleeper_nb.query.engine_choice import ChosenEngine, means_the_same
from sleeper_nb.query.from_metadata import answer_from_metadata
from sleeper_nb.query.result import QueryOrigin, QueryResult
from sleeper_nb.report import Bytes
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.parameters import plain_values
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import Variables

logger = logging.getLogger(__name__)


class BetterElsewhere(Exception):  # noqa: N818 - no error: the statement runs on another engine
    """A statement reads what its engine should not read; `if_it_can` when it reads it if the chosen one cannot."""

    def __init__(self, chosen: ChosenEngine, *, if_it_can: bool) -> None:
        super().__init__(chosen.why)
        self.chosen, self.if_it_can = chosen, if_it_can


@dataclass(frozen=True, slots=True)
class Runner:
    """Hands bound statements to an engine: a user's statement, and first the expressions of its version clauses.

    Parameters
    ----------
    chosen
        The engine, and why.
    tables, parameters, engines, clock
        As in `sleeper_nb.query.queries.Queries`.
    variables
        What statements may read by name besides tables.
    limit
        From how many bytes on a statement is not run, and `BetterElsewhere` is raised.
    dry_run
        Whether no row may be read, not even to plan.
    """

    chosen: ChosenEngine
    tables: Callable[[], tuple[str, ...]]
    variables: Variables
    parameters: Mapping[str, Any]
    engines: Engines
    clock: Clock
    limit: float
    began: datetime
    dry_run: bool = field(default=False, kw_only=True)

    @property
    def engine(self) -> EngineName:
        """The name of the engine."""
        return self.chosen.name

    def of_any_size(self) -> Runner:
        """Return a runner that runs statements of any size."""
        return replace(self, limit=math.inf)

    def run(self, bound: Bound) -> QueryResult:
        """Return the result of a user's statement; from metadata alone where that can answer it."""
        values = plain_values(bound.statement, self.parameters)
        logger.debug("query on %s reads %s", self.engine, ", ".join(map(str, bound.sources)) or "no table")
        try:
            answer = answer_from_metadata(bound)
            if answer is None:
                return self.hand_over(bound, values)
            return self.of_any_size().hand_over(answer.bound, answer.values, note=answer.note)
        except SleeperError as error:
            from sleeper_nb.sql.name_errors import name_error

            ours = name_error(bound.texts.placed(error), bound, self.tables, self.variables)
            if ours is error:
                raise
            ours.place, ours.offset = error.place, error.offset
            raise ours from error

    def value(self, bound: Bound) -> Any:
        """Return the one value of a query of one row and column."""
        return self.run(bound).to_arrow().column(0)[0].as_py()

    def own(self, text: str, values: Mapping[str, Any]) -> QueryResult:
        """Return the result of a statement that this package wrote."""
        name = self.engines.default.name
        own = replace(self, chosen=ChosenEngine(name), parameters=values)
        return own.run(Bound(Statement.of(text, dialect=name), {}, ()))

    def hand_over(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        """Return the result of a bound statement, which the engine runs."""
        self._check_variables(bound)
        planned = self.engines[self.engine].plan(EngineQuery(bound, values, dry_run=self.dry_run))
        notes = " · ".join(filter(None, (planned.keys or note, *planned.notes)))
        read, names = planned.read, tuple(map(str, planned.read.variables))
        origin = QueryOrigin(read.sources, self._chosen_for(read), self.began, self.clock, notes, names)
        return QueryResult(planned.run(), origin, self.engines)

    def _chosen_for(self, bound: Bound) -> ChosenEngine:
        """Return the engine, with the reason that follows from the size; raise when another should read so much."""
        size, tasks = sum(source.bytes for source in bound.sources), self.engines.with_tasks
        if size < self.limit:
            return self.chosen
        if any(isinstance(what, Bound) for what in bound.named.values()):
            return replace(self.chosen, why="it keeps a view of the statement")
        if not means_the_same(bound.written or bound.statement):
            return replace(self.chosen, why=f"it reads {Bytes(size)}, but {tasks.title} may answer otherwise")
        raise BetterElsewhere(ChosenEngine(tasks.name, f"it reads {Bytes(size)}"), if_it_can=True)

    def _check_variables(self, bound: Bound) -> None:
        """Raise when the engine is not named, and a variable is a data frame of another."""
        if not math.isfinite(self.limit):
            return
        for each in bound.variables:
            owner = self.engines.owner_of(each)
            if owner is not None and owner.name != self.engine:
                why = f"{each.name} is a {owner.title} DataFrame"
                raise BetterElsewhere(ChosenEngine(owner.name, why), if_it_can=False)
