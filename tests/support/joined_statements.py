"""Generated statements of DuckDB that join a large table with small ones, as Hypothesis strategies.

``{big}`` stands for a table of many files, ``{few}``, ``{none}`` and ``{df}`` for small inputs: one has nulls and equal
rows, one is empty, one is a variable. All have the columns ``k`` and ``v`` (whole numbers), ``s`` (text) and ``w``
(long). ``{big}`` has the row keys ``k`` and ``s``, which are never null.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.statements import NUMBERS, TEXTS, quoted

_SMALL = st.sampled_from(["{few}", "{few}", "{none}", "{df}"])
_ANY = st.one_of(_SMALL, st.just("{big}"))
_NUMBER = st.sampled_from(["k", "k", "v", "w"])
_WIDE_JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
_JOINS = st.one_of(_WIDE_JOINS, st.sampled_from(["SEMI JOIN", "ANTI JOIN"]))


def _single(alias: str) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda name, n: f"{alias}.{name} < {n}", _NUMBER, NUMBERS),
        st.builds(lambda name, n: f"{alias}.{name} % 3 = {n % 3}", _NUMBER, NUMBERS),
        st.builds(lambda text: f"{alias}.s = {quoted(text)}", TEXTS),
        st.builds(lambda name: f"{alias}.{name} IS NULL", _NUMBER),
        st.just(f"{alias}.s LIKE '%b%'"),
        st.just("true"),
    )


@st.composite
def _matches(draw: st.DrawFn, one: str = "a", other: str = "b") -> str:
    """Draw the condition of a join."""
    sign = draw(st.sampled_from(["=", "=", "=", "IS NOT DISTINCT FROM", "<="]))
    numbers = f"{one}.{draw(_NUMBER)} {sign} {other}.{draw(_NUMBER)}"
    texts = f"{one}.s {draw(st.sampled_from(['=', '=', '<>']))} {other}.s"
    extra = draw(st.one_of(_single(one), _single(other)))
    return draw(st.sampled_from([
        numbers, numbers, texts, f"{numbers} AND {texts}", f"{numbers} AND {extra}", f"{numbers} OR {extra}",
    ]))  # fmt: skip


@st.composite
def _relations(draw: st.DrawFn) -> str:
    """Draw a relation with the columns k, v, s and w that reads the large table."""
    form = draw(st.integers(0, 10))
    where = draw(_single("x"))
    small = draw(_SMALL)
    return [
        "{big}",
        "{big}",
        f"(SELECT * FROM {{big}} x WHERE {where})",
        "(SELECT k, sum(v) AS v, s, max(w) AS w FROM {big} GROUP BY k, s)",
        "(SELECT k, sum(v) AS v, min(s) AS s, max(w) AS w FROM {big} GROUP BY ROLLUP (k))",
        "(SELECT DISTINCT k, v, s, w FROM {big})",
        "(SELECT k, v, s, row_number() OVER (PARTITION BY s ORDER BY k, w) AS w FROM {big})",
        "(SELECT * FROM {big} ORDER BY k, s, w LIMIT 12)",
        f"(SELECT k, v, s, w FROM {{big}} UNION ALL SELECT k, v, s, w FROM {small})",
        f"(SELECT x.k, y.v, x.s, y.w FROM {{big}} x {draw(_WIDE_JOINS)} {small} y ON {draw(_matches('x', 'y'))})",
        "(SELECT v AS k, k AS v, s, CAST(k AS BIGINT) AS w FROM {big})",
    ][form]  # fmt: skip


@st.composite
def joined_statements(draw: st.DrawFn) -> str:
    """Draw a statement whose rows have no order."""
    big, small, match = draw(_relations()), draw(_SMALL), draw(_matches())
    if draw(st.booleans()):
        where_small = draw(_single("z"))
        small = f"(SELECT * FROM {small} z WHERE {where_small})"
    first, second = draw(st.sampled_from([(big, small), (small, big)]))
    join, where = draw(_JOINS), draw(_single("a"))
    form = draw(st.integers(0, 11))
    if form <= 2:
        return f"SELECT a.k, a.s, a.w FROM {first} a {join} {second} b ON {match} WHERE {where}"
    if form == 3:
        third = draw(_matches("a", "c"))
        return f"SELECT a.k, a.w FROM {first} a {join} {second} b ON {match} {draw(_JOINS)} {draw(_ANY)} c ON {third}"
    if form == 4:
        word, name = draw(st.sampled_from(["IN", "NOT IN"])), draw(_NUMBER)
        inner = f"SELECT b.{draw(_NUMBER)} FROM {second} b WHERE {draw(_single('b'))}"
        return f"SELECT a.k, a.w FROM {first} a WHERE a.{name} {word} ({inner})"
    if form == 5:
        word = draw(st.sampled_from(["EXISTS", "NOT EXISTS"]))
        return f"SELECT a.k, a.w FROM {first} a WHERE {word} (SELECT 1 FROM {second} b WHERE {match}) AND {where}"
    if form == 6:
        value = draw(st.sampled_from(["max(b.w)", "count(*)", "sum(b.v)", "min(b.s)"]))
        return f"SELECT a.k, (SELECT {value} FROM {second} b WHERE {match}) AS n FROM {first} a"
    if form == 7:
        groups = f"GROUP BY a.k HAVING a.k < {draw(NUMBERS)} OR sum(b.w) > 30"
        return f"SELECT a.k, count(*), sum(b.w) FROM {first} a JOIN {second} b ON {match} {groups}"
    if form == 8:
        return (
            f"WITH c AS (SELECT * FROM {second}) SELECT a.k, b.w FROM {first} a JOIN c b ON {match} "
            f"WHERE a.k > (SELECT min(k) FROM c) OR a.w IN (SELECT w FROM c)"
        )
    if form == 9:
        nearest = f"(SELECT * FROM {second} b WHERE {match} ORDER BY k, s, w LIMIT 2)"
        return f"SELECT a.k, a.w, b.w FROM {first} a, LATERAL {nearest} b"
    if form == 10:
        return f"SELECT a.k, a.w FROM {first} a WHERE a.k IN (SELECT b.k FROM {second} b) OR {where}"
    joined = f"(SELECT a.k, a.s, b.w FROM {first} a JOIN {second} b USING (k))"
    return f"SELECT * FROM {joined} a FULL JOIN {draw(_SMALL)} c USING (k, s)"
