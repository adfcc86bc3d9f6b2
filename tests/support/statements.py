"""Generated statements over two tables, as Hypothesis strategies: conditions, joins, subqueries and versions.

``{t}`` and ``{u}`` stand for tables with the columns ``k`` (int), ``s`` (string), ``d`` (date), ``v`` (int or null) and
``w`` (long); ``{old}`` is an earlier version of ``{t}``.
"""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = st.integers(-3, 33)
_DAYS = st.integers(1, 28)
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "b'c", "é", "\U0010ffff", "z"])


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _number_tests(column: str) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
    return st.one_of(
        st.builds(lambda sign, n: f"{column} {sign} {n}", signs, NUMBERS),
        st.builds(lambda sign, n: f"{n} {sign} {column}", signs, NUMBERS),
        st.builds(lambda low, high: f"{column} BETWEEN {low} AND {high}", NUMBERS, NUMBERS),
        st.builds(lambda n: f"{column} + 1 = {n}", NUMBERS),
        st.builds(lambda n: f"abs({column}) = {n}", NUMBERS),
        st.builds(lambda n: f"CAST({column} AS STRING) = '{n}'", NUMBERS),
        st.builds(
            lambda many, negated: f"{column} {'NOT ' * negated}IN ({', '.join(map(str, many))})",
            st.lists(NUMBERS, min_size=1, max_size=14),
            st.booleans(),
        ),
        st.just(f"{column} IS NULL"),
        st.just(f"{column} IS NOT NULL"),
    )


def _text_tests(column: str) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda sign, t: f"{column} {sign} {quoted(t)}", st.sampled_from(["=", "<", ">=", "<>"]), TEXTS),
        st.builds(lambda t: f"{column} LIKE {quoted(t + '%')}", TEXTS),
        st.builds(lambda t: f"{column} LIKE {quoted('%' + t)}", TEXTS),
        st.builds(lambda t: f"lower({column}) = {quoted(t)}", TEXTS),
        st.builds(
            lambda many: f"{column} IN ({', '.join(map(quoted, many))})", st.lists(TEXTS, min_size=1, max_size=4)
        ),
    )


def _row_tests(at: str) -> st.SearchStrategy[str]:
    """Return conditions on two columns at once; only numbers that Spark takes for those of the column's type."""
    row = st.builds(
        lambda n, text: f"({n}, {quoted(text)})", NUMBERS, st.one_of(TEXTS, st.sampled_from(["a,b", "null"]))
    )
    rows = st.lists(row, min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.builds(lambda one: f"({at}k, {at}s) = {one}", row),
        st.builds(lambda many: f"({at}k, {at}s) IN ({many})", rows),
        st.builds(lambda one: f"({at}k, {at}s) <> {one}", row),
    )


def tests_on(alias: str) -> st.SearchStrategy[str]:
    """Return conditions on the columns of a table, joined by AND, OR and NOT."""
    at = f"{alias}." if alias else ""
    single = st.one_of(
        _number_tests(f"{at}k"), _number_tests(f"{at}k"), _number_tests(f"{at}v"), _text_tests(f"{at}s"),
        st.builds(lambda sign, n: f"{at}d {sign} DATE '2026-01-{n:02}'", st.sampled_from(["=", "<", ">="]), _DAYS),
        st.builds(lambda n: f"{at}w > {n}", st.integers(0, 320)), st.just(f"{at}v IS NULL"),
        st.just(f"{at}k = {at}v"), st.just(f"coalesce({at}v, {at}k) = 3"), _row_tests(at),
    )  # fmt: skip
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
            st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
            st.builds(lambda a: f"NOT ({a})", inner),
        ),
        max_leaves=5,
    )


TABLES = st.sampled_from(["{t}", "{u}", "{old}"])
_JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
_JOINED = "SELECT a.k, a.s, a.w, b.v, b.w"


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Draw a statement whose rows have no order."""
    first, second, on_a, on_b = (
        draw(TABLES), draw(TABLES), draw(tests_on("a")), draw(tests_on("b"))
    )  # fmt: skip
    plain = draw(tests_on(""))
    form = draw(st.integers(0, 12))
    if form == 0:
        return f"SELECT * FROM {first} WHERE {plain}"
    if form == 1:
        return f"SELECT count(*), sum(w), min(s) FROM {first} WHERE {plain}"
    if form == 2:
        return f"{_JOINED} FROM {first} a {draw(_JOINS)} {second} b ON a.k = b.k AND {on_a} WHERE {on_b}"
    if form == 3:
        return f"{_JOINED} FROM {first} a {draw(_JOINS)} {second} b ON a.k = b.k AND a.s = b.s WHERE {on_a}"
    if form == 4:
        both = f"SELECT k, s FROM x WHERE {plain} UNION ALL SELECT v, s FROM x a WHERE {on_a}"
        return f"WITH x AS (SELECT * FROM {first}) {both}"
    if form == 5:
        return f"SELECT k, v FROM (SELECT v AS k, k AS v, s, d, w FROM {first}) WHERE {plain}"
    if form == 6:
        return f"SELECT a.k, a.w FROM {first} a WHERE a.k IN (SELECT b.k FROM {second} b WHERE {on_b})"
    if form == 7:
        absent = f"NOT EXISTS (SELECT 1 FROM {second} b WHERE b.k = a.k AND {on_b})"
        return f"SELECT a.k FROM {first} a WHERE {absent} AND {on_a}"
    if form == 8:
        return f"SELECT k, count(*) AS n FROM {first} GROUP BY k HAVING k > {draw(NUMBERS)} OR k = {draw(NUMBERS)}"
    if form == 9:
        return (
            f"SELECT * FROM (SELECT k, w, sum(w) OVER (PARTITION BY k) AS total FROM {first}) WHERE k = {draw(NUMBERS)}"
        )
    if form == 10:
        share = f"w / (SELECT sum(w) + 1 FROM x WHERE {draw(tests_on(''))})"
        return f"WITH x AS (SELECT * FROM {first}) SELECT k, {share} AS share FROM x WHERE {plain}"
    if form == 11:
        some = f"EXISTS (SELECT 1 FROM x b WHERE {on_b})"
        return f"WITH x AS (SELECT * FROM {first}) SELECT a.k, {some} AS some FROM x a WHERE {on_a} OR NOT {some}"
    return f"SELECT * FROM {first} WHERE {plain} AND k >= (SELECT min(b.k) FROM {second} b WHERE {on_b})"
