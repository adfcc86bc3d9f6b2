"""Charts of more rows than can be drawn: the engine sums them up, and the chart says how; the same on both engines."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb.display.chart import VEGA_LITE
from tests.support.combinations import each_value_once
from tests.support.engines import DUCKDB_FIRST, ENGINES

NUMBERS = {"duckdb": "range(20000) t(id)", "spark": "range(20000)"}


ON_DUCKDB_FIRST = pytest.mark.parametrize("plotted", DUCKDB_FIRST, indirect=True)
"""Both engines run one statement of sums; on Spark a kind of chart each is enough."""


@pytest.fixture(params=ENGINES)
def plotted(request, tmp_path):
    """Plot columns of the numbers from 0 to 19,999, which are called ``id``."""
    spark = request.getfixturevalue("spark_engine").session() if request.param == "spark" else None
    with sl.connect(tmp_path, spark=spark) as session:

        def plot(columns, kind=None, **options):
            statement = f"SELECT {columns} FROM {NUMBERS[request.param]}"
            return session.sql(statement, engine=request.param).plot(kind, **options)

        plot.engine = request.param
        yield plot


def test_a_line_of_many_rows_is_the_least_mean_and_greatest_of_ranges(plotted):
    made = plotted("id AS n, id % 10 AS v", "line")
    assert made.notes[0] == "20,000 rows: least, mean and greatest v of each 100 of n"
    assert len(made.points) == 200
    assert {(p.least, p.y, p.greatest, p.rows) for p in made.points} == {(0, 4.5, 9, 100)}
    assert made.points[1].label == "100 to 200"
    assert list(made.to_dict()) == ["n", "v", "least v", "greatest v", "rows"]
    assert len(made._repr_mimebundle_()[0][VEGA_LITE]["layer"]) == 3


def test_ranges_of_time_are_minutes_hours_or_days(plotted):
    start, unit = "TIMESTAMP '2026-01-01 00:00:00'", "INTERVAL '1' MINUTE"
    made = plotted(f"{start} + id * {unit} AS at, id * 1.5 AS v")
    assert made.kind == "line"
    assert made.notes[0] == "20,000 rows: least, mean and greatest v of each 2 hours"
    assert [point.label for point in made.points[:2]] == ["2026-01-01 00:00:00", "2026-01-01 02:00:00"]
    assert made.points[0][-3:] == (0, 119 * 1.5, 120)


@ON_DUCKDB_FIRST
def test_a_line_of_many_rows_has_colours_and_facets(plotted):
    made = plotted("id AS n, id % 2 AS v, id % 25 AS c, id % 3 AS f", "line", color="c", facet="f")
    assert made.notes[1:2] == ("12,000 rows left out: only the 10 most frequent of 25 values of c are drawn",)
    assert {point.series for point in made.points} == {str(number) for number in range(10)}
    assert {point.facet for point in made.points} == {"0", "1", "2"}
    assert sum(point.rows for point in made.points) == 8000


def test_a_scatter_of_many_rows_counts_them_in_rectangles(plotted):
    made = plotted("id AS n, id % 200 AS v", "scatter")
    assert made.notes[0] == "20,000 rows, counted in rectangles of 500 of n by 10 of v"
    assert sum(point.rows for point in made.points) == 20_000
    assert {point.rows for point in made.points} == {20, 30}  # 500 is two and a half times 200
    assert made.points[0][:4] == (0, 0, "0 to 500", 500)
    assert made._repr_mimebundle_()[0][VEGA_LITE]["encoding"]["color"]["title"] == "rows"


@ON_DUCKDB_FIRST
@pytest.mark.parametrize(
    ("color", "shades", "note"),
    [
        ("CASE WHEN id % 4 = 0 THEN 'b' ELSE 'a' END", {"a"}, "the colour of each is its most frequent c"),
        ("id % 2", {0.5}, "the colour of each is its mean c"),
    ],
)
def test_a_colour_of_rectangles_stands_for_their_rows(plotted, color, shades, note):
    made = plotted(f"id AS n, id % 200 AS v, {color} AS c", "scatter", color="c")
    assert note in made.notes
    assert {point.series for point in made.points} == shades


@ON_DUCKDB_FIRST
def test_of_many_bars_the_largest_are_drawn_and_the_others_are_summed(plotted):
    made = plotted("concat('c', id) AS city, id AS v", "bar")
    assert made.points[0][:3] == (0, 19_999, "c19999")
    assert len(made.points) == 60
    others = sum(range(20_000 - 60))
    assert made.notes[0] == f"the 60 largest, and 19,940 others that come to {others:,} together"


def test_bars_of_many_rows_are_sums(plotted):
    made = plotted("id % 4 AS g, 1 AS v", "bar")
    assert made.to_dict() == {"g": ["0", "1", "2", "3"], "v": [5000] * 4}
    assert made.notes[0] == "each bar is the sum of v, of 20,000 rows"
    cut = plotted("id % 4 AS g, 1 AS v, id % 40 AS c", "bar", color="c")
    assert "30 others" in {point.series for point in cut.points}
    assert sum(point.y for point in cut.points) == 20_000


@ON_DUCKDB_FIRST
def test_a_histogram_has_colours_and_logarithmic_axes(plotted):
    made = plotted("id AS v, id % 2 AS c", "hist", color="c")
    assert sum(point.y for point in made.points) == 20_000
    assert made.to_dict()["c"] == ["0"] * 30 + ["1"] * 30
    made = plotted("id AS v", "hist", log="x")
    assert made.notes[0] == "1 row left out: null or not finite, or not above 0, on a logarithmic axis"
    assert sum(point.y for point in made.points) == 19_999
    assert made.points[0].x == 1
    widths = {round(point.end / point.x, 6) for point in made.points}
    assert len(widths) == 1


@ON_DUCKDB_FIRST
@pytest.mark.parametrize("kind", ["line", "scatter", "bar"])
def test_what_cannot_be_drawn_is_left_out_aloud(plotted, kind):
    value = "CASE WHEN id = 5 THEN NULL WHEN id = 6 THEN CAST('NaN' AS DOUBLE) WHEN id = 7 THEN 1e308 ELSE id END"
    made = plotted(f"id AS n, {value} AS v", kind)
    assert any(note.startswith("3 rows left out: null or not finite") for note in made.notes)


@ON_DUCKDB_FIRST
@pytest.mark.parametrize(("kind", "log"), each_value_once(["line", "area", "scatter"], ["x", "y", "xy"]))
def test_ranges_along_a_logarithmic_axis_are_powers(plotted, kind, log):
    made = plotted("id AS n, id AS v", kind, log=log)
    assert "1 row left out" in " ".join(made.notes)
    assert sum(point.rows for point in made.points) == 19_999
    assert ("of log10 n" in made.notes[0]) == ("x" in log)
    assert made._repr_mimebundle_()[0]["image/png"]


@ON_DUCKDB_FIRST
def test_no_row_that_can_be_drawn_is_said(plotted):
    made = plotted("id AS n, CAST(NULL AS DOUBLE) AS v", "line")
    assert made.points == ()
    assert repr(made).splitlines()[1].startswith("no rows · 20,000 rows left out")


@ON_DUCKDB_FIRST
@pytest.mark.parametrize("kind", ["line", "scatter"])
def test_rows_of_one_place_are_one_range(plotted, kind):
    made = plotted("7 AS n, 2 AS v, id AS other", kind)
    (point,) = made.points
    assert (point.label, point.rows) == ("7 to 8", 20_000)


@ON_DUCKDB_FIRST
def test_columns_of_any_name_are_summed(plotted):
    name = 'an "odd`one'
    quoted = f"`{name.replace('`', '``')}`" if plotted.engine == "spark" else '"' + name.replace('"', '""') + '"'
    made = plotted(f"id AS {quoted}, id AS v", "line")
    assert made.notes[0] == f"20,000 rows: least, mean and greatest v of each 100 of {name}"
