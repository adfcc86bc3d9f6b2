from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.display.chart import MOST_POINTS, chart, histogram
from sleeper_nb.errors import InvalidInput, NotFound
from tests.pictures import line_text, lines_of

MONTHS = pa.table({"month": ["jan", "feb", "mar"], "flights": [27, 25, 29], "late": [0.1, None, 0.3]})


def parsed(drawn):
    return ET.fromstring(drawn.replace("<br>", "<br/>"))  # noqa: S314 - our own


def test_bars_are_in_the_order_of_the_rows_and_each_is_named():
    made = chart(MONTHS, "bar", footer="trips at snapshot 2")
    assert made.to_dict() == {"month": ["jan", "feb", "mar"], "flights": [27, 25, 29]}
    drawn = made._repr_html_()
    assert [*map(line_text, lines_of(parsed(drawn)))][:3] == ["jan", "feb", "mar"]
    assert drawn.count("<title>") == 4
    assert "flights from 25 to 29 · trips at snapshot 2" in drawn
    assert repr(made).splitlines() == [
        "flights by month",
        "█▇█",
        "jan … mar",
        "flights from 25 to 29 · trips at snapshot 2",
    ]


def test_a_line_goes_by_time_whatever_the_order_and_leaves_out_nulls_aloud():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table({"at": [start + timedelta(days=d) for d in (9, 0, 3, 5)], "v": [Decimal(4), Decimal(1), None, 2]})
    made = chart(rows, "line")
    assert [(round(p.x, 3), p.y) for p in made.points] == [(0, 1), (0.556, 2), (1, 4)]
    assert made.said == ("1 row left out: null or not finite",)
    parsed(made._repr_html_())


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def hist(request, tmp_path):
    """Draw a histogram of values of a type, in a column of some name, or of a statement."""
    spark = request.getfixturevalue("spark_engine").session() if request.param == "spark" else None
    with sl.connect(tmp_path, spark=spark) as session:

        def drawn(values, kind="double", name="fare", sql=None, **columns):
            table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"v": f"{kind}?"}))
            table.ingest([{"k": k, "v": value} for k, value in enumerate(values)])
            quoted = f"`{name.replace('`', '``')}`" if spark else '"' + name.replace('"', '""') + '"'
            result = session.sql(sql or f"SELECT v AS {quoted} FROM t", engine=request.param)
            return result.plot("hist", **columns)

        yield drawn


def test_a_histogram_counts_every_number_once(hist):
    made = hist([*range(31), None, math.nan, math.inf, -math.inf])
    assert [point.y for point in made.points] == [1] * 29 + [2]
    assert (made.points[0].label, made.points[-1].label) == ("0 to 1", "29 to 30")
    assert (made.x, made.y) == ("fare", "rows")
    assert made.said[0] == "4 rows left out: null or not finite"
    parsed(made._repr_html_())


def test_a_histogram_is_of_all_rows(hist):
    made = hist(range(100), sql="SELECT one.k FROM t AS one CROSS JOIN t AS two CROSS JOIN (SELECT * FROM t LIMIT 2)")
    assert sum(point.y for point in made.points) == 20_000 > MOST_POINTS


@pytest.mark.parametrize(
    ("values", "kind", "heights"),
    [
        ([7, 7], "int", [2]),
        ([], "double", []),
        ([None], "long", []),
        ([-1.7e308, 0.0, 1.7e308], "double", [1, *[0] * 14, 1, *[0] * 13, 1]),
        ([Decimal("0.10"), Decimal("0.20")], "decimal(9, 2)", [1, *[0] * 28, 1]),
    ],
)
def test_a_histogram_has_as_many_ranges_as_its_values_need(hist, values, kind, heights):
    made = hist(values, kind, name='an "odd`one')
    assert [point.y for point in made.points] == heights
    parsed(made._repr_html_())
    assert repr(made)


def test_an_unknown_chart_is_told_which_there_are(tmp_path):
    with (
        sl.connect(tmp_path) as session,
        pytest.raises(InvalidInput, match="one of 'line', 'bar', 'hist'"),
    ):
        session.sql("SELECT 1 AS n", engine="duckdb").plot("pie")


def test_a_histogram_of_rows_by_chance_counts_the_rows_that_there_were(hist):
    made = hist(range(10), sql="SELECT one.v FROM t AS one CROSS JOIN t AS two ORDER BY random() LIMIT 20")
    assert sum(point.y for point in made.points) == 20
    assert "left out" not in repr(made)


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        ([1.7e308, -1.7e308], "-1.7e+308 to -1.587e+308", "1.587e+308 to 1.7e+308"),
        ([1.7e9, 1.7e9 + 86_400], "1700000000 to 1700002880", "1700083520 to 1700086400"),
        ([2013, 2014], "2013 to 2013.0333", "2013.9667 to 2014"),
        ([1e-9, 4e-9], "1e-09 to 1.1e-09", "3.9e-09 to 4e-09"),
        ([0, 99], "0 to 3.3", "95.7 to 99"),
    ],
)
def test_the_ranges_of_a_histogram_are_told_apart(values, first, last):
    counts = [{"low": min(values), "high": max(values), "range": place, "n": 1} for place in (0, 29)]
    points = histogram(pa.Table.from_pylist(counts), "v").points
    assert (points[0].label, points[-1].label) == (first, last)
    assert len({point.label for point in points}) == 30


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_columns_of_one_name_are_told_of_not_lost(engine, request, tmp_path):
    spark = request.getfixturevalue("spark_engine").session() if engine == "spark" else None
    with sl.connect(tmp_path, spark=spark) as session:
        result = session.sql("SELECT 1 AS a, 2 AS a", engine=engine)
        for ask in (result.to_dict, result.to_polars):
            with pytest.raises(InvalidInput, match="two columns are called 'a'") as caught:
                ask()
            assert caught.value.hint == "give one another name: a AS a_2"
        if engine == "duckdb":  # which numbers them as soon as a part is asked for
            assert result.plot("hist", "a_1").to_dict() == {"a_1": ["2 to 2"], "rows": [1]}
        else:
            with pytest.raises(InvalidInput, match="two columns are called 'a'"):
                result.plot("hist")
        assert session.sql("SELECT 1 AS A, 2 AS a", engine=engine).plot("hist", "A").x == "A"


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"x": "far"}, NotFound, "no column 'far'"),
        ({"y": "fare"}, InvalidInput, "a histogram has one column"),
        ({}, InvalidInput, "column 'fare' is string, not numbers"),
    ],
)
def test_what_a_histogram_cannot_be_of_is_an_error(hist, columns, error, message):
    with pytest.raises(error, match=message):
        hist(["a"], "string", **columns)


def test_what_is_too_much_is_said():
    many = pa.table({"x": range(MOST_POINTS + 1), "y": range(MOST_POINTS + 1)})
    assert chart(many, "line").said == ("the first 10,000 rows",)
    assert chart(many.slice(0, 61), "bar").said == ("1 row left out: only the first 60 bars are drawn",)
    assert len(repr(chart(many, "line")).splitlines()[1]) <= 80
    waves = pa.table(
        {"x": range(MOST_POINTS), "y": [1e6 * math.sin(i) - 7e5 * (i == 4321) for i in range(MOST_POINTS)]}
    )
    drawn = chart(waves, "line")._repr_html_()
    assert len(drawn.encode()) < 65_536
    assert " 98.00" in drawn  # the one lowest point of all is drawn


def _axis(drawn):
    """Return the values beside a chart, each with how far below the top its line is."""
    group = next(g for g in parsed(drawn).iter("g") if g.get("font-size"))
    return {text.text: float(line.get("y1")) for line, text in zip(group.iter("line"), group.iter("text"), strict=True)}


@pytest.mark.parametrize("kind", ["line", "bar"])
@pytest.mark.parametrize(
    ("heights", "values"),
    [
        ([27, 25, 29], ["0", "10", "20"]),
        ([0.0, 0.3], ["0", "0.1", "0.2"]),
        ([-1, 3], ["0", "2"]),
        ([-30, -4], ["-30", "-20", "-10", "0"]),
        ([1234567, 2e7], ["0", "10,000,000", "20,000,000"]),
        ([-1.7e308, 1.7e308], ["-1e+308", "0", "1e+308"]),
        ([5e-324, 0.0], ["0", "0.5", "1"]),
        ([0, 0], ["0", "0.5", "1"]),
    ],
)
def test_heights_can_be_read(kind, heights, values):
    made = chart(pa.table({"x": range(len(heights)), "y": pa.array(heights, pa.float64())}), kind)
    axis = _axis(made._repr_html_())
    assert list(axis) == values
    places = list(axis.values())
    assert places == sorted(places, reverse=True)
    assert all(0 <= place <= 160 for place in places)
    assert "nan" not in made._repr_html_() + repr(made)


def test_a_line_of_the_axis_is_as_high_as_a_bar_of_its_value():
    drawn = chart(pa.table({"x": ["a", "b"], "y": [10, 29]}), "bar")._repr_html_()
    bars = [rect for rect in parsed(drawn).iter("rect") if rect.get("stroke") == "none"]
    assert _axis(drawn)["10"] == pytest.approx(1.6 * float(bars[0].get("y")), abs=0.1)


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_a_chart_of_no_rows_says_so_in_a_line(kind):
    made = chart(pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), kind, footer="t at 2")
    assert repr(made) == "y by x\nno rows · t at 2"
    picture = parsed(made._repr_html_())
    assert int(picture.find(".//svg").get("height")) < 20
    assert [text.text for text in picture.iter("text")] == ["no rows"]
    assert "from 0" not in made._repr_html_()


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_no_rows_and_hostile_names_are_drawn_too(kind):
    hostile = '<script>&"\n'
    for rows in (pa.table({hostile: pa.array([], pa.int64()), "y": pa.array([], pa.int64())}),
                 pa.table({hostile: [1, 2], "y": [-1, 3]})):  # fmt: skip
        made = chart(rows, kind)
        assert "<script" not in made._repr_html_()
        parsed(made._repr_html_())
        assert made.grid().text()
        assert repr(made)
    assert hostile.strip() not in chart(pa.table({"x": [hostile], "y": [1]}), "bar")._repr_html_()


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        ("bar", {"x": "mont"}, NotFound, "no column 'mont'"),
        ("line", {}, InvalidInput, "column 'month' is string, not numbers, dates or times"),
        ("bar", {"x": "flights", "y": "month"}, InvalidInput, "column 'month' is string, not numbers"),
    ],
)
def test_a_column_that_cannot_be_drawn_is_an_error(kind, options, error, message):
    with pytest.raises(error, match=message):
        chart(MONTHS, kind, **options)


def test_one_column_is_too_few_for_two():
    with pytest.raises(InvalidInput, match="needs two columns"):
        chart(pa.table({"n": [1]}), "bar")
