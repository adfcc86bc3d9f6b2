"""The tabs of the explorer that one works in: a range of keys and its rows, a query and its rows."""

from __future__ import annotations

import re

import pytest

import sleeper_nb as sl
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.explorer_model import ExploreModel
from tests.widgets.conftest import buttons, shown


def _leaf(session, keys):
    return next(
        leaf["partition_id"] for leaf in session.table("flights").inspect.partitions() if leaf["region"] == keys
    )


def untimed(text):
    """Return an answer without the seconds that it took."""
    return re.sub(r" · [\d.]+ s$", "", text)


@pytest.fixture
def explorer(session):
    return explore(session, "flights")


def test_the_rows_of_a_range_are_shown_below_the_partitions_with_their_line(session, explorer):
    explorer.tab, explorer.version = "partitions", 3
    explorer.partition = _leaf(session, "carrier [DL, UA)")
    line = '%sleeper scan flights@3 --region "carrier=[DL,UA)"'
    assert explorer.partition_rows.line == line
    assert explorer.partition_rows.text.splitlines()[2].startswith("DL")
    assert "AA" not in explorer.partition_rows.text
    assert explorer.preview.line == "%sleeper partitions flights@3"
    assert "carrier=[DL,UA)" in shown(explorer)
    explorer.partition = ""
    assert explorer.partition_rows is None
    assert "--region" not in shown(explorer)


def test_the_line_of_a_range_gives_its_rows(session, explorer, shell):
    shell.run_cell("%load_ext sleeper_nb").raise_error()
    shell.run_cell(f"%sleeper use {session.location.rpartition('/')[0]}").raise_error()
    for keys in ("carrier (-∞, DL)", "carrier [UA, ∞)"):
        explorer.tab, explorer.partition = "partitions", _leaf(session, keys)
        answer = shell.run_cell(explorer.partition_rows.line)
        answer.raise_error()
        assert untimed(answer.result.grid().text()) == untimed(explorer.partition_rows.text)


def test_the_list_and_a_click_into_the_picture_choose_a_range(session, explorer):
    explorer.tab = "partitions"
    page = explorer._partitions
    labels = [words for words, _ in page._list.options]
    assert labels[1:] == ["carrier (-∞, DL) · 60 rows", "carrier [DL, UA) · 60 rows", "carrier [UA, ∞) · 60 rows"]
    page._list.index = 2
    assert explorer.partition == _leaf(session, "carrier [DL, UA)")
    page._boxes.children[0].click()
    assert explorer.partition == _leaf(session, "carrier (-∞, DL)")
    assert page._list.index == 1
    page._list.index = 0
    assert explorer.partition == ""


def test_the_rows_of_a_table_are_counted_as_scan_does(session, explorer):
    assert "first 20 of 180 rows · flights at snapshot 4" in explorer.preview.text
    explorer.tab, explorer.partition = "partitions", _leaf(session, "carrier [DL, UA)")
    assert "first 20 of 60 rows" in explorer.partition_rows.text


def test_a_line_to_copy_is_reached_by_keyboard(explorer):
    assert '<code class="sleeper-line" tabindex="0"' in shown(explorer)


def test_buttons_go_through_tables_versions_and_ranges_and_stop_at_the_ends(session):
    explorer = explore(session)
    previous, following = (button for button in buttons(explorer) if "table" in button.tooltip[-5:])
    for button, table in ((previous, "airports"), (following, "flights"), (following, "flights")):
        button.click()
        assert explorer.table == table
    previous, following = (button for button in buttons(explorer) if button.tooltip.endswith(" version"))
    for button, version in ((following, 4), (previous, 3), (previous, 2), (following, 3)):
        button.click()
        assert explorer.version == version
    explorer.tab = "partitions"
    previous, following = (button for button in buttons(explorer) if button.tooltip.endswith(" range"))
    following.click()
    assert explorer.partition == _leaf(session, "carrier (-∞, DL)")
    previous.click()
    previous.click()
    assert explorer.partition == ""


def test_a_partition_is_let_go_where_a_version_or_table_has_it_not(session, explorer):
    explorer.tab, explorer.partition = "partitions", _leaf(session, "carrier [DL, UA)")
    explorer.version = 2
    assert explorer.partition_rows.line.startswith("%sleeper scan flights@2 ")
    explorer.table = "airports"
    assert (explorer.partition, explorer.partition_rows) == ("", None)


def test_an_unknown_partition_is_an_error_that_says_where_they_are(explorer):
    with pytest.raises(sl.NotFound, match="no leaf partition 'x'"):
        explorer.partition = "x"
    with pytest.raises(sl.NotFound, match="no leaf partition 'root'"):
        explorer.partition = "root"


def test_a_table_of_one_partition_is_scanned_without_a_region(session):
    explorer = explore(session, "airports")
    explorer.tab, explorer.partition = "partitions", "root"
    assert explorer.partition_rows.line == "%sleeper scan airports@1"


def test_rows_of_a_range_that_cannot_be_read_are_said_and_partitions_stay(session, explorer, tmp_path):
    for file in (tmp_path / "warehouse").rglob("data/*/*.parquet"):
        file.unlink()
    explorer.tab, explorer.partition = "partitions", _leaf(session, "carrier [DL, UA)")
    assert ".parquet" in explorer.partition_rows.text
    assert 'role="alert"' in shown(explorer._partitions)
    assert "<svg" in shown(explorer._partitions)


def test_very_many_ranges_are_listed_in_part_and_the_page_says_so(session):
    schema = sl.Schema(row_keys={"k": "int"}, values={})
    session.create_table("many", schema, split_points=list(range(1200)))
    explorer = explore(session, "many")
    explorer.tab = "partitions"
    assert len(explorer._partitions._list.options) == 1001
    assert "first 1,000 of 1,201 ranges" in shown(explorer)


def test_a_click_on_a_group_of_ranges_chooses_its_first(session):
    session.create_table("many", sl.Schema(row_keys={"k": "int"}, values={}), split_points=list(range(1200)))
    explorer = explore(session, "many")
    explorer.tab = "partitions"
    page = explorer._partitions
    assert len(page._boxes.children) == 64  # of up to 19 neighbours
    page._ranges.filter.value = "[5, 6)"
    page._boxes.children[1].click()
    assert page._list.label == "k [18, 19) · 0 rows"
    assert explorer.partition_rows.line == '%sleeper scan many@1 --region "k=[18,19)"'
    page._boxes.children[-1].click()
    assert page._list.label == "k [1196, 1197) · 0 rows"
    assert "1,001–1,201 of 1,201 ranges" in shown(explorer)


def test_a_long_list_is_narrowed_by_what_is_typed(session):
    explorer = explore(session, "flights")
    choice = explorer._choice
    assert choice.filter not in choice.children
    for number in range(12):
        session.create_table(f"more-{number}", sl.Schema(row_keys={"k": "int"}, values={}))
    explorer.refresh()
    assert choice.children[0] is choice.filter
    assert (choice.filter.description, len(explorer._picker.options)) == ("Filter", 14)
    choice.filter.value = "RE-1"
    assert [name for name, _ in explorer._picker.options] == ["more-1", "more-10", "more-11"]
    assert (explorer.table, explorer._picker.value) == ("flights", None)
    assert "3 of 14 tables" in shown(explorer)
    explorer._picker.value = "more-10"
    assert explorer.table == "more-10"
    choice.filter.value = "<b>none"
    assert "no table has &#x27;&lt;b&gt;none&#x27; in it" in shown(explorer)
    assert (explorer.table, explorer._picker.options) == ("more-10", ())
    choice.filter.value = ""
    assert (explorer._picker.value, len(explorer._picker.options)) == ("more-10", 14)


def test_a_long_list_of_ranges_is_narrowed_too_and_none_stays_to_be_chosen(session):
    session.create_table("many", sl.Schema(row_keys={"k": "int"}, values={}), split_points=list(range(1200)))
    explorer = explore(session, "many")
    explorer.tab = "partitions"
    ranges = explorer._partitions._ranges
    ranges.filter.value = "[1150"
    assert [words for words, _ in ranges.list.options][1:] == ["k [1150, 1151) · 0 rows"]
    ranges.list.index = 1
    assert explorer.partition_rows.line == '%sleeper scan many@1 --region "k=[1150,1151)"'
    ranges.list.index = 0
    assert explorer.partition == ""


def test_the_sql_tab_begins_with_the_version_that_is_shown(explorer):
    explorer.tab = "sql"
    assert explorer.statement == "SELECT * FROM flights VERSION AS OF 4 LIMIT 20"
    explorer.version = 3
    assert explorer.statement == "SELECT * FROM flights VERSION AS OF 3 LIMIT 20"
    assert explorer.preview.line == f"%%sleeper sql --engine duckdb\n{explorer.statement}"
    explorer.statement = "SELECT 1"
    explorer.version = 2
    assert explorer.statement == "SELECT 1"


def test_the_line_of_a_query_gives_its_rows(session, explorer, shell):
    explorer.statement = "SELECT max(flight)\nFROM flights@2"
    explorer.run()
    assert explorer.tab == "sql"
    shell.run_cell("%load_ext sleeper_nb").raise_error()
    shell.run_cell(f"%sleeper use {session.location.rpartition('/')[0]}").raise_error()
    answer = shell.run_cell(explorer.preview.line)
    answer.raise_error()
    assert untimed(answer.result.grid().text()) == untimed(explorer.preview.text)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("COPY (SELECT 1) TO '{}/x.csv'", "there is no COPY"),
        ("/* SELECT */ EXPORT DATABASE '{}/x'", "no query begins with 'EXPORT'"),
        ("ATTACH '{}/x.db'", "no query begins with 'ATTACH'"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}/x.csv'", "there is no COPY"),
        ("CREATE TEMP VIEW v AS SELECT * FROM flights", "changes view 'v' and reads no rows"),
        ("SELECT 1; COPY (SELECT 1) TO '{}/x.csv'", "a second statement"),
        ("", "there is no query"),
        ("SELECT * FROM flihgts", "did you mean 'flights'?"),
        ("SELECT ''", ""),
    ],
)
def test_what_is_no_query_is_refused_and_writes_nothing(explorer, tmp_path, statement, says):
    before = {path for path in tmp_path.rglob("*") if "-" not in path.suffix}
    explorer.statement = statement.format(tmp_path)
    explorer.run()
    assert says in explorer.preview.text
    assert ('role="alert"' in shown(explorer._sql)) == bool(says)
    assert {path for path in tmp_path.rglob("*") if "-" not in path.suffix} == before


def test_a_table_whose_name_is_no_plain_word_is_quoted(session):
    session.create_table("us-flights", sl.Schema(row_keys={"k": "int"}, values={}))
    explorer = explore(session, "us-flights")
    explorer.run()
    assert explorer.statement == 'SELECT * FROM "us-flights" VERSION AS OF 1 LIMIT 20'
    assert "0 rows · us-flights at snapshot 1" in explorer.preview.text


def test_markup_in_keys_and_statements_stays_text(session):
    hostile = "<script>alert(1)</script>"
    table = session.create_table("t", sl.Schema(row_keys={"k": "string"}, values={}), [f'{hostile} "quoted"'])
    table.ingest([{"k": hostile}, {"k": "z"}])
    explorer = explore(session, "t")
    explorer.tab, explorer.partition = "partitions", table.inspect.partitions()[1]["partition_id"]
    assert "<script" not in shown(explorer)
    assert "k=[" in explorer.partition_rows.line
    explorer.statement = f"SELECT '{hostile}'"
    explorer.run()
    assert "<script" not in explorer._sql._answer.value
    assert "z" in ExploreModel(session).open("t").at(2).rows_of(explorer.partition).text


@pytest.mark.parametrize(
    ("statement", "count", "of"),
    [
        ("SELECT count(*) FROM flights", 0, "flights at snapshot 1"),
        ('SELECT count(flights.carrier) FROM "FLIGHTS"', 0, "flights at snapshot 1"),
        ("SELECT count(*) FROM flights f WHERE f.carrier IS NOT NULL", 0, "flights at snapshot 1"),
        ("SELECT count(*) FROM flights$files", 0, "flights$files at snapshot 1"),
        ("SELECT count(*) = 0 FROM flights VERSION AS OF 1", "true", "flights at snapshot 1"),
    ],
)
def test_a_query_reads_the_version_that_is_shown_where_it_names_none(explorer, statement, count, of):
    explorer.version = 1
    explorer.statement = statement
    explorer.run()
    assert of in explorer.preview.text
    assert "VERSION AS OF 1" in explorer.preview.line
    assert explorer.preview.text.splitlines()[2].strip() == str(count)
