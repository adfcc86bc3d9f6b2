"""A condition of a scan means what it means after WHERE in plain DuckDB, over the same rows in a table of its own.

All pairs of types × operators, all types × literals, and every class of functions. Many comparisons share one scan:
each row is there once for each of them, and a CASE by the number of the comparison chooses which one counts. It takes
ten seconds all the same, so the default run begins with every fourth type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.model.schema import SIMPLE_TYPES, parse_type
from tests.support.combinations import some

NAN, INF = float("nan"), float("inf")
DOUBLES = [NAN, INF, -INF, 0.0, -0.0, 1.5, 1.239, 5e-324, 1.7976931348623157e308, 9007199254740993.0]
VALUES: dict[str, list[Any]] = {
    "int": [-(2**31), -1, 0, 1, 2, 60, 2**31 - 1],
    "long": [-(2**63), -(2**53) - 1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1],
    "string": ["", "a", "A_b", "AxB", "A\\_b", "é", "\U0001f600", "10", "nan", "2026-01-31", "%"],
    "bytearray": [b"", b"\0", b"a", b"\x7f", b"\x80", b"\xff"],
    "double": DOUBLES,
    "float": [NAN, INF, -INF, 0.0, -0.0, 1.5, 16777216.0, 3.4028234663852886e38],
    "boolean": [True, False],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 31), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
                  datetime(2026, 1, 31, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)],
    "tinyint": [-128, 0, 1, 127],
    "smallint": [-(2**15), 0, 1, 2**15 - 1],
    "time": [time(0), time(10, 30), time(23, 59, 59, 999_999)],
    "uuid": ["00000000-0000-0000-0000-000000000000", "0b14d501-a594-442a-a1b4-1d4d9ff9d2a1",
             "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "list<int>": [[], [1], [1, None], [None], [2, 1]],
    "list<string>": [[], ["a"], ["a", "b"], [None]],
    "list<double>": [[], [NAN], [-0.0], [0.0, 1.5]],
    "list<decimal(18,2)>": [[], [Decimal("8270.36")], [Decimal("-0.01"), None]],
    "list<timestamp>": [[], [datetime(2026, 1, 31, tzinfo=UTC)]],
    "list<list<int>>": [[], [[]], [[1], None], [[1, 2], [3]]],
    "map<string,int>": [[], [("a", 1)], [("a", None), ("b", 2)]],
    "map<int,list<string>>": [[], [(1, ["a"])], [(1, None)]],
    "list<map<string,decimal(5,2)>>": [[], [[("a", Decimal("1.50"))]]],
}  # fmt: skip
PRECISIONS = [(1, 0), (4, 2), (9, 3), (10, 2), (18, 2), (19, 4), (18, 18), (38, 0), (38, 10), (38, 38)]


def of_decimals(precision: int, scale: int) -> list[Decimal]:
    most, least = Decimal((0, (9,) * precision, -scale)), Decimal((0, (1,), -scale))
    return [
        most,
        most.copy_negate(),
        least,
        least.copy_negate(),
        *([Decimal(0)] if scale < precision else []),
    ]  # Arrow has no 0 of such a type


VALUES |= {f"decimal({p},{s})": of_decimals(p, s) for p, s in PRECISIONS}
VALUES["decimal(18,2)"] += [Decimal("8270.36"), Decimal("8270.35"), Decimal("90071992547409.93")]
TYPES = list(VALUES)
COLUMNS = {f"c{i}": kind for i, kind in enumerate(TYPES)}
NAMED = {kind: name for name, kind in COLUMNS.items()}
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
NUMBERS = ["8270.36", "1.5", "-1", "0", "1e0", "0.1", "9007199254740992.5", "9007199254740993", "9223372036854775808",
           "16777217", "1.239", "'nan'", "'inf'", "2147483648", "99999999999999999999999999999999999999",
           "NULL"]  # fmt: skip
IS_NUMBER = [kind for kind in TYPES if kind in {"int", "long", "double", "float"} or kind.startswith("decimal")]

FUNCTIONS = {
    "string": [
        r"{} LIKE 'A\_b'", r"{} LIKE 'A!_b' ESCAPE '!'", "{} LIKE 'A_b'", "{} ILIKE 'a%'", "{} NOT LIKE '%'",
        "{} GLOB 'A*'", "{} SIMILAR TO 'A.*'", "{} ~ '^A'", "regexp_matches({}, '[a-z]')",
        "regexp_extract({}, '.') = 'a'",
        "len({}) = 1", "length({}) > 2", "strlen({}) = 2", "upper({}) = 'AXB'", "{} || 'x' = 'ax'", "{}[1] = 'a'",
        "substring({}, 1, 2) = 'A_'", "{} IN ('a', 'é')", "{} NOT IN ('a', NULL)", "{} BETWEEN 'A' AND 'b'",
        "{} COLLATE NOCASE = 'axb'", "try_cast({} AS INTEGER) = 10", "try_cast({} AS DOUBLE) > 1e300",
        "try_cast({} AS DATE) = DATE '2026-01-31'", "coalesce({}, 'none') = 'none'", "nullif({}, 'a') IS NULL",
        "contains({}, 'b')", "starts_with({}, 'A')", "{} ^@ 'A'", "ascii({}) = 97", "md5({}) < '8'",
        "reverse({}) = 'B'",
        "CASE {} WHEN 'a' THEN true END", "hash({}) IS NOT NULL", "{} = E'A\\\\_b'", "{} < chr(128)", "trim({}) = ''",
        "replace({}, '_', '') = 'Ab'", "split_part({}, '_', 2) = 'b'", "position('b' IN {}) = 3", "{} = $$a$$",
    ],
    "int": [
        "{} / 2 = 0.5", "{} // 2 = 30", "{} % 2 = 1", "-{} > 0", "abs({}::BIGINT) = 1", "{} + 1 > 0", "{} * 1.5 = 1.5",
        "{} IN (1, 60, NULL)", "{} IN (1.0, 2.5)", "{} BETWEEN 0.5 AND 60", "NOT {}", "{} & 1 = 1", "TRY({} << 1) = 4",
        "{} ** 2 = 4", "sqrt(greatest({}, 0)) = 1", "greatest({}, 5) = 5", "{}::VARCHAR = '60'", "{}::BOOLEAN",
        "{} / 0 IS NULL", "{} = true", "pow({}, 2) > 3", "sign({}) = -1", "{} IS NULL", "bit_count({}) = 1",
        "[{}, 1] = [1, 1]", "{{'a': {}}} = {{'a': 1}}", "TRY(round({}, -1)) = 60", "nullif({}, 0) IS NULL",
        "({}, 1) < (1, 2)", "list_contains([1, 2], {})", "{}::DECIMAL(20,5) = 1.00000", "ceil({} / 7) = 9",
    ],
    "long": [
        "{} > 9007199254740992.5", "{} = 9007199254740992.0", "{}::DOUBLE = 9007199254740992",
        "{} - 1 = 9007199254740992",
        "{} IN (9007199254740993.0)", "{} BETWEEN 9007199254740992.5 AND 1e30", "{} > 1e15", "{}::HUGEINT + 1 > 0",
    ],
    "double": [
        "isnan({})", "isinf({})", "isfinite({})", "{} = 'nan'", "{} > 'inf'", "{} = -0.0", "1 / {} > 0", "{} / {} = 1",
        "{} IN (0, 'nan')", "{} BETWEEN 1.5 AND 'nan'", "{} = 1.239", "{} * 0 = 0", "round({}, 2) = 1.24",
        "TRY({}::FLOAT) > 1",
        "try_cast({} AS BIGINT) = 9007199254740992", "floor({}) = 1", "{}::VARCHAR = 'nan'", "greatest({}, 1) = 1",
        "least({}, 'nan') = 'nan'", "{} % 1 = 0.5", "sqrt(abs({})) > 1", "{} IS NOT DISTINCT FROM 'nan'", "signbit({})",
    ],
    "float": ["{} = 1.5", "{} = 16777217", "{} > 1e38", "{} = 'nan'", "{}::DOUBLE = 1.5", "{} / 3 = 0.5", "isnan({})"],
    "boolean": ["{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE", "{} = 1", "{} AND NULL", "{} OR NULL", "{}::INT = 1"],
    "decimal(18,2)": [
        "{} = 8270.36", "{} < 8270.36", "{} > 8270.355", "{} IN (8270.36, 1)", "{} BETWEEN 8270.355 AND 8270.36",
        "{} = 8270.36::DOUBLE", "{} = '8270.36'", "{} / 2 = 4135.18", "TRY({} * 2) = 16540.72", "{} + 0.01 = 8270.37",
        "round({}, 1) = 8270.4", "floor({}) = 8270", "TRY({}::INT) = 8270", "{}::DOUBLE = 8270.36", "abs({}) = 0.01",
        "{} = 90071992547409.93", "{} % 1 = 0.36", "{}::VARCHAR = '0.00'", "{} = 827036e-2", "-{} = 0.01",
    ],
    "date": [
        "{} = '2026-01-31'", "{} = DATE '2026-01-31'", "{} < TIMESTAMP '2026-01-31 00:00:01'", "year({}) = 2026",
        "{} + 1 = DATE '2026-02-01'", "{} - INTERVAL 1 DAY < DATE '2026-01-31'", "date_part('week', {}) = 5",
        "month({}) = 12", "dayname({}) = 'Saturday'", "date_trunc('year', {}) = DATE '2026-01-01'", "last_day({}) = {}",
        "{} BETWEEN '1969-01-01' AND '2026-01-31'", "extract(dow FROM {}) = 6", "{} < current_date",
        "age({}) IS NOT NULL",
        "strftime({}, '%Y') = '1969'", "{} = TIMESTAMPTZ '2026-01-31 00:00:00Z'", "epoch({}) < 0", "{} IS NULL",
    ],
    "timestamp": [
        "{} = '2026-01-31'", "{} = TIMESTAMP '2026-01-31 00:00:00'", "{} = TIMESTAMPTZ '2026-01-31 01:00:00+01'",
        "{} < DATE '2026-01-31'", "year({}) = 1969", "hour({}) = 23", "date_trunc('day', {}) = {}", "{} < now()",
        "{} + INTERVAL '1 microsecond' = '1970-01-01'", "epoch_us({}) = -1", "{}::DATE = DATE '2026-01-31'",
        "{} AT TIME ZONE 'America/New_York' = TIMESTAMP '2026-01-30 19:00:00'", "{}::VARCHAR LIKE '%+00'",
        "date_diff('day', {}, TIMESTAMPTZ '2026-02-01 00:00:00Z') = 1", "extract(year FROM {}) IN (1, 9999)",
        "{} BETWEEN '1969-01-01' AND now()", "strftime({}, '%H') = '23'", "{}::TIMESTAMP = '2026-01-31 00:00:00'",
    ],
    "bytearray": ["{} = 'a'", "{} = '\\x80'::BLOB", "{} > '\\x7F'::BLOB", "octet_length({}) = 0", "hex({}) = 'FF'",
                  "{} || 'a'::BLOB = 'a'::BLOB", "{} IN ('a'::BLOB)", "md5({}) IS NULL"],
    "list<int>": [
        "len({}) = 2", "{}[1] = 1", "{}[-1] = 1", "{} = [1]", "{} < [1, 2]", "list_contains({}, 1)", "1 IN {}",
        "list_sum({}) = 1", "{} IS NULL", "{}[1:1] = [1]", "list_transform({}, lambda x: x + 1) = [2]",
        "cardinality({}) = 0",
        "list_filter({}, lambda x: x > 1) = [2]", "list_sort({}) = [1, 2]", "{}::VARCHAR = '[1]'",
        "array_length({}) = 1",
        "list_has_any({}, [1])", "[x * 2 FOR x IN {}] = [2]", "list_max({}) = 2", "{} IN ([1], [2, 1])",
    ],
    "list<double>": ["{} = ['nan'::DOUBLE]", "{}[1] = 'nan'", "{} = [0.0]", "list_contains({}, 'nan')",
    "list_max({}) = 1.5"],
    "list<decimal(18,2)>": ["{}[1] = 8270.36", "{} = [8270.36]", "list_contains({}, 8270.36)", "list_min({}) = -0.01"],
    "list<timestamp>": ["{}[1] = '2026-01-31'", "year({}[1]) = 2026", "{} = [TIMESTAMPTZ '2026-01-31 00:00:00Z']"],
    "list<list<int>>": ["{}[1][1] = 1", "flatten({}) = [1, 2, 3]", "len({}) = 2", "{} = [[]]", "{}[2] IS NULL"],
    "map<string,int>": ["{}['a'] = 1", "{}['b'] IS NULL", "map_keys({}) = ['a']", "cardinality({}) = 2",
    "{} = MAP {{'a': 1}}",
                        "map_contains({}, 'b')", "element_at({}, 'a') = [1]", "map_values({})[1] IS NULL"],
    "map<int,list<string>>": ["{}[1] = ['a']", "{}[1][1] = 'a'", "cardinality({}) = 0"],
    "list<map<string,decimal(5,2)>>": ["{}[1]['a'] = 1.5", "len({}) = 1"],
}  # fmt: skip


def pairs_of(kind: str) -> list[str]:
    """All comparisons of one type with all types."""
    return [f"{NAMED[kind]} {sign} {other}" for other in COLUMNS for sign in OPERATORS]


def literals_of(kind: str) -> list[str]:
    name, signs = NAMED[kind], OPERATORS
    numbers = NUMBERS if kind in {"double", "float"} else [each for each in NUMBERS if "'" not in each]
    found = [f"{name} {sign} {number}" for number in numbers for sign in signs]
    found += [f"{number} {sign} {name}" for number in numbers[:4] for sign in signs]
    found += [f"{name} IN (1, {number})" for number in numbers]
    return found + [f"{name} BETWEEN {low} AND {high}" for low in numbers[:6] for high in numbers]


MOST = max(len(COLUMNS) * len(OPERATORS), *(len(literals_of(kind)) for kind in IS_NUMBER))


class Both:
    """The same rows in a table of ours, and in one of plain DuckDB."""

    def __init__(self, session: sl.Session) -> None:
        fields = {"c": "int", **{name: f"{kind}?" for name, kind in COLUMNS.items()}}
        schema = sl.Schema({"k": "int"}, {}, fields)
        length = max(map(len, VALUES.values())) + 1
        columns = [
            pa.array(
                [(VALUES[kind][i % len(VALUES[kind])] if i else None) for i in range(length)], parse_type(kind).arrow
            )
            for kind in TYPES
        ]
        rows = pa.table(
            [pa.array(range(length), pa.int32()), pa.array([0] * length, pa.int32()), *columns], schema.arrow
        )
        self.table = session.create_table("t", schema, split_points=[4, 8])
        self.table.ingest(rows.slice(0, 6))
        self.table.ingest(rows.slice(6))
        many = pa.concat_tables([rows.set_column(1, "c", pa.array([c] * length, pa.int32())) for c in range(MOST)])
        self.cases = session.create_table("cases", schema)
        self.cases.ingest(many)
        self.duckdb = duckdb.connect()
        self.duckdb.sql("SET TimeZone = 'UTC'")
        self.duckdb.register("given", rows.cast(schema.arrow))
        self.duckdb.sql("CREATE TABLE t AS FROM given")
        self.duckdb.sql(f"CREATE TABLE cases AS SELECT * REPLACE (i::INT AS c) FROM t, range({MOST}) r(i)")

    def bind(self, expressions: Sequence[str]) -> Iterator[str]:
        """Yield those that plain DuckDB reads and computes."""
        for each in expressions:
            try:
                self.duckdb.sql(f"SELECT k FROM t WHERE CASE c WHEN 0 THEN ({each}) END").fetchall()
            except duckdb.Error:
                continue
            yield each

    def check(self, expressions: Sequence[str], read: Callable[[Any], pa.Table] = lambda scan: scan.to_arrow()) -> None:
        """Compare what each expression gives for each row."""
        text = "CASE c " + " ".join(f"WHEN {i} THEN ({each})" for i, each in enumerate(expressions)) + " END"
        expected = sorted(self.duckdb.sql(f"SELECT c, k FROM cases WHERE {text}").fetchall())
        rows = read(self.cases.scan(["c", "k"], text))
        found = sorted(zip(rows["c"].to_pylist(), rows["k"].to_pylist(), strict=True))
        wrong = {c for c, _ in set(found) ^ set(expected)}
        assert not wrong, [expressions[c] for c in sorted(wrong)]
        assert found == expected


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("both")) as session:
        yield Both(session)


def test_every_type_is_there():
    assert {*SIMPLE_TYPES, "decimal", "list", "map"} == {parse_type(kind).name for kind in TYPES}


@pytest.mark.parametrize("kind", some(TYPES, every=4))  # with all others, so each type is there
def test_every_operator_means_the_same_between_columns_of_all_types(both: Both, kind: str):
    good = list(both.bind(pairs_of(kind)))
    assert len(good) >= len(OPERATORS)
    both.check(good)


@pytest.mark.parametrize("kind", some(IS_NUMBER))
def test_every_operator_means_the_same_of_numbers_as_one_writes_them(both: Both, kind: str):
    good = list(both.bind(literals_of(kind)))
    assert len(good) > len(NUMBERS) * len(OPERATORS) / 2
    both.check(good)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_mean_the_same(both: Both, kind: str):
    conditions = [each.format(*[NAMED[kind]] * each.count("{}")) for each in FUNCTIONS[kind]]
    assert list(both.bind(conditions)) == conditions
    both.check(conditions)


@pytest.mark.parametrize("kind", some(TYPES, every=4))
def test_a_scan_its_count_and_its_relation_agree_where_the_reader_may_leave_rows_out(both: Both, kind: str):
    name = NAMED[kind]
    for condition in (f"{name} IS NULL", f"NOT ({name} IS NOT NULL)"):
        agree(both, condition)
    for condition in FUNCTIONS.get(kind, [])[:4] + [f"{{}} >= {number}" for number in NUMBERS[:2] if kind in IS_NUMBER]:
        agree(both, condition.format(*[name] * condition.count("{}")))


def agree(both: Both, condition: str) -> None:
    try:
        expected = [k for (k,) in both.duckdb.sql(f"SELECT k FROM t WHERE ({condition}) ORDER BY k").fetchall()]
    except duckdb.Error:
        with pytest.raises(sl.InvalidInput):
            both.table.scan(["k"], condition).to_arrow()
        return
    scan = both.table.scan(["k"], condition)
    assert scan.to_arrow()["k"].to_pylist() == expected, condition
    assert scan.count() == len(expected)
    assert sorted(scan.to_duckdb().fetchall()) == [(k,) for k in expected], condition
    assert both.table.scan(["k"], condition, limit=2).to_arrow()["k"].to_pylist() == expected[:2]


@pytest.mark.spark
def test_on_spark_every_condition_means_what_it_means_in_duckdb(tmp_path, spark_engine: Any):
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        both = Both(session)
        kinds = ("string", "double", "decimal(18,2)", "timestamp", "list<int>", "map<string,int>")
        conditions = [e.format(*[NAMED[kind]] * e.count("{}")) for kind in kinds for e in FUNCTIONS[kind]]
        numbers = list(both.bind(literals_of("decimal(18,2)")))[: MOST - len(conditions)]
        both.check([*conditions, *numbers], lambda scan: scan.to_spark().toArrow())
        price = f"{NAMED['decimal(18,2)']} = 8270.36"
        frame = both.table.scan(["k"], price, limit=5).to_spark()
        assert frame.columns == ["k"]
        assert frame.count() == both.table.scan(where=price).count() == 1


def test_a_decimal_and_a_long_are_not_compared_as_floats(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"l": "long"}, {}, {"price": "decimal(18,2)"}))
        table.ingest([{"l": 2**53 + 1, "price": Decimal("8270.36")}])
        conditions = ["price = 8270.36", "price < 8270.36", "l > 9007199254740992.5", "l = 9007199254740992.0"]
        found = [table.scan(where=each).count() for each in conditions]
        assert found == [len(table.scan(where=each).to_duckdb()) for each in conditions] == [1, 0, 1, 0]


KEYS = {
    "i": [str(value) for value in (-(2**31), -1, 0, 5, 2**31 - 1, 2**31, -(2**63), 2**64)],
    "l": [str(value) for value in (-(2**63), 0, 2**53 + 1, 2**63 - 1, 2**63)],
    "s": ["''", "'a'", "'a\0'", "'é'", "'\U0001f600'", "'zz'"],
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("keyed")) as session:
        table = session.create_table("t", sl.Schema({"i": "int", "l": "long", "s": "string"}), split_points=[-1, 5])
        numbers, longs = [-(2**31), -1, 0, 5, 2**31 - 1], [-(2**63), 0, 2**53 + 1, 2**63 - 1]
        rows = [{"i": i, "l": n, "s": s} for i in numbers for n in longs for s in ("", "a", "a\0", "é", "\U0001f600")]
        table.ingest(rows[::2])
        table.ingest(rows[1::2])
        peer = duckdb.connect()
        peer.register("given", pa.Table.from_pylist(rows, table.schema.arrow))
        peer.sql("CREATE TABLE t AS FROM given")
        yield table, peer


@pytest.mark.parametrize("key", KEYS)
def test_comparisons_of_keys_leave_out_no_row_that_meets_the_condition(keyed, key: str):
    table, peer = keyed
    one = [f"{key} {sign} {value}" for sign in OPERATORS[:6] for value in KEYS[key]]
    one += [f"{value} {sign} {key.upper()}" for sign in OPERATORS[:6] for value in KEYS[key][:3]]
    both = [f"{one[n]} AND ({one[-n - 1]} AND i < 5)" for n in range(0, len(one), 3)]
    for condition in [*one, *both, f"NOT {one[0]}", f"{one[0]} OR i = 0", f"{key} = {KEYS[key][1]} AND random() >= 0"]:
        expected = peer.sql(f"SELECT * FROM t WHERE {condition} ORDER BY ALL").fetchall()
        rows = table.scan(where=condition).to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == expected, condition


def test_comparisons_of_row_keys_leave_files_unread(keyed):
    table, _ = keyed
    assert table.scan().plan().leaves_of == len(table.scan().plan().leaves) == 3
    found = {"i = 5": 1, "i < 0 AND l = 0": 2, "3 < i": 2, "i > 7 AND i < 6": 0, "i = 0 OR l = 0": 3}
    for condition, leaves in found.items():
        assert len(table.scan(where=condition).plan().leaves) == leaves, condition
    assert len(table.scan(where="i = 5", region={"i": (None, 0)}).plan().leaves) == 0


def test_what_plain_duckdb_cannot_compare_is_refused(both: Both):
    equal = [f"{NAMED['date']} = {other}" for other in COLUMNS] + [
        f"{NAMED['list<int>']} < {other}" for other in COLUMNS
    ]
    refused = set(equal) - set(both.bind(equal))
    assert len(refused) > len(TYPES)
    for condition in refused:
        with pytest.raises(sl.InvalidInput):
            both.table.scan(where=condition).to_arrow()
