"""The model of the explorer's SQL tab: a query's answer, its chart, earlier queries, and words that may come next.

No widget is needed here.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.chart import VEGA_LITE, Chart
from sleeper_nb.display.chart_marks import KINDS, ChartKind
from sleeper_nb.errors import NotFound
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.sql_text import KEYWORDS, next_words
from sleeper_nb.widgets.explorer_model import PLAIN_NAME, Preview, SqlAnswer

if TYPE_CHECKING:
    from sleeper_nb.session import Session

NO_CHART, BY_TYPES = "none", "by the types of the columns"
CHART_KINDS: Final = (NO_CHART, BY_TYPES, *KINDS)
_MOST_WORDS: Final = 100
_MOST_VERSIONS: Final = 200
_MOST_EARLIER: Final = 100
_PNG: Final = "image/png"


@dataclass(frozen=True, slots=True)
class ChartChoice:
    """Which chart of an answer is drawn.

    Parameters
    ----------
    kind
        One of `CHART_KINDS`.
    x, y, color
        Names of columns; empty where the chart chooses.
    """

    kind: str = NO_CHART
    x: str = ""
    y: str = ""
    color: str = ""

    def checked(self) -> ChartChoice:
        """Return it; `NotFound` names the kinds when there is no such one."""
        if self.kind not in CHART_KINDS:
            raise NotFound.of("chart", self.kind, CHART_KINDS)
        return self

    def within(self, names: Sequence[str]) -> ChartChoice:
        """Return it without columns that an answer does not have; a histogram has no second column."""
        x, y, color = (name if name in names else "" for name in (self.x, self.y, self.color))
        return replace(self, x=x, y="" if self.kind == "hist" else y, color=color)

    @property
    def options(self) -> str:
        """``--plot bar -x carrier``; empty without a chart."""
        if self.kind == NO_CHART:
            return ""
        given = {"-x": self.x, "-y": self.y, "--color": self.color}
        columns = [f"{option} {shlex.quote(name)}" for option, name in given.items() if name]
        return " ".join(["--plot", *([] if self.kind == BY_TYPES else [self.kind]), *columns])

    def drawn(self, answer: SqlAnswer) -> Chart | None:
        """Return the chart of an answer; None when no chart is chosen, or there are no rows to draw."""
        if self.kind == NO_CHART or answer.result is None:
            return None
        kind: ChartKind | None = next((kind for kind in KINDS if kind == self.kind), None)
        return answer.result.plot(kind, self.x or None, self.y or None, color=self.color or None)


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart as a notebook gets it, and as the saved notebook keeps it.

    Parameters
    ----------
    chart
        The chart.
    data, metadata
        Its forms, as Jupyter names them.
    """

    chart: Chart
    data: dict[str, Any]
    metadata: dict[str, Any]

    @staticmethod
    def of(chart: Chart) -> DrawnChart:
        """Draw a chart."""
        return DrawnChart(chart, *chart._repr_mimebundle_())

    @property
    def is_live(self) -> bool:
        """Whether it has something to draw."""
        return VEGA_LITE in self.data

    @property
    def preview(self) -> Preview:
        """The picture of it, for a saved notebook."""
        text = repr(self.chart)
        if _PNG not in self.data:
            return Preview("", f"<pre>{html.escape(text)}</pre>", text)
        width, alternative = self.metadata[_PNG]["width"], html.escape(self.chart.title)
        picture = f'<img alt="{alternative}" width="{width}" src="data:{_PNG};base64,{self.data[_PNG]}">'
        return Preview("", picture, text)


class SessionTables:
    """The names in a session, for completion."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tables(self) -> list[str]:
        """Return the tables."""
        return list(self._session.table_names())

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table, as it is now."""
        return self._session.table(table).at().schema.names

    def versions(self, table: str) -> list[str]:
        """Return what can follow the @ of a table: savepoints and the newest snapshots."""
        found = self._session.table(table).inspect.versions()
        snapshots = found.snapshots[:_MOST_VERSIONS]
        return [*(point.reference for point in found.savepoints), *(str(each.id) for each in snapshots)]

    def variables(self) -> tuple[str, ...]:
        """Return none: a widget does not know the variables of its notebook."""
        return ()


class SqlModel:
    """Runs the queries of one explorer, and remembers them.

    Parameters
    ----------
    session
        Has the tables.

    Attributes
    ----------
    answer
        Of the last query; None before it, and when it failed.
    earlier
        The queries that ran, the newest first, each once.
    """

    answer: SqlAnswer | None = None
    earlier: tuple[str, ...] = ()

    def __init__(self, session: Session) -> None:
        self._names = SessionTables(session)

    def run(self, statement: str, ask: Callable[[], SqlAnswer]) -> Preview:
        """Remember a query, run it, and return its first rows."""
        self.answer = None
        others = (each for each in self.earlier if each != statement)
        if statement.strip():
            self.earlier = (statement, *others)[:_MOST_EARLIER]
        self.answer = ask()
        return self.answer.preview

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answer."""
        return () if self.answer is None else self.answer.columns

    def words(self, typed: str, text: str) -> tuple[str, tuple[str, ...]]:
        """Return the end of what was typed, and the words that may replace it: what Tab offers in a cell, and SQL's."""
        found = next_words(typed, text, self._names)
        begun = found.fragment.casefold()
        words = [word for word in found.words if word.casefold().startswith(begun)]
        if found.kind in {"name", "column"}:
            words = [word if PLAIN_NAME.fullmatch(word) else quoted_name(word) for word in words]
        if found.kind == "name" and begun:
            words += [word for word in KEYWORDS if word.casefold().startswith(begun)]
        return found.fragment, tuple(words[:_MOST_WORDS])
