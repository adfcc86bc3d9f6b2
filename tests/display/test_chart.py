"""Charts of answers: which points they have, what they say, and what a notebook gets of them."""

from __future__ import annotations

import base64
import json
import logging
import math
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import altair as alt
import pyarrow as pa
import pytest
import vl_convert

import sleeper_nb as sl
from sleeper_nb.display.chart import VEGA_LITE
from sleeper_nb.display.chart_marks import ChartColumns
from sleeper_nb.display.chart_points import MOST_POINTS, columns_of_chart
from sleeper_nb.display.chart_ranges import chart_of_sums
from sleeper_nb.display.vega import specification_of
from sleeper_nb.errors import InvalidInput, NotFound
from tests.support.charts import chart
from tests.support.engines import DUCKDB_FIRST, ENGINES

MONTHS = pa.table({"month": ["jan", "feb", "mar"], "flights": [27, 25, 29], "late": [0.1, None, 0.3]})
_SVG = "{http://www.w3.org/2000/svg}"


def specification(made):
    """Return the Vega-Lite of a chart, which Altair has checked against its schema."""
    return made.altair.to_dict()


def points_of(made):
    """Return the rows that are drawn."""
    (rows,) = specification(made)["datasets"].values()
    return rows


def drawn(made):
    """Return a chart as SVG, as the converter draws it."""
    return ET.fromstring(vl_convert.vegalite_to_svg(specification(made), vl_version="5.20"))  # noqa: S314 - our own


def labels(made, axis):
    """Return the labels of an axis, ``X`` or ``Y``."""
    group = next(g for g in drawn(made).iter(f"{_SVG}g") if g.get("aria-label", "").startswith(f"{axis}-axis"))
    marks = next(g for g in group.iter(f"{_SVG}g") if "role-axis-label" in g.get("class", ""))
    return [text.text for text in marks.iter(f"{_SVG}text")]


def histogram(counts, x):
    """Return the histogram of what an engine counted."""
    groups = {"kept_c": 1, "c": None, "many_c": 1, "kept_f": 1, "f": None, "many_f": 1}
    sums = pa.Table.from_pylist([{**groups, **count} for count in counts])
    return chart_of_sums(sums, ChartColumns("hist", x, "rows", x_type="number"))


def said(made):
    """Return what a chart says besides its points: the range in its description, and the notes below its title."""
    found = specification(made)
    return " · ".join(filter(None, (found["description"].partition(": ")[2], *found["title"].get("subtitle", ()))))


def test_bars_are_in_the_order_of_the_rows_and_each_is_named():
    made = chart(MONTHS, "bar", footer="trips at snapshot 2")
    assert made.to_dict() == {"month": ["jan", "feb", "mar"], "flights": [27, 25, 29]}
    assert labels(made, "X") == ["jan", "feb", "mar"]
    assert [tip["title"] for tip in specification(made)["encoding"]["tooltip"]] == ["month", "flights"]
    assert said(made) == "flights from 25 to 29 · trips at snapshot 2"
    assert repr(made).splitlines() == [
        "flights by month",
        f"jan  {'█' * 37}▎    27",
        f"feb  {'█' * 34}▌       25",
        f"mar  {'█' * 40}  29",
        "flights from 25 to 29 · trips at snapshot 2",
    ]


def test_bars_below_zero_are_left_of_it():
    made = chart(pa.table({"month": ["jan", "feb", "mar"], "flights": [1.5, -0.5, 0.0]}), "bar")
    assert repr(made).splitlines()[1:4] == [
        f"jan            │{'█' * 30}   1.5",
        f"feb  {'█' * 10}│{' ' * 30}  -0.5",
        f"mar            │{' ' * 30}     0",
    ]


@pytest.mark.parametrize("heights", [[*range(21)], [1] * 3], ids=["too many", "names too long"])
def test_bars_without_room_for_names_are_one_line_of_text(heights):
    name = "x" * 41 if len(heights) == 3 else "month"
    made = chart(pa.table({"month": [f"{name}{n}" for n in range(len(heights))], "flights": heights}), "bar")
    _, blocks, ends, _ = repr(made).splitlines()
    assert (len(blocks), ends) == (len(heights), f"{name}0 … {name}{len(heights) - 1}")


def test_bars_of_nothing_and_of_very_large_values_have_their_names_too():
    made = chart(pa.table({"month": ["jan", "feb"], "flights": [0.0, 0.0]}), "bar")
    assert repr(made).splitlines()[1:3] == ["jan    0", "feb    0"]
    made = chart(pa.table({"month": ["jan", "feb"], "flights": [1e300, 5e299]}), "bar")
    assert repr(made).splitlines()[1:3] == [f"jan  {'█' * 40}  1e+300", f"feb  {'█' * 20}{' ' * 20}  5e+299"]


def test_a_line_goes_by_time_whatever_the_order_and_leaves_out_nulls_aloud():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table({"at": [start + timedelta(days=d) for d in (9, 0, 3, 5)], "v": [Decimal(4), Decimal(1), None, 2]})
    made = chart(rows, "line")
    assert [((p.x / 1000 - start.timestamp()) / 86_400, p.y) for p in made.points] == [(0, 1), (5, 2), (9, 4)]
    assert made.notes == ("1 row left out: null or not finite",)
    days = ["2026", "Fri 02", "Sat 03", "Jan 04", "Mon 05", "Tue 06", "Wed 07", "Thu 08", "Fri 09", "Sat 10"]
    assert labels(made, "X")[::2] == days


ON_DUCKDB_FIRST = pytest.mark.parametrize("hist", DUCKDB_FIRST, indirect=True)


@pytest.fixture(params=ENGINES)
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
    assert made.notes[0] == "4 rows left out: null or not finite"
    assert labels(made, "X")[0] == "0"


@ON_DUCKDB_FIRST
def test_a_histogram_is_of_all_rows(hist):
    made = hist(range(100), sql="SELECT one.k FROM t AS one CROSS JOIN t AS two CROSS JOIN (SELECT * FROM t LIMIT 2)")
    assert sum(point.y for point in made.points) == 20_000 > MOST_POINTS


@ON_DUCKDB_FIRST
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
    bars = [path for path in drawn(made).iter(f"{_SVG}path") if path.get("aria-roledescription") == "bar"]
    assert len(bars) == len(heights)
    assert not any("NaN" in path.get("d") for path in bars)
    assert repr(made)


def test_an_unknown_chart_is_told_which_there_are(tmp_path):
    with (
        sl.connect(tmp_path) as session,
        pytest.raises(InvalidInput, match="one of 'line', 'bar', 'hist', 'scatter', 'area'"),
    ):
        session.sql("SELECT 1 AS n", engine="duckdb").plot("pie")


@ON_DUCKDB_FIRST
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
    counts = [{"low": min(values), "high": max(values), "place": place, "n": 1} for place in (0, 29)]
    points = histogram(counts, "v").points
    assert (points[0].label, points[-1].label) == (first, last)
    assert len({point.label for point in points}) == 30


@pytest.mark.parametrize("engine", ENGINES)
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


@ON_DUCKDB_FIRST
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
    many = pa.table({"x": range(MOST_POINTS), "y": range(MOST_POINTS)})
    thinned = "drawn as the lowest and the highest of every 34 neighbouring points"
    assert chart(many, "line").notes == (thinned,)
    assert thinned in said(chart(many, "line"))
    assert chart(many.slice(0, 600), "line").notes == ()
    assert len(points_of(chart(many.slice(0, 600), "line"))) == 600
    assert len(repr(chart(many, "line")).splitlines()[1]) <= 80
    waves = pa.table(
        {"x": range(MOST_POINTS), "y": [1e6 * math.sin(i) - 7e5 * (i == 4321) for i in range(MOST_POINTS)]}
    )
    made = chart(waves, "line")
    bundle, _ = made._repr_mimebundle_()
    assert all(len(json.dumps(each, indent=1)) < 65_536 for each in bundle.values())
    assert min(row["y"] for row in points_of(made)) == min(point.y for point in made.points)  # the one lowest of all
    assert len(made.points) == MOST_POINTS  # which `to_dict` has, and more than Altair takes from a data frame


@pytest.mark.parametrize("kind", ["line", "bar"])
@pytest.mark.parametrize(
    ("heights", "values"),
    [
        ([27, 25, 29], ["0", "5", "10", "15", "20", "25", "30"]),
        ([0.0, 0.29], ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"]),
        ([-30, -4], ["−30", "−25", "−20", "−15", "−10", "−5", "0"]),
        ([1234567, 2e7], ["0", "5,000,000", "10,000,000", "15,000,000", "20,000,000"]),
        ([1e12, 2e200], ["0", "5e+199", "1e+200", "1.5e+200", "2e+200"]),
        ([5e-324, 0.0], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ([0, 0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_heights_can_be_read(kind, heights, values):
    made = chart(pa.table({"x": range(len(heights)), "y": pa.array(heights, pa.float64())}), kind)
    assert sorted(labels(made, "Y")) == sorted(values)
    picture = ET.tostring(drawn(made), "unicode") + repr(made)
    assert "nan" not in picture.casefold().replace("nance", "")


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_numbers_that_vega_cannot_draw_are_left_out_aloud(kind):
    made = chart(pa.table({"x": [1, 2, 3], "y": [-1.7e308, 5.0, None]}), kind)
    assert made.notes == ("1 row left out: null or not finite", "1 row left out: too large to draw")
    assert [point.y for point in made.points] == [5]


def test_moments_that_a_browser_has_not_are_left_out_aloud():
    rows = pa.table({"at": pa.array([0, 2**63 - 2], pa.timestamp("us")), "v": [1, 2]})
    assert chart(rows, "line").notes == ("1 row left out: too large to draw",)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_are_drawn_as_they_are_written_whatever_their_unit_and_the_zone_of_the_machine(unit):
    moments = pa.array([datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 18)], pa.timestamp(unit))  # noqa: DTZ001
    made = chart(pa.table({"at": moments, "v": [1, 2]}), "line")
    assert labels(made, "X")[0] == "12 PM"
    assert {layer["encoding"]["x"]["scale"]["type"] for layer in specification(made)["layer"]} == {"utc"}
    assert points_of(made)[0]["label"] == "2026-01-01 12:00:00"


def test_times_of_day_and_dates_are_drawn_as_such():
    made = chart(pa.table({"at": [time(9), time(17)], "v": [1, 2]}), "line")
    assert labels(made, "X")[:2] == ["09:00:00", "09:30:00"]
    days = pa.array([20454, 20455], pa.int32()).cast(pa.date32())
    assert chart(pa.table({"at": days, "v": [1, 2]}), "line").points[0].x == 20454 * 86_400_000


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_a_chart_of_no_rows_says_so_in_a_line(kind):
    made = chart(pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), kind, footer="t at 2")
    assert repr(made) == "y by x\nno rows · t at 2"
    assert made._repr_mimebundle_() == ({"text/plain": repr(made)}, {})
    assert said(made) == "no rows · t at 2"


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_no_rows_and_hostile_names_are_drawn_too(kind):
    hostile = '<script>&"\n'
    for rows in (pa.table({hostile: pa.array([], pa.int64()), "y": pa.array([], pa.int64())}),
                 pa.table({hostile: [1, 2], "y": [-1, 3]})):  # fmt: skip
        made = chart(rows, kind, footer=hostile)
        assert "<script" not in ET.tostring(drawn(made), "unicode")
        assert made.grid().text()
        assert repr(made)
    assert labels(chart(pa.table({"x": [hostile], "y": [1]}), "bar"), "X") == ['<script>&"\\n']
    assert labels(chart(pa.table({"a.b[0]": [1], "c'd": [1]}), "bar"), "X") == ["1"]


def test_bars_of_one_label_stand_next_to_each_other():
    made = chart(pa.table({"x": ["a", "b", "a"], "y": [1, 2, 3]}), "bar")
    assert [label.strip("\u200b") for label in labels(made, "X")] == ["a", "b", "a"]


@pytest.mark.parametrize("name", ["image", "title"])
def test_a_tooltip_loads_no_image_that_a_value_names(name):
    """vega-tooltip shows what is called ``image`` as one, from wherever it is."""
    made = chart(pa.table({name: ["http://127.0.0.1/x.png"], "y": [1]}), "bar")
    assert specification(made)["encoding"]["tooltip"][0]["title"] == f"column {name}"


@pytest.mark.parametrize("kind", ["line", "bar", "hist"])
def test_a_notebook_gets_vega_lite_a_picture_and_text_and_no_html(kind):
    counts = [{"low": 0.0, "high": 9.0, "place": place, "n": 1} for place in range(30)]
    rows = pa.table({"x": [1, 2], "y": [3, 4]})
    made = histogram(counts, "x") if kind == "hist" else chart(rows, kind)
    bundle, metadata = made._repr_mimebundle_()
    assert set(bundle) == {VEGA_LITE, "image/png", "text/plain"}  # JupyterLab would prefer HTML to Vega-Lite
    assert not hasattr(made, "_repr_html_")
    assert bundle["text/plain"] == repr(made)
    assert made._repr_mimebundle_()[0] == bundle  # each save of a notebook is the same
    assert bundle[VEGA_LITE]["$schema"].startswith("https://vega.github.io/schema/vega-lite/v5.")
    assert metadata == {"image/png": {"width": 720, "height": 300}}
    *selections, widening = (each["name"] for each in bundle[VEGA_LITE]["params"])
    assert selections == ([] if kind == "bar" else ["zoom"])  # there is nothing to zoom along labels
    assert (bundle[VEGA_LITE]["width"], widening) == ("container", "full_width")  # as wide as the cell


def test_the_picture_has_the_pixels_of_the_converter_in_less_bytes():
    made = chart(MONTHS, "bar")
    packed = base64.b64decode(made._repr_mimebundle_()[0]["image/png"])
    whole = vl_convert.vegalite_to_png(specification(made), vl_version="5.20", scale=2)
    assert len(packed) < len(whole) / 2
    assert _pixels(packed) == _pixels(whole)


def _pixels(png):
    """Return the size and the pixels of a PNG, whose checksums are right."""
    at, data, head = 8, b"", b""
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size) == (zlib.crc32(kind + content),)
        data += content if kind == b"IDAT" else b""
        head += content if kind == b"IHDR" else b""
        at += size + 12
    assert kind == b"IEND"
    return head, zlib.decompress(data)


def test_a_chart_without_a_picture_is_shown_and_logged(monkeypatch, caplog):
    def fail(*_, **__):
        raise ValueError("a secret")

    monkeypatch.setattr(vl_convert, "vegalite_to_png", fail)
    with caplog.at_level(logging.WARNING, logger="sleeper_nb"):
        bundle, _ = chart(MONTHS, "bar")._repr_mimebundle_()
    assert set(bundle) == {VEGA_LITE, "text/plain"}
    assert "without a picture" in caplog.text
    assert "a secret" not in caplog.text


def test_a_user_goes_on_from_the_chart_of_altair():
    made = chart(MONTHS, "bar").altair
    assert isinstance(made, alt.Chart)
    wider = made.properties(width=900).encode(color=alt.value("teal"))
    assert vl_convert.vegalite_to_svg(wider.to_dict(), vl_version="5.20").count("teal") >= 3


def test_a_chart_as_text_loads_no_altair():
    program = """
import sys, pyarrow as pa
from tests.support.charts import chart
repr(chart(pa.table({"x": [1], "y": [2]}), "line"))
assert not {"altair", "vl_convert"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


FLIGHTS = pa.table(
    {
        "at": pa.array([86_400_000 * (i // 2) for i in range(12)], pa.timestamp("ms")),
        "late": [float(i) for i in range(12)],
        "miles": [100.0 * (i + 1) for i in range(12)],
        "carrier": ["AA", "UA"] * 6,
        "origin": ["EWR"] * 4 + ["JFK"] * 8,
    }
)


@pytest.mark.parametrize(
    ("columns", "kind", "x", "y"),
    [
        (["at", "late"], "line", "at", "late"),
        (["at", "carrier", "late"], "line", "at", "late"),
        (["carrier", "late"], "bar", "carrier", "late"),
        (["carrier", "origin", "late"], "bar", "carrier", "late"),
        (["late", "miles"], "scatter", "late", "miles"),
        (["late"], "hist", "late", "rows"),
        (["late", "carrier"], "hist", "late", "rows"),
    ],
)
def test_the_types_of_the_columns_tell_which_chart(columns, kind, x, y):
    chosen = columns_of_chart(FLIGHTS.select(columns).schema)
    assert (chosen.kind, chosen.x, chosen.y) == (kind, x, y)


@pytest.mark.parametrize("kind", ["bar", "line", "scatter", "area"])
def test_heights_are_the_first_other_column_of_numbers(kind):
    columns = columns_of_chart(pa.schema([("a", pa.int32()), ("at", pa.date32()), ("n", pa.int64())]), kind)
    assert (columns.x, columns.y) == ("a", "n")


def test_columns_of_colours_and_facets_are_no_axes():
    chosen = columns_of_chart(
        FLIGHTS.select(["carrier", "origin", "at", "late"]).schema, color="carrier", facet="origin"
    )
    assert (chosen.kind, chosen.x, chosen.y) == ("line", "at", "late")
    assert chosen.title == "late by at, carrier and origin"
    assert columns_of_chart(FLIGHTS.schema, x="miles", y="late").kind == "scatter"


def test_no_chart_of_only_text_is_an_error_with_a_hint():
    with pytest.raises(InvalidInput, match="no chart has only column 'carrier', which is string") as caught:
        columns_of_chart(FLIGHTS.select(["carrier", "origin"]).schema)
    assert "count(*)" in caught.value.hint


@pytest.mark.parametrize("kind", ["line", "area", "scatter", "bar"])
def test_a_third_column_has_a_colour_for_each_value(kind):
    made = chart(FLIGHTS, kind, "at", "late", color="carrier")
    assert {point.series for point in made.points} == {"AA", "UA"}
    assert made.to_dict()["carrier"][:2] == ["AA", "UA"]
    drawn(made)
    marks = specification(made)["layer"][0] if kind in {"line", "area"} else specification(made)
    assert marks["encoding"]["color"]["title"] == "carrier"
    assert any(param.get("bind") == "legend" for param in specification(made)["params"])
    lines = repr(made).splitlines()
    assert lines[0] == "late by at and carrier"
    assert [line.split()[-1] for line in lines[1:3]] == ["AA", "UA"] or kind == "scatter"


def test_areas_stand_on_each_other_also_where_one_has_no_height():
    whole = chart(FLIGHTS, "area", "at", "late", color="carrier")
    assert specification(whole)["layer"][0]["encoding"]["y"]["stack"] == "zero"
    assert specification(whole)["layer"][0]["encoding"]["y"]["scale"]["domain"] == [0, 21]
    parts = chart(FLIGHTS.slice(1), "area", "at", "late", color="carrier")
    assert specification(parts)["layer"][0]["encoding"]["y"]["stack"] == "zero"
    assert specification(parts)["layer"][0]["encoding"]["y"]["scale"]["domain"] == [0, 21]
    below = pa.table({"at": [1, 2], "late": [-1.0, 2.0], "carrier": ["AA", "UA"]})
    layers = specification(chart(below, "area", "at", "late", color="carrier"))["layer"]
    assert layers[0]["encoding"]["y"]["stack"] is None
    lines = chart(FLIGHTS, "line", "at", "late", color="carrier")
    assert specification(lines)["layer"][0]["encoding"]["y"]["stack"] is None


@pytest.mark.parametrize("kind", ["bar", "line", "area", "scatter"])
def test_a_value_has_the_same_colour_in_whatever_order_rows_come(kind: str):
    names = ["b", "10", "9", None, "a", "NULL"]
    rows = pa.table({"x": [1.0] * 6, "y": [1.0] * 6, "c": names})
    domains = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 4, 2, 0]):
        drawn = specification(chart(rows.take(order), kind, "x", "y", color="c"))
        marks = drawn["layer"][0] if "layer" in drawn else drawn
        domains.append(marks["encoding"]["color"]["scale"]["domain"])
    assert domains == [["9", "10", "'NULL'", "a", "b", "NULL"]] * 2


def test_a_chart_is_shown_without_altair_and_altair_has_the_same_chart():
    text = (
        "import sys, pyarrow as pa; from tests.support.charts import chart; "
        "made = chart(pa.table({'m': ['a', 'b'], 'n': [1, 2]}), 'bar'); print(sorted(made._repr_mimebundle_()[0])); "
        "assert 'altair' not in sys.modules; made.altair"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == (f"{sorted(['text/plain', 'image/png', VEGA_LITE])}\n", "")
    for kind, facet in (("bar", None), ("line", None), ("area", "origin"), ("scatter", "origin")):
        made = chart(FLIGHTS, kind, "at", "late", color="carrier", facet=facet)
        assert made.altair.to_dict() == specification_of(made)
    assert specification_of(made)["$schema"].endswith(f"/{alt.SCHEMA_VERSION}.json")


def test_numbers_colour_a_scatter_along_a_scale():
    made = chart(FLIGHTS, "scatter", "late", "miles", color="miles")
    assert specification(made)["encoding"]["color"]["type"] == "quantitative"
    assert made.points[3].series == 400


@pytest.mark.parametrize("kind", ["line", "area", "scatter", "bar"])
def test_each_value_of_a_column_has_a_small_chart(kind):
    made = chart(FLIGHTS, kind, "at", "late", color="carrier", facet="origin")
    bundle, metadata = made._repr_mimebundle_()
    assert bundle[VEGA_LITE]["facet"]["title"] == "origin"
    assert metadata["image/png"]["width"] <= 760
    assert {row["facet"] for row in points_of(made)} == {"EWR", "JFK"}


def test_more_colours_and_facets_than_can_be_told_apart_are_left_out_aloud():
    rows = pa.table({"x": range(20), "y": [1] * 20, "c": ["a", "b", *map(str, range(18))]})
    assert chart(rows, "line", "x", "y", color="c").notes == (
        "10 rows left out: only the 10 most frequent of 20 values of c are drawn",
    )
    assert chart(rows, "scatter", "x", "y", facet="c").notes == (
        "8 rows left out: only the 12 most frequent of 20 values of c are drawn",
    )
    made = chart(rows, "scatter", "x", "y", color="c")
    assert [point.series for point in made.points][-1] == "10 others"
    assert made.notes == ()


@pytest.mark.parametrize("kind", ["line", "area", "scatter", "bar"])
def test_what_a_logarithmic_axis_cannot_show_is_left_out_aloud(kind):
    made = chart(FLIGHTS, kind, "miles", "late", log="y")
    assert made.notes == ("1 row left out: not above 0, on a logarithmic axis",)
    marks = specification(made)["layer"][0] if kind in {"line", "area"} else specification(made)
    assert marks["encoding"]["y"]["scale"]["type"] == "log"
    assert len(repr(made).splitlines()) == (3 if kind == "scatter" else 4)
    assert drawn(made) is not None


@pytest.mark.parametrize(("kind", "x"), [("line", "at"), ("bar", "miles")])
def test_an_axis_without_numbers_is_not_logarithmic(kind, x):
    with pytest.raises(InvalidInput, match="cannot be logarithmic"):
        chart(FLIGHTS, kind, x, "late", log="x")


def test_words_and_lines_of_a_chart_are_read_on_light_and_on_dark():
    config = specification(chart(FLIGHTS, "line"))["config"]
    assert config["background"] == "transparent"
    for colour in (config["axis"]["labelColor"], config["title"]["color"]):
        assert min(_contrast(colour, "#ffffff"), _contrast(colour, "#111111")) > 4


def _contrast(one, other):
    """Return the contrast of two colours, as the web's guidelines for accessible pages compute it."""
    lights = []
    for colour in (one, other):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(lights) / min(lights)


def test_one_column_is_too_few_for_two():
    with pytest.raises(InvalidInput, match="needs two columns"):
        chart(pa.table({"n": [1]}), "bar")


def test_a_chart_goes_on_with_other_properties_and_is_displayed_as_before():
    made = chart(pa.table({"n": [1, 2, 3], "flights": [27, 25, 29]}), "line")
    wide = made.properties(width=300, title="mine").properties(height=200)
    data, metadata = wide._repr_mimebundle_()
    assert (data[VEGA_LITE]["width"], data[VEGA_LITE]["height"], data[VEGA_LITE]["title"]) == (300, 200, "mine")
    assert metadata["image/png"]["width"] <= 300
    assert (wide.to_dict(), repr(wide)) == (made.to_dict(), repr(made))
    assert made._repr_mimebundle_()[0][VEGA_LITE]["width"] != 300


@pytest.mark.parametrize("wrong", [{"colour": "red"}, {"width": "broad"}, {"height": [1]}, {"mark": 7}])
def test_a_property_that_a_chart_cannot_have_is_refused_by_name(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))) as raised:
        chart(MONTHS, "bar").properties(**wrong)
    assert "chart.altair" in str(raised.value)


def test_a_chart_is_saved_as_picture_or_specification(tmp_path):
    made = chart(MONTHS, "bar")
    begins = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF", "json": b"{"}
    for ending, begin in begins.items():
        made.save(tmp_path / f"chart.{ending}")
        assert (tmp_path / f"chart.{ending}").read_bytes().startswith(begin)
    with pytest.raises(InvalidInput, match=r"chart\.html"):
        made.save(tmp_path / "chart.html")
    assert not (tmp_path / "chart.html").exists()


def test_a_chart_names_the_columns_of_the_answer_that_it_leaves_out(tmp_path):
    statement = "SELECT month, origin, n FROM rows ORDER BY month"
    rows = pa.table({"month": ["jan", "feb"], "origin": ["JFK", "LGA"], "n": [1, 2]})
    with sl.connect(tmp_path) as session:
        answer = session.sql(statement, data={"rows": rows}, engine="duckdb")
        assert answer.plot("bar").notes[0].startswith("not drawn: origin · variable rows")
        for options in ({"x": "month", "y": "n"}, {"color": "origin"}):
            assert "not drawn" not in repr(answer.plot("bar", **options))
