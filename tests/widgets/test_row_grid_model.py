"""The rows that the grid shows: pages in one order, filters, search, headers; without a widget."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import Cancelled
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.progress import Watch
from sleeper_nb.widgets import row_grid_model
from sleeper_nb.widgets.key_blocks import KeyBlocks
from sleeper_nb.widgets.row_grid_model import RowGridModel
from sleeper_nb.widgets.row_grid_query import ColumnFilter, GridQuery, GridSort
from tests.support.combinations import each_value_once

DAY = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
VALUES = {
    "d": "double?", "f": "float", "b": "boolean", "ts": "timestamp", "dt": "date", "l": "list<int>",
    "s": "struct<a:int,b:string>", "dec": "decimal(9,2)", "note": "string?", "tm": "time", "u": "uuid",
    "order": "smallint", "raw": "bytearray",
}  # fmt: skip


def rows_of(month):
    return [
        {
            "k": key, "n": i, "d": i * 0.37 if i % 5 else None, "f": i * 0.125, "b": i % 2 == 0,
            "ts": DAY + dt.timedelta(hours=7 * i), "dt": DAY.date() + dt.timedelta(days=3 * i), "l": [i, i],
            "s": {"a": i, "b": "x"}, "dec": i, "note": [f"<b>it's {i % 3}</b>", "", None][i % 3 if i % 4 else 0],
            "tm": dt.time(i % 24, i % 60), "u": f"00000000-0000-0000-0000-00000000000{i % 4}",
            "order": month, "raw": bytes([i]),
        }
        for key in ("a", "b", "c", "k", "z")
        for i in range(30)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("grid") / "warehouse", author="ada") as session:
        table = session.create_table(
            "odd-flights", sl.Schema({"k": "string"}, {"n": "int"}, VALUES), split_points=["c", "m"]
        )
        for month in range(3):
            table.ingest(rows_of(month))
        yield session


def model_of(session, name="odd-flights"):
    table = session.table(name)
    return RowGridModel(table.at(table.at().resolved.snapshot_id))


@pytest.fixture
def model(session):
    return model_of(session)


def typed(model, column, text):
    return GridQuery(filters=(ColumnFilter.of_text(model.fields[column], text),))


def all_rows(model, query):
    """Return the rows of all pages, one after the other."""
    found = []
    while True:
        page = model.page(GridQuery(query.columns, query.sorts, query.filters, query.search, len(found), 47), Watch())
        found += page.rows.to_pylist()
        if page.is_last:
            assert len(found) == page.total
            return found


def test_the_first_page_has_the_first_rows_by_key_and_says_of_how_many(model):
    page = model.page(GridQuery(), Watch())
    assert [(row["k"], row["n"]) for row in page.rows.to_pylist()] == [("a", i // 3) for i in range(20)]
    assert (page.total, page.is_last) == (450, False)
    assert page.reads.startswith("3 of 9 files, ")


def test_the_last_page_is_shown_when_there_are_fewer_rows(model):
    page = model.page(GridQuery(first=10_000), Watch())
    assert (page.query.first, page.rows.num_rows, page.is_last) == (440, 10, True)


@pytest.mark.parametrize(
    ("sorts_and_text", "small"),  # small: so many rows are sorted whole
    each_value_once(
        [
            ((), None),
            ((GridSort("d", descending=True),), None),
            ((GridSort("b"), GridSort("d")), ("n", "> 3")),
            ((), ("k", "= a, z")),
            ((GridSort("note"),), ("k", "= z")),
            ((GridSort("l"),), ("n", "3 .. 20")),
            ((GridSort("s", descending=True),), None),
        ],
        [100_000, 0],
    ),
)
def test_pages_have_every_row_once_in_one_order(model, monkeypatch, sorts_and_text, small):
    sorts, text = sorts_and_text
    monkeypatch.setattr(row_grid_model, "_SMALL", small)
    filters = () if text is None else (ColumnFilter.of_text(model.fields[text[0]], text[1]),)
    query = GridQuery(tuple(model.schema.names), sorts, filters)
    found = all_rows(model, query)
    one_page = model.page(GridQuery(query.columns, sorts, query.filters, rows=1000), Watch()).rows.to_pylist()
    assert found == one_page

    whole = [*rows_of(0), *rows_of(1), *rows_of(2)]
    kept = {
        "> 3": lambda row: row["n"] > 3, "= a, z": lambda row: row["k"] in "az", "= z": lambda row: row["k"] == "z",
        "3 .. 20": lambda row: 3 <= row["n"] <= 20, "not null": bool,
    }[text[1] if text else "not null"]  # fmt: skip
    assert sorted((row["k"], row["n"], row["order"]) for row in found) == sorted(
        (row["k"], row["n"], row["order"]) for row in whole if kept(row)
    )


def test_nulls_are_last_in_both_directions(model):
    for descending in (False, True):
        values = [row["d"] for row in all_rows(model, GridQuery(("d",), (GridSort("d", descending),)))]
        known = [value for value in values if value is not None]
        assert values == sorted(known, reverse=descending) + [None] * 90


@pytest.mark.parametrize(
    ("column", "text", "found"),
    [
        ("n", "3", 15), ("n", "3, 5", 30), ("n", "= 3", 15), ("n", "3 .. 5", 45), ("n", ".. 5", 90), ("n", "28 ..", 30),
        ("n", ">27", 30), ("n", ">= 27", 45), ("n", "<2", 30), ("n", "<= 2", 45), ("d", "null", 90),
        ("d", "Not Null", 360), ("d", "0.37", 15), ("f", "0.125", 15), ("b", "true", 225), ("note", "IT'S 0", 150),
        ("note", "= <b>it's 0</b>", 150), ("note", "=", 105), ("note", "100%", 0), ("note", "_", 0),
        ("ts", "< 2013-01-02", 60), ("dt", "2013-01-04", 15), ("dec", "1.00", 15), ("tm", ">= 23:00", 15),
        ("u", "00000000-0000-0000-0000-000000000003", 105), ("l", "7, 7", 15), ("s", "'a': 7", 15), ("raw", "07", 15),
        ("order", "2", 150), ("k", "= a, nothing", 90),
    ],
)  # fmt: skip
def test_a_typed_filter_finds_rows_and_its_line_finds_the_same(session, model, column, text, found):
    page = model.page(typed(model, column, text), Watch())
    assert page.total == found
    statement = page.line.partition("\n")[2].rpartition("\nLIMIT")[0]
    assert len(session.sql(statement, engine="duckdb")) == found


def test_no_filter_is_typed_by_blanks(model):
    assert ColumnFilter.of_text(model.fields["n"], "  ") is None


@pytest.mark.parametrize(("column", "text"), [("n", "x"), ("n", "1 .. y"), ("n", "1,,2"), ("dt", "yesterday")])
def test_a_value_that_the_type_does_not_have_is_an_error(model, column, text):
    with pytest.raises(sl.InvalidInput, match=f"no {model.fields[column].type} is exactly"):
        ColumnFilter.of_text(model.fields[column], text)


def test_a_column_that_is_not_there_is_an_error(model):
    with pytest.raises(sl.NotFound, match="did you mean 'note'"):
        model.page(GridQuery(columns=("not",)), Watch())
    with pytest.raises(sl.NotFound, match="no column 'x'"):
        model.summaries(["x"], GridQuery(), Watch())


@pytest.mark.parametrize("wrong", [{"first": -1}, {"rows": 0}, {"rows": 1001}])
def test_a_page_that_cannot_be_is_an_error(wrong):
    with pytest.raises(sl.InvalidInput):
        GridQuery(**wrong)


def test_a_search_looks_into_all_columns_of_text(model):
    assert model.page(GridQuery(search="IT'S 0"), Watch()).total == 150
    assert model.page(GridQuery(search="z"), Watch()).total == 90
    assert model.page(GridQuery(search=" "), Watch()).total == 450


def test_what_is_searched_and_filtered_is_never_sql(session, model):
    hostile = "' OR 1=1 --"
    assert model.page(GridQuery(search=hostile), Watch()).total == 0
    page = model.page(typed(model, "note", f"= {hostile}"), Watch())
    assert page.total == 0
    assert len(session.sql(page.line.partition("\n")[2], engine="duckdb")) == 0


def test_a_search_in_a_table_without_text_finds_nothing(session):
    table = session.create_table("numbers", sl.Schema({"n": "int"}))
    table.ingest([{"n": 1}])
    assert model_of(session, "numbers").page(GridQuery(search="1"), Watch()).total == 0


def test_the_line_gives_the_rows_of_the_page(session, model):
    for query in (GridQuery(), GridQuery(sorts=(GridSort("d", descending=True),), search="it", first=20, rows=7)):
        page = model.page(query, Watch())
        first, _, statement = page.line.partition("\n")
        assert first == "%%sleeper sql --engine duckdb"
        rows = session.sql(statement, engine="duckdb").to_arrow()
        assert rows.select(["k", "n"]).equals(page.rows.select(["k", "n"]))


@pytest.mark.parametrize("query", [GridQuery(), GridQuery(search="it's 0")])
def test_each_bar_counts_the_rows_that_its_filter_finds(session, model, query):
    names = [name for name, field in model.fields.items() if field.type.name not in {"list", "struct", "bytearray"}]
    for summary in model.summaries(names, query, Watch()):
        bars, name = summary.bars, summary.column.name
        assert 1 <= len(bars.marks) <= 26
        assert sum(summary.counts) == summary.rows - summary.nulls
        assert sum(summary.of) == 450 - {"d": 90, "note": 120}.get(name, 0)
        for number in range(0, len(bars.marks), 4 if query.search else 2):
            page = model.page(GridQuery(filters=(bars.chosen(number, number),), search=query.search), Watch())
            assert (name, page.total) == (name, summary.counts[number])


def test_headers_count_nulls_and_nested_columns_have_no_bars(model):
    d, nested, raw = model.summaries(["d", "s", "raw"], GridQuery(), Watch())
    assert (d.rows, d.nulls) == (450, 90)
    assert (nested.bars, raw.bars, nested.nulls) == (None, None, 0)
    with pytest.raises(sl.InvalidInput, match="column 's' has no histogram"):
        model.bars_of("s", Watch())


def test_bars_have_round_ends(model):
    summaries = {
        each.column.name: each.bars.label for each in model.summaries(["n", "d", "ts", "b"], GridQuery(), Watch())
    }
    assert summaries["n"](1) == "0 < … ≤ 2"
    assert summaries["d"](1) == "0.5 < … ≤ 1"
    assert summaries["ts"](1) == "2013-01-01 00:00:00 UTC < … ≤ 2013-01-01 12:00:00 UTC"
    assert summaries["b"](0) == "false"


def test_bars_stay_where_they_are_when_rows_are_filtered(model):
    before = model.summaries(["n"], GridQuery(), Watch())[0]
    after = model.summaries(["n"], typed(model, "n", "> 20"), Watch())[0]
    assert after.bars == before.bars
    assert (after.of, sum(after.counts)) == (before.counts, 135)


def test_special_numbers_are_in_no_bar_and_shown(session):
    table = session.create_table("special", sl.Schema({"n": "int"}, {}, {"d": "double?"}))
    nan, inf = float("nan"), float("inf")
    table.ingest([{"n": n, "d": d} for n, d in enumerate((nan, inf, -inf, 1.0, 2.0, None))])
    model = model_of(session, "special")
    (summary,) = model.summaries(["d"], GridQuery(), Watch())
    assert (summary.nulls, summary.bars.marks[-1]) == (1, 2.0)
    assert sum(summary.counts) == 3  # minus infinity is in the first bar
    assert model.page(GridQuery(sorts=(GridSort("d", descending=True),)), Watch()).rows["d"].to_pylist()[1:] == [
        inf, 2.0, 1.0, -inf, None,
    ]  # fmt: skip


def test_an_empty_table_has_no_rows_and_no_bars(session):
    session.create_table("empty", sl.Schema({"n": "int"}, {}, {"d": "double"}))
    model = model_of(session, "empty")
    page = model.page(GridQuery(sorts=(GridSort("d"),)), Watch())
    assert (page.total, page.rows.num_rows, page.is_last) == (0, 0, True)
    summary = model.summaries(["d"], GridQuery(), Watch())[0]
    assert (summary.bars, summary.rows, summary.nulls, summary.distinct) == (None, 0, 0, 0)


def test_deleted_and_replaced_rows_are_counted_and_shown_as_they_are_now(session):
    table = session.create_table("changed", sl.Schema({"n": "int"}, {}, {"d": "double"}), split_points=[100])
    table.ingest([{"n": n, "d": n} for n in range(200)])
    table.delete("n % 10 = 0")
    model = model_of(session, "changed")
    assert model.page(GridQuery(), Watch()).total == 180
    assert [row["n"] for row in all_rows(model, GridQuery())] == [n for n in range(200) if n % 10]
    assert [row["n"] for row in all_rows(model, GridQuery(sorts=(GridSort("d", descending=True),)))] == [
        n for n in reversed(range(200)) if n % 10
    ]


def test_combined_rows_are_paged_too(session):
    table = session.create_table(
        "sums", sl.Schema({"n": "int"}, {}, {"d": "long"}), properties={"sleeper.table.aggregations": "sum(d)"}
    )
    for _ in range(2):
        table.ingest([{"n": n, "d": n} for n in range(60)])
    model = model_of(session, "sums")
    assert [row["d"] for row in all_rows(model, GridQuery())] == [2 * n for n in range(60)]
    assert model.page(GridQuery(rows=5), Watch()).total == 60


def test_an_old_version_is_shown_with_its_rows(session):
    table = session.table("odd-flights")
    model = RowGridModel(table.at(2))
    page = model.page(GridQuery(), Watch())
    assert page.total == 150
    assert "VERSION AS OF 2" in page.line


def test_one_value_of_a_page_can_be_asked_for(model):
    page = model.page(GridQuery(columns=("k", "l", "s")), Watch())
    assert page.value(3, "s") == {"a": 1, "b": "x"}
    for row, column in ((20, "s"), (-1, "s"), (0, "d")):
        with pytest.raises(sl.InvalidInput, match="the page has no row"):
            page.value(row, column)


def test_blocks_tell_where_rows_are_from_metadata(session):
    blocks = KeyBlocks.of(session.table("odd-flights").at(4).state)
    assert blocks.rows == 450
    assert [span.before for span in blocks.spans] == [0, 180, 360]
    assert blocks.around(0, 20) == ("a", "b", 0)
    assert blocks.around(179, 1) == ("a", "b", 0)
    assert blocks.around(170, 20) == ("a", "k", 0)
    assert blocks.around(185, 20) == ("c", "k", 180)
    assert blocks.around(449, 20) == ("z", "z", 360)
    assert blocks.around(450, 20) is None
    assert blocks.around(0, 450) is None


def test_every_page_reads_the_blocks_that_have_its_rows(model):
    whole = model.page(GridQuery(rows=1000), Watch()).rows
    for first, rows in itertools.product(range(0, 450, 37), (1, 19, 200)):
        assert model.page(GridQuery(first=first, rows=rows), Watch()).rows.equals(whole.slice(first, rows))


def test_blocks_are_not_known_where_files_are_shared_after_a_split(session):
    table = session.create_table("shared", sl.Schema({"n": "int"}))
    table.ingest([{"n": n} for n in range(100)])
    table.maintenance.split(at=50)
    at = table.at(table.at().resolved.snapshot_id)
    assert KeyBlocks.of(at.state) is None
    assert [row["n"] for row in all_rows(RowGridModel(at), GridQuery())] == list(range(100))


def test_2000_columns_are_fetched_as_far_as_they_are_asked_for(session):
    names = [f"c{number}" for number in range(2000)]
    table = session.create_table("wide", sl.Schema({"n": "int"}, {}, dict.fromkeys(names, "int")))
    table.ingest([{"n": 1, **dict.fromkeys(names, 7)}])
    model = model_of(session, "wide")
    assert model.page(GridQuery(), Watch()).rows.column_names == ["n", *names[:23]]
    asked = GridQuery(columns=("n", "c1999"), sorts=(GridSort("c1000"),))
    assert model.page(asked, Watch()).rows.to_pylist() == [{"n": 1, "c1999": 7}]
    assert model.summaries(["c1999"], GridQuery(), Watch())[0].counts == [1]


def test_headers_count_different_values_exactly_where_that_is_cheap(session, model, monkeypatch):
    names = ["k", "n", "d", "note", "b", "u", "order", "s"]

    def distinct(query):
        return {each.column.name: (each.distinct, each.exact) for each in model.summaries(names, query, Watch())}

    statement = f"SELECT {', '.join(f'count(DISTINCT {quoted_name(name)}) AS {quoted_name(name)}' for name in names)}"
    table = 'FROM "odd-flights"'
    expected = {
        name: count for name, (count,) in session.sql(f"{statement} {table}", engine="duckdb").to_dict().items()
    }
    assert distinct(GridQuery()) == {name: (expected[name] if name != "s" else None, True) for name in names}
    some = distinct(typed(model, "n", "< 5"))
    assert (some["n"], some["k"]) == ((5, True), (5, True))
    monkeypatch.setattr(row_grid_model, "_MANY", 100)
    several = distinct(typed(model, "n", "< 5"))
    assert several["n"][0] == pytest.approx(5, abs=1)
    assert not several["n"][1]
    assert distinct(GridQuery())["note"] == (expected["note"], True)  # its most frequent values are counted anyway
    assert not distinct(GridQuery())["d"][1]


@pytest.mark.parametrize("brushed", ["n", "d", "note", "b", "ts", "order"])
def test_a_cube_has_what_the_headers_say_of_each_bar(model, brushed):
    others = [name for name in ("k", "n", "d", "note", "b", "dt", "l") if name != brushed]
    query = typed(model, "n", "> 3")
    cube = model.cube(brushed, others, query, Watch())
    bars = model.bars_of(brushed, Watch())
    assert len(cube.rows) == len(bars.marks)
    for bar in range(len(bars.marks)):
        chosen = GridQuery(filters=(*query.filters, bars.chosen(bar, bar)))
        for summary in model.summaries(others, chosen, Watch()):
            name = summary.column.name
            assert cube.rows[bar] == summary.rows
            assert (list(cube.counts[name][bar]), cube.nulls[name][bar]) == (list(summary.counts), summary.nulls)


def test_a_cancel_stops_a_page(model):
    watch = Watch()
    watch.cancel()
    with pytest.raises(Cancelled):
        model.page(GridQuery(), watch)
