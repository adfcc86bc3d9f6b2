"""The pager without a browser: what it turns to, what it fetches for that, and what it says of how many rows."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.widgets import pages
from sleeper_nb.widgets.pager import Pager
from sleeper_nb.widgets.pager_model import PagesModel

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path / "w", clock=ManualClock()) as opened:
        table = opened.create_table("numbers", sl.Schema({"n": "int"}, values={"note": "string"}), [20])
        table.ingest([{"n": n, "note": HOSTILE} for n in range(45)])
        yield opened


def asked(session, sql="SELECT n, note FROM numbers ORDER BY n"):
    return session.sql(sql, engine="duckdb")


def shown(pager):
    return pager.page.rows["n"].to_pylist()


class Batches:
    """Stands for the result of an endless query, and counts what is fetched of it."""

    source_text = "numbers at snapshot 2 · duckdb"

    def __init__(self, failing_at: int = 0) -> None:
        self.fetched, self.closed, self.failing_at = 0, False, failing_at

    def batches(self):
        try:
            while True:
                self.fetched += 1
                if self.fetched == self.failing_at:
                    raise sl.StorageError("bad <file>")
                yield pa.table({"n": range(10 * (self.fetched - 1), 10 * self.fetched)})
        finally:
            self.closed = True


def test_pages_are_turned_to_and_say_which_rows_of_how_many(session):
    pager = pages(asked(session))
    assert (shown(pager), pager._back.disabled, pager._on.disabled) == ([*range(20)], True, False)
    pager._on.click()
    assert (shown(pager), pager._back.disabled, pager._on.disabled) == ([*range(20, 40)], False, False)
    pager._on.click()
    assert (shown(pager), pager._back.disabled, pager._on.disabled) == ([*range(40, 45)], False, True)
    assert pager.page.summary == "rows 41–45 of 45 · numbers at snapshot 2 · duckdb"
    assert pager.page.summary in pager._label.value
    pager._back.click()
    assert shown(pager) == [*range(20, 40)]


def test_no_more_is_fetched_than_somebody_turns_to():
    endless = Batches()
    model = PagesModel(endless)
    assert model.page(0, 20).summary == "rows 1–20 of at least 21 · numbers at snapshot 2 · duckdb"
    assert endless.fetched == 3
    model.page(20, 20)
    assert endless.fetched == 5
    model.page(0, 20)
    assert (endless.fetched, endless.closed) == (5, False)
    model.close()
    assert endless.closed
    assert model.page(20, 20).rows.num_rows == 20


def test_the_size_of_a_page_changes_and_the_first_row_stays(session):
    pager, seen = pages(asked(session), 10), []
    pager.observe(lambda change: seen.append(change["new"]), "first")
    pager._on.click()
    pager._size.value = 25
    assert (shown(pager), pager.rows, pager.first) == ([*range(10, 35)], 25, 10)
    pager._back.click()
    assert (shown(pager), seen) == ([*range(25)], [10, 0])


def test_behind_the_last_page_is_the_last_page(session):
    pager = pages(asked(session))
    pager.first = 1_000
    assert (pager.first, shown(pager)) == (40, [*range(40, 45)])
    for wrong in ({"first": -1}, {"rows": 0}, {"rows": 1_001}):
        with pytest.raises(Exception, match=r"should be|value of"):
            pager.set_trait(*wrong.popitem())
    with pytest.raises(sl.InvalidInput, match="a page cannot have 0 rows"):
        PagesModel(asked(session)).page(0, 0)


@pytest.mark.parametrize("size", [200, 1_000])
def test_next_begins_with_the_first_row_that_was_not_shown_and_previous_ends_before_the_first(session, size):
    wide = asked(session, "SELECT range AS n, repeat('x', 10 + 90 * (range::INT // 300 % 2)) AS note FROM range(1500)")
    pager = pages(wide, size)
    forth = []
    while True:
        first = len([n for page in forth for n in page])
        count = len(shown(pager))
        assert pager.page.summary.startswith(f"rows {first + 1:,}–{first + count:,} of ")
        assert "rows (output limit)" not in pager._label.value
        assert pager._table.value.count("<tr") == count + 1
        forth.append(shown(pager))
        if pager._on.disabled:
            break
        pager._on.click()
    assert [n for page in forth for n in page] == [*range(1_500)]
    back = [shown(pager)]
    while not pager._back.disabled:
        pager._back.click()
        back.insert(0, shown(pager))
    assert sorted({n for page in back for n in page}) == [*range(1_500)]
    assert all(page[0] <= before[-1] + 1 for before, page in pairwise(back))


def test_a_page_that_shows_fewer_rows_than_asked_for_says_why(session):
    pager = pages(asked(session, "SELECT range AS n, repeat('x', 100) AS note FROM range(1500)"), 1_000)
    count = len(shown(pager))
    assert 10 < count < 1_000
    assert f"a page of 1,000 rows is too large: it has {count:,}" in pager._label.value
    assert pager.rows == 1_000


def test_a_size_of_page_that_cannot_be_is_an_error_that_is_seen(session):
    pager = pages(asked(session))
    pager._size.value = 100_000
    assert "take 1 to 1,000 rows a page" in pager._error.value
    assert (pager._size.value, pager.rows, shown(pager)) == (20, 20, [*range(20)])


def test_an_answer_without_rows_is_a_page_too(session):
    pager = pages(asked(session, "SELECT n FROM numbers WHERE n < 0"))
    assert (shown(pager), pager._on.disabled) == ([], True)
    assert pager.page.summary == "no rows · numbers at snapshot 2 · duckdb"
    assert pager.page.rows.column_names == ["n"]


def test_batches_are_all_rows_in_their_order(session):
    batches = list(asked(session, "SELECT range AS n FROM range(5000)").batches())
    assert pa.concat_tables(batches)["n"].to_pylist() == [*range(5000)]
    assert len(batches) > 2


def test_an_error_of_a_later_page_is_seen_and_is_no_end(session):
    pager = Pager(PagesModel(Batches(failing_at=4)))
    pager._on.click()
    assert "bad &lt;file&gt;" in pager._error.value
    assert (shown(pager), pager.first) == ([*range(20)], 0)
    pager._on.click()
    assert "bad &lt;file&gt;" in pager._error.value
    assert pager.page.summary.startswith("rows 1–20 of at least 21 ")
    pager.rows = 10
    assert (shown(pager), pager._error.value) == ([*range(10)], "")


def test_it_is_the_value_of_its_command_and_its_first_page_stays(shell):
    with capture_output() as said:
        shell.run_cell("%sleeper use ./w\n%config SleeperMagics.display_rows = 2").raise_error()
        shell.run_cell("%%sleeper create t\nn INT KEY, note STRING").raise_error()
        shell.user_ns["rows"] = [{"n": n, "note": HOSTILE} for n in range(5)]
        shell.run_cell("%sleeper ingest t $rows").raise_error()
    with capture_output() as said:
        answer = shell.run_cell("%sleeper sql --interactive --engine duckdb -o kept SELECT * FROM t ORDER BY n")
        answer.raise_error()
    kept, live = said.outputs
    assert kept.data["text/plain"].endswith("rows 1–2 of at least 3 · t at snapshot 2 · duckdb")
    assert "<script" not in kept.data["text/html"] + answer.result._table.value
    assert live.data["text/plain"] == "Pager('rows 1–2 of at least 3 · t at snapshot 2 · duckdb')"
    assert shell.user_ns["kept"] is answer.result
    for more in ("--as pandas", "--plot bar", "--dry-run", "--explain"):
        with pytest.raises(sl.InvalidInput, match="pages through the rows"):
            shell.run_line_magic("sleeper", f"sql --interactive {more} --engine duckdb SELECT 1")


def test_an_error_of_the_first_page_fails_the_cell(session):
    with pytest.raises(sl.InvalidInput, match="bad row"):
        pages(asked(session, "SELECT error('bad row') AS n"))
