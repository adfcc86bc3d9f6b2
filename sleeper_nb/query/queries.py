"""Run the queries of a statement: choose its engine, bind its tables at their versions, change the views it names.

A bound statement goes to an engine, which plans what it reads; its rows are not read yet.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.engine import Engine, EngineName, EngineQuery
from sleeper_nb.errors import Action, InvalidInput, NoDryRun, NotFound, SleeperError
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.query.engine_choice import LARGE_GIB, ChosenEngine, EngineChoice, means_the_same
from sleeper_nb.query.from_metadata import answer_from_metadata
from sleeper_nb.query.result import QueryOrigin, QueryResult
from sleeper_nb.report import Bytes
from sleeper_nb.sql.binding import Binder, Bound, Lookup
from sleeper_nb.sql.bound_lakes import LakeAccess
from sleeper_nb.sql.parameters import plain_values
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Composition, SqlText, Statement
from sleeper_nb.sql.variables import Variables
from sleeper_nb.sql.views import changed_view
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

_LIST_TABLES: Final = "SELECT unnest(CAST(:tables AS VARCHAR[])) AS table_name"
_NAME_VIEW: Final = "SELECT :view AS view"


def _name_engine(name: EngineName) -> Action:
    """Return how a user names an engine."""
    return Action(f"--engine {name}", f'engine="{name}"')


class _BetterElsewhere(Exception):  # noqa: N818 - no error: the statement runs on another engine
    """A statement reads what its engine should not read; `if_it_can` when it reads it if the chosen one cannot."""

    def __init__(self, chosen: ChosenEngine, *, if_it_can: bool) -> None:
        super().__init__(chosen.why)
        self.chosen, self.if_it_can = chosen, if_it_can


@dataclass(frozen=True, slots=True)
class Queries:
    """Runs the queries that one statement consists of, each with the same engine, parameters, tables and variables.

    Parameters
    ----------
    engine
        Which engine runs them; ``"auto"`` chooses (`sleeper_nb.query.engine_choice`).
    engines, clock
        Run them; tells how long an answer took.
    lookup, tables
        Finds a table at a version; returns the names of all.
    parameters
        Values of ``:name``, and of ``$name`` on DuckDB.
    data
        What they may read by name besides tables and views: data frames and the like.
    views
        The queries of the session's views, by name in lower case; a statement may change them. None when none are kept.
    dry_run
        Whether nothing may change, not even the views.
    home
        By whose connection tables of other formats in buckets are opened.
    """

    engine: EngineChoice
    engines: Engines
    clock: Clock
    lookup: Lookup
    tables: Callable[[], tuple[str, ...]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    views: MutableMapping[str, Statement] | None = None
    dry_run: bool = field(default=False, kw_only=True)
    home: Storage | None = field(default=None, kw_only=True)

    @property
    def asked(self) -> Engine:
        """The engine that is asked first."""
        return self.engines[self.dialect]

    @property
    def dialect(self) -> Dialect:
        """Which engine's SQL an expression is read as: the default one's, unless another is named."""
        return self.engines.default.name if self.engine == "auto" else self.engine

    def run(self, sql: str | SqlText | Composition) -> QueryResult:
        """Bind the versions that a statement names, and hand it to an engine.

        Parameters
        ----------
        sql
            One statement; of one that writes, with the place of its query; or a query that is composed of parts.

        Raises
        ------
        NotFound
            When a table, version or parameter is unknown, naming the nearest.
        InvalidInput
            When the engine cannot read the statement.
        """
        text = SqlText(sql) if isinstance(sql, str) else sql
        run = partial(self._run_on, text, Variables(self.data, self.engines.own_names))
        default = self.engines.default
        if self.engine == default.name:
            try:
                return run(ChosenEngine(default.name))
            except (InvalidInput, NotFound) as error:
                claimed = self._claimed_after(error, text)
                if claimed is not None:
                    error.hint = (f"{claimed.why}: ", _name_engine(claimed.name))
                raise
        if self.engine != "auto":
            return run(ChosenEngine(self.engine))
        chosen = self._claimed(text)
        if chosen is None:
            try:
                return run(ChosenEngine(default.name, f"tables of less than {LARGE_GIB} GiB"), LARGE_GIB * 2**30)
            except _BetterElsewhere as better:
                chosen = better.chosen
                if better.if_it_can:
                    return self._if_it_can(run, chosen)
            except (InvalidInput, NotFound) as error:
                chosen = self._claimed_after(error, text, ask=True)
                if chosen is None:
                    if "No function matches" in error.message:  # another may have the function with other arguments
                        other = self.engines.others[0]
                        named = f"; if it is in {other.title}'s SQL, name the engine: ", _name_engine(other.name)
                        error.hint = (*error.hint_parts, *named)
                    raise
        logger.info("%s runs the statement: %s", self.engines[chosen.name].title, chosen.why)
        return run(chosen)

    def _claimed(self, text: SqlText | Composition) -> ChosenEngine | None:
        """Return the engine whose statement a text can only be; None when the default one is asked."""
        claims = ((each.name, each.claim(text, self._kept_views)) for each in self.engines.others)
        return next((ChosenEngine(name, why) for name, why in claims if why), None)

    def _claimed_after(
        self, error: SleeperError, text: SqlText | Composition, *, ask: bool = False
    ) -> ChosenEngine | None:
        """Return the engine whose statement a text is that the default one refused; None when nothing shows that."""
        others = self.engines.others
        claims = ((each.name, each.claim_after(error, text, self._kept_views, ask=ask)) for each in others)
        return next((ChosenEngine(name, why) for name, why in claims if why), None)

    def _if_it_can(self, run: Callable[[ChosenEngine], QueryResult], chosen: ChosenEngine) -> QueryResult:
        """Return the result of a statement on an engine; on the default one when that does not run it."""
        default, title = self.engines.default, self.engines[chosen.name].title
        logger.info("%s runs the statement: %s", title, chosen.why)
        try:
            return run(chosen)
        except SleeperError as error:
            logger.info("%s runs the statement, as %s does not: %s", default.title, title, error)
        return run(ChosenEngine(default.name, f"{chosen.why}, but {title} does not run it"))

    @property
    def _kept_views(self) -> MutableMapping[str, Statement]:
        return {} if self.views is None else self.views

    def _run_on(
        self, text: SqlText | Composition, variables: Variables, chosen: ChosenEngine, limit: float = math.inf
    ) -> QueryResult:
        """Return the result on an engine; raise `_BetterElsewhere` for one that reads `limit` bytes or more."""
        began = self.clock.now()
        runner = _Runner(self, chosen, variables, self.parameters, limit, began, self.dry_run)
        kept = self._kept_views

        def value_of(each: Statement) -> Any:
            return runner.value(binder.bind(each))

        access = LakeAccess(self.home, self.engines.local_files)
        binder = Binder(chosen.name, self.lookup, self.tables, value_of, kept, variables, access)
        if isinstance(text, Composition):
            query, values = text.of(chosen.name, self.parameters)
            return replace(runner, parameters={**self.parameters, **values}).run(binder.bind(query))
        if text.part is None:
            return self._whole(text.whole(chosen.name), runner, binder)
        return runner.run(binder.bind(text.query(chosen.name)))

    def _whole(self, statement: Statement, runner: _Runner, binder: Binder) -> QueryResult:
        """Return the result of a whole statement of a user, which may change a view."""
        if statement.words() == ("SHOW", "TABLES"):  # an engine knows only its own tables, and would list none
            return runner.own(_LIST_TABLES, {"tables": list(binder.tables())})
        self.engines[runner.engine].check(statement, dry_run=self.dry_run)
        references = table_references(statement)
        change = changed_view(statement, references, binder)
        if change is None:
            return runner.run(binder.bind(statement, references))
        if self.views is None:
            raise InvalidInput(f"view {change.name!r} would not be kept", hint="write WITH … AS (…) SELECT …")
        if self.dry_run:
            raise NoDryRun(
                f"the statement changes view {change.name!r} and reads no rows", hint="run it without a dry run"
            )
        if change.by_engine:
            with contextlib.suppress(*([NotFound] if change.if_exists else [])):
                runner.run(binder.bind(statement, references))
        elif change.query is not None:
            replace(runner.of_any_size(), dry_run=True).run(
                binder.without(change.key).bind(change.query)
            )  # or it raises, and nothing is changed
        change.apply(self.views)
        return runner.own(_NAME_VIEW, {"view": change.name})


@dataclass(frozen=True, slots=True)
class _Runner:
    """Hands bound statements to an engine: a user's statement, and first the expressions of its version clauses.

    Parameters
    ----------
    chosen
        The engine, and why.
    variables
        What statements may read by name besides tables.
    limit
        From how many bytes on a statement is not run, and `_BetterElsewhere` is raised.
    """

    queries: Queries
    chosen: ChosenEngine
    variables: Variables
    parameters: Mapping[str, Any]
    limit: float
    began: datetime
    dry_run: bool

    @property
    def engine(self) -> EngineName:
        return self.chosen.name

    def of_any_size(self) -> _Runner:
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

            ours = name_error(bound.texts.placed(error), bound, self.queries.tables, self.variables)
            if ours is error:
                raise
            ours.place, ours.offset = error.place, error.offset
            raise ours from error

    def value(self, bound: Bound) -> Any:
        """Return the one value of a query of one row and column."""
        return self.run(bound).to_arrow().column(0)[0].as_py()

    def own(self, text: str, values: Mapping[str, Any]) -> QueryResult:
        """Return the result of a statement that this package wrote."""
        name = self.queries.engines.default.name
        own = replace(self, chosen=ChosenEngine(name), parameters=values)
        return own.run(Bound(Statement.of(text, dialect=name), {}, ()))

    def hand_over(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        """Return the result of a bound statement, which the engine runs."""
        self._check_variables(bound)
        planned = self.queries.engines[self.engine].plan(EngineQuery(bound, values, dry_run=self.dry_run))
        notes = " · ".join(filter(None, (planned.keys or note, *planned.notes)))
        read, names = planned.read, tuple(map(str, planned.read.variables))
        origin = QueryOrigin(read.sources, self._chosen_for(read), self.began, self.queries.clock, notes, names)
        return QueryResult(planned.run(), origin, self.queries.engines)

    def _chosen_for(self, bound: Bound) -> ChosenEngine:
        """Return the engine, with the reason that follows from the size; raise when another should read so much."""
        size, tasks = sum(source.bytes for source in bound.sources), self.queries.engines.with_tasks
        if size < self.limit:
            return self.chosen
        if any(isinstance(what, Bound) for what in bound.named.values()):
            return replace(self.chosen, why="it keeps a view of the statement")
        if not means_the_same(bound.written or bound.statement):
            return replace(self.chosen, why=f"it reads {Bytes(size)}, but {tasks.title} may answer otherwise")
        raise _BetterElsewhere(ChosenEngine(tasks.name, f"it reads {Bytes(size)}"), if_it_can=True)

    def _check_variables(self, bound: Bound) -> None:
        """Raise when the engine is not named, and a variable is a data frame of another."""
        if not math.isfinite(self.limit):
            return
        for each in bound.variables:
            owner = self.queries.engines.owner_of(each)
            if owner is not None and owner.name != self.engine:
                why = f"{each.name} is a {owner.title} DataFrame"
                raise _BetterElsewhere(ChosenEngine(owner.name, why), if_it_can=False)
