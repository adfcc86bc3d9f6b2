"""Run the queries of a statement: choose its engine, bind its tables at their versions, change the views it names."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Engines
from sleeper_nb.errors import Action, InvalidInput, NotFound, SleeperError
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.query.engine_choice import (
    BY_DEFAULT,
    LARGE_GIB,
    ChosenEngine,
    EngineChoice,
    changes_spark,
    why_only_spark,
    why_spark_after,
)
from sleeper_nb.query.result import QueryResult
from sleeper_nb.query.runner import BetterOnSpark, Runner
from sleeper_nb.sql.binding import Binder, Lookup
from sleeper_nb.sql.composition import Composition
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import SqlText, Statement
from sleeper_nb.sql.tokens import tokenize
from sleeper_nb.sql.variables import Variables
from sleeper_nb.sql.views import changed_view

logger = logging.getLogger(__name__)

_IF_SPARK: Final = ("if it is in Spark's SQL, name the engine: ", Action("--engine spark", 'engine="spark"'))

_LIST_TABLES: Final = "SELECT unnest(CAST(:tables AS VARCHAR[])) AS table_name"
_NAME_VIEW: Final = "SELECT :view AS view"


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
    """

    engine: EngineChoice
    engines: Engines
    clock: Clock
    lookup: Lookup
    tables: Callable[[], tuple[str, ...]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    views: MutableMapping[str, Statement] | None = None
    dry_run: bool = False

    @property
    def dialect(self) -> Dialect:
        """Which engine's SQL an expression is read as: DuckDB's, unless Spark is named."""
        return "spark" if self.engine == "spark" else "duckdb"

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
        engines = self.engines
        run = partial(self._run_on, text, Variables(self.data, partial(_own_of_spark, engines)))
        on_spark = partial(_views_on_spark, engines, self._kept_views)
        if self.engine == "duckdb":
            try:
                return run(ChosenEngine("duckdb"))
            except (InvalidInput, NotFound) as error:
                only = why_spark_after(error, text, on_spark, lambda _: False)
                if only:
                    error.hint = (f"{only}: ", Action("--engine spark", 'engine="spark"'))
                raise
        if self.engine == "spark":
            return run(ChosenEngine("spark"))
        why = (
            f"the warehouse names cluster {engines.spark.cluster}"
            if engines.spark.cluster
            else why_only_spark(text, on_spark)
        )
        if not why:
            try:
                return run(BY_DEFAULT, LARGE_GIB * 2**30)
            except BetterOnSpark as better:
                if better.if_it_can:
                    return _on_spark_if_it_can(run, better.why)
                why = better.why
            except (InvalidInput, NotFound) as error:
                why = why_spark_after(error, text, on_spark, partial(_is_spark_function, engines))
                if not why:
                    _suggest_spark(error, text)
                    raise
        logger.info("Spark runs the statement: %s", why)
        return run(ChosenEngine("spark", why))

    @property
    def _kept_views(self) -> MutableMapping[str, Statement]:
        return {} if self.views is None else self.views

    def _run_on(
        self, text: SqlText | Composition, variables: Variables, chosen: ChosenEngine, limit: float = math.inf
    ) -> QueryResult:
        """Return the result on an engine; raise `BetterOnSpark` for one that reads `limit` bytes or more."""
        runner = Runner(
            chosen,
            self.tables,
            variables,
            self.parameters,
            self.engines,
            self.clock,
            limit,
            began=self.clock.now(),
            dry_run=self.dry_run,
        )
        kept = self._kept_views
        binder = Binder(
            chosen.name, self.lookup, self.tables, lambda each: runner.value(binder.bind(each)), kept, variables
        )
        if isinstance(text, Composition):
            query, values = text.of(chosen.name, self.parameters)
            return replace(runner, parameters={**self.parameters, **values}).run(binder.bind(query))
        if text.part is None:
            return self._whole(text.whole(chosen.name), runner, binder)
        return runner.run(binder.bind(text.query(chosen.name)))

    def _whole(self, statement: Statement, runner: Runner, binder: Binder) -> QueryResult:
        """Return the result of a whole statement of a user, which may change a view."""
        if statement.words() == ("SHOW", "TABLES"):  # an engine knows only its own tables, and would list none
            return runner.own(_LIST_TABLES, {"tables": list(binder.tables())})
        if self.dry_run and runner.engine == "spark" and changes_spark(statement):
            raise InvalidInput(
                "the statement changes the Spark session and reads no rows", hint="run it without a dry run"
            )
        if runner.engine == "spark":
            from sleeper_nb.engines.spark.sql_rules import refuse_before_start

            refuse_before_start(statement)
        references = table_references(statement)
        change = changed_view(statement, references, binder)
        if change is None:
            return runner.run(binder.bind(statement, references))
        if self.views is None:
            raise InvalidInput(f"view {change.name!r} would not be kept", hint="write WITH … AS (…) SELECT …")
        if self.dry_run:
            raise InvalidInput(
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


_OF_SPARK: Final = frozenset({
    "ANTI", "CLUSTER", "DISTRIBUTE", "DIV", "EXPLODE", "LATERAL", "NAMED_STRUCT", "POSEXPLODE", "RLIKE", "SEMI", "SORT",
    "STRING", "TRANSFORM",
})  # fmt: skip
"""Words by which a statement looks like one of Spark's SQL."""


def _looks_like_spark(text: SqlText | Composition) -> bool:
    texts = [each.text for each in text.written] if isinstance(text, Composition) else [text.text]
    try:
        tokens = [token for each in texts for token in tokenize(each, dialect="spark")]
    except InvalidInput:
        return False
    return any(token.word in _OF_SPARK or token.text.startswith("`") for token in tokens)


def _suggest_spark(error: SleeperError, text: SqlText | Composition) -> None:
    """Say in the hint of DuckDB's error that Spark may read the statement, unless it says already what is meant."""
    if not error.message.startswith("DuckDB: "):
        return
    if "No function matches" in error.message:  # Spark may have the function with other arguments
        error.hint = (*error.hint_parts, "; ", *_IF_SPARK)
    elif not error.hint_parts and _looks_like_spark(text):
        error.hint = _IF_SPARK


def _on_spark_if_it_can(run: Callable[[ChosenEngine], QueryResult], why: str) -> QueryResult:
    """Return the result of a statement on Spark; on DuckDB when Spark does not run it."""
    logger.info("Spark runs the statement: %s", why)
    try:
        return run(ChosenEngine("spark", why))
    except SleeperError as error:
        logger.info("DuckDB runs the statement, as Spark does not: %s", error)
    return run(ChosenEngine("duckdb", f"{why}, but Spark does not run it"))


def _is_spark_function(engines: Engines, name: str) -> bool:
    """Return whether Spark has a function of a name, in lower case: one of its own or, if it runs, a registered one."""
    from sleeper_nb.engines.spark.gateway import has_function
    from sleeper_nb.engines.spark.sql_rules import function_names

    spark = engines.spark.runtime()
    return name in function_names() or (spark.started and has_function(spark.session(), name))


def _views_on_spark(engines: Engines, views: Mapping[str, Statement]) -> frozenset[str]:
    """Return the names, in lower case, of the views that only Spark can read: the session's and its own."""
    own = _own_of_spark(engines)
    return frozenset(own - views.keys() | {name for name, query in views.items() if query.dialect == "spark"})


def _own_of_spark(engines: Engines) -> frozenset[str]:
    """Return the names, in lower case, of the temporary views that Spark itself has; none before it has started."""
    from sleeper_nb.engines.spark.gateway import own_views

    spark = engines.spark.runtime()
    return frozenset(map(str.casefold, own_views(spark.session()))) if spark.started else frozenset()
