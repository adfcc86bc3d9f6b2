"""A statement that differs from a judged one only in literals is judged by that one, and exactly as it would be."""

import re
from dataclasses import replace

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries, judged
from sleeper_nb.sql.statement import Statement


@pytest.fixture(scope="module")
def database():
    database = Database()
    yield database
    database.close()


class Judge:
    """Judges statements one after the other, and counts those that DuckDB parses."""

    def __init__(self, database):
        self.database, self.queries, self.parsed = database, JudgedQueries(), 0

    def connect(self):
        self.parsed += 1
        return self.database.connect_planning()

    def __call__(self, text):
        """Return the statement as it is judged here, and as it is judged alone, with the parts that ``==`` ignores."""
        statement = Statement.of(text, dialect="duckdb")
        here = self.queries.of(self.connect, statement)
        alone = judged(self.database.connect_planning(), statement)
        return (here, here.selection), (alone, alone.selection)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT * FROM t WHERE k = 500007", "SELECT * FROM t WHERE k = 123456"),
        ("SELECT * FROM t WHERE k = 0", "SELECT * FROM t WHERE k = 9"),
        ("SELECT a, 'xy' AS c FROM t WHERE k = 'user-01'", "SELECT a, '%\"' AS c FROM t WHERE k = '\\u0000x'"),
        ("SELECT * FROM t WHERE k IN (1, 22) LIMIT 10", "SELECT * FROM t WHERE k IN (7, 43) LIMIT 99"),
        ("FROM t WHERE d < INTERVAL '5' DAY ORDER BY 1", "FROM t WHERE d < INTERVAL '7' DAY ORDER BY 2"),
        ("FROM t WHERE k BETWEEN 10 AND 20 AND c LIKE 'a%'", "FROM t WHERE k BETWEEN 30 AND 40 AND c LIKE '_b'"),
        ("FROM t /* 5 */ WHERE k = 5 -- 5", "FROM t /* 5 */ WHERE k = 6 -- 5"),
        ("SELECT \"5\", 'I' FROM t WHERE k = 5", "SELECT \"5\", 'S' FROM t WHERE k = 6"),
        ("FROM t WHERE k = 999999999999999999", "FROM t WHERE k = 100000000000000000"),
    ],
)
def test_other_literals_are_not_parsed_again(database, first, second):
    judge = Judge(database)
    for text in (first, second, first, second):
        here, alone = judge(text)
        assert here == alone
    assert judge.parsed == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("FROM t WHERE k = 5", "FROM t WHERE k = 55"),  # of another length
        ("FROM t WHERE k = 5", "FROM t WHERE k = '5'[1]"),
        ("FROM t WHERE k = -5", "FROM t WHERE k = -6"),
        ("FROM t WHERE k = 1.5", "FROM t WHERE k = 2.5"),
        ("FROM t WHERE k = 1e5", "FROM t WHERE k = 1e6"),
        ("FROM t WHERE k = 05", "FROM t WHERE k = 06"),
        ("FROM t WHERE d = DATE '2020-01-01'", "FROM t WHERE d = DATE '2021-12-31'"),
        ("FROM t WHERE k = 'a'\n'b'", "FROM t WHERE k = 'a'\n'c'"),
        ("FROM t WHERE k = 'a''b'", "FROM t WHERE k = 'a''c'"),
        ("FROM t WHERE k = E'a'", "FROM t WHERE k = E'b'"),
        ("FROM t WHERE k = x'AB'", "FROM t WHERE k = x'CD'"),
        ("FROM t WHERE k = 'ä'", "FROM t WHERE k = 'ö'"),
        ('FROM t WHERE "ä" = 5', 'FROM t WHERE "ä" = 6'),
        ('FROM t WHERE "\\u0000" = 5', 'FROM t WHERE "\\u0000" = 6'),
        ("EXPLAIN FROM t WHERE k = 5", "EXPLAIN FROM t WHERE k = 6"),
        ("FROM t JOIN u USING (k) WHERE k = 5", "FROM t JOIN u USING (k) WHERE k = 6"),
        ("FROM read_csv('a.csv') WHERE k = 5", "FROM read_csv('b.csv') WHERE k = 5"),
        ("FROM t WHERE k = 12345678901234567890", "FROM t WHERE k = 92345678901234567890"),
    ],
)  # fmt: skip
def test_what_is_not_a_plain_literal_is_parsed(database, first, second):
    judge = Judge(database)
    for text in (first, second):
        try:
            here, alone = judge(text)
        except sl.SleeperError:
            continue
        assert here == alone
    assert judge.parsed == 2


def test_a_value_decides_nothing_of_what_is_refused(database):
    judge = Judge(database)
    judge("SELECT sqrt(4) FROM t WHERE k = 'a'")
    with pytest.raises(sl.InvalidInput, match="getenv"):
        judge("SELECT getenv('a') FROM t WHERE k = 'a'")
    with pytest.raises(sl.InvalidInput, match="getenv"):
        judge("SELECT getenv('b') FROM t WHERE k = 'a'")


INTEGERS = st.integers(0, 10**18 - 1).map(str)
STRINGS = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'"), max_size=6).map(
    lambda text: f"'{text}'"
)
CONDITIONS = st.sampled_from([
    "k = {}", "{} < k", "k IN ({}, {})", "k BETWEEN {} AND {}", "c LIKE {}", "NOT (k = {})", "k + {} > {}",
    "k = -{}", "k::VARCHAR = {}", "CAST({} AS INT) = k", "lower({}) = c", "k = {} OR c = {}", "(k, c) = ({}, {})",
    "k IS NOT DISTINCT FROM {}", "CASE WHEN k = {} THEN {} ELSE {} END = k", "c = {} COLLATE NOCASE", "[{}][{}] = k",
    "k = ANY([{}, {}])", "c SIMILAR TO {}", "d > TIMESTAMP {}", "c[{}:{}] = 'x'", "k = :p AND k > {}",
])  # fmt: skip
TEMPLATES = st.tuples(
    st.sampled_from(["SELECT *", "SELECT k, {} AS one", "SELECT count(*)", "SELECT DISTINCT c"]),
    st.lists(CONDITIONS, min_size=1, max_size=3).map(" AND ".join),
    st.sampled_from(["", " ORDER BY 1", " LIMIT {}", " ORDER BY k LIMIT {} OFFSET {}", " GROUP BY ALL"]),
).map(lambda parts: f"{parts[0]} FROM t WHERE {parts[1]}{parts[2]}")


@given(template=TEMPLATES, data=st.data())
def test_it_is_judged_as_duckdb_would(database, template, data):
    judge = Judge(database)
    literals = [data.draw(st.one_of(INTEGERS, STRINGS)) for _ in range(template.count("{}"))]
    for _ in range(3):
        text = template.format(*literals)
        try:
            here, alone = judge(text)
        except (sl.SleeperError, duckdb.Error) as error:  # DuckDB cannot read it
            with pytest.raises(type(error), match=re.escape(str(error))):
                judged(database.connect_planning(), Statement.of(text, dialect="duckdb"))
        else:
            assert here == alone
            assert here[0] == replace(here[0], text=text, asked=text)
        literals = [data.draw(same_length(each)) for each in literals]


def same_length(literal):
    if literal.startswith("'"):
        return st.text('ab%_\\"{} 05', min_size=len(literal) - 2, max_size=len(literal) - 2).map("'{}'".format)
    return st.integers(10 ** (len(literal) - 1) if len(literal) > 1 else 0, 10 ** len(literal) - 1).map(str)


def test_each_key_is_found_in_its_own_file(tmp_path):
    schema = sl.Schema({"k": "string"}, {}, {"n": "long"})
    keys = [f"key {number:03}" for number in range(100)]
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema, split_points=keys[10::10])
        table.ingest([{"k": key, "n": number} for number, key in enumerate(keys)])
        for number, key in enumerate(keys):
            found = session.sql(f"SELECT n FROM t WHERE k = '{key}' OR n = {number // 10 + 990}", engine="duckdb")
            assert found.to_dict() == {"n": [number]}
            found = session.sql(f"SELECT n, {number % 7} AS one FROM t WHERE k = '{key}'", engine="duckdb")
            assert found.to_dict() == {"n": [number], "one": [number % 7]}
            assert found.cost().to_dict()["reads"][0]["partitions"] == 1
