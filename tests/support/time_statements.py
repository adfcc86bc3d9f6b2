"""Generated statements over tables that are keyed by times, as Hypothesis strategies: conditions, casts and joins.

``{t}``, ``{u}`` and ``{few}`` stand for tables with the columns ``d`` (date), ``ts`` (timestamp) and ``w`` (int);
``{tz}`` for the engine's type of instants.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st

DAYS = [
    date(1, 1, 1), date(1, 1, 2), date(1582, 10, 4), date(1582, 10, 15), date(1899, 12, 31), date(1969, 12, 31),
    date(1970, 1, 1), *(date(2013, month, 1) for month in range(1, 13)), date(2013, 3, 31), date(2013, 10, 27),
    date(9999, 12, 30), date(9999, 12, 31),
]  # fmt: skip
_CHANGES = [datetime(2013, 3, 10, tzinfo=UTC), datetime(2013, 3, 31, tzinfo=UTC), datetime(2013, 11, 3, tzinfo=UTC)]
INSTANTS = [
    datetime.min.replace(tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1883, 11, 18, 17, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    *(change + timedelta(minutes=30 * step) for change in _CHANGES for step in range(-4, 28, 3)),
    *(datetime(2013, month, 1, tzinfo=UTC) for month in range(1, 13)), datetime(2013, 6, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]  # fmt: skip
"""Instants at which clocks change somewhere, at the ends of what a key can be, and a few plain ones."""

_SIGNS = st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
_DAY = st.sampled_from(DAYS).map(lambda day: f"DATE '{day}'")
_CLOCKS = st.sampled_from(["00:00:00", "00:00:00.000001", "01:30:00", "02:30:00", "12:00:00", "23:59:59.999999"])
_LOCAL = st.builds(lambda day, clock: f"{day} {clock}", st.sampled_from(DAYS), _CLOCKS)
_MOMENT = st.sampled_from(INSTANTS[1:-1])
_OFFSETS = st.sampled_from([0, 2, -5, 14])


def _with_offset(moment: datetime, hours: int) -> str:
    local = (moment + timedelta(hours=hours)).replace(tzinfo=None).isoformat(" ")
    return f"CAST('{local}{hours:+03}:00' AS {{tz}})"


_INSTANT = st.one_of(
    st.builds(_with_offset, _MOMENT, _OFFSETS),
    _LOCAL.map(lambda text: f"TIMESTAMP '{text}'"),
    _LOCAL.map(lambda text: f"CAST('{text}' AS {{tz}})"),
)
_EITHER = st.one_of(_DAY, _INSTANT, _LOCAL.map(lambda text: f"'{text[:10]}'"))


def tests_on(alias: str) -> st.SearchStrategy[str]:
    """Return conditions on the times of a table, joined by AND, OR and NOT."""
    at = f"{alias}." if alias else ""
    column = st.sampled_from([f"{at}d", f"{at}ts"])
    single = st.one_of(
        st.builds(lambda sign, value: f"{at}d {sign} {value}", _SIGNS, _DAY),
        st.builds(lambda sign, value: f"{at}ts {sign} {value}", _SIGNS, _INSTANT),
        st.builds(lambda name, sign, value: f"{name} {sign} {value}", column, _SIGNS, _EITHER),
        st.builds(lambda name, sign, value: f"{value} {sign} {name}", column, _SIGNS, _EITHER),
        st.builds(lambda name, low, high: f"{name} BETWEEN {low} AND {high}", column, _EITHER, _EITHER),
        st.builds(lambda many: f"{at}d IN ({', '.join(many)})", st.lists(_DAY, min_size=1, max_size=5)),
        st.builds(lambda many: f"{at}ts IN ({', '.join(many)})", st.lists(_INSTANT, min_size=1, max_size=5)),
        st.builds(lambda sign, value: f"CAST({at}ts AS DATE) {sign} {value}", _SIGNS, _DAY),
        st.builds(lambda sign, value: f"CAST({at}d AS {{tz}}) {sign} {value}", _SIGNS, _INSTANT),
        st.builds(lambda sign, value: f"CAST({at}d AS TIMESTAMP) {sign} {value}", _SIGNS, _EITHER),
        st.builds(lambda sign, n: f"year({at}ts) {sign} {n}", _SIGNS, st.sampled_from([1582, 2013])),
        st.builds(lambda sign, value: f"date_trunc('MONTH', {at}ts) {sign} {value}", _SIGNS, _INSTANT),
        st.builds(lambda sign, value: f"{at}d {sign} CAST({value} AS DATE)", _SIGNS, _INSTANT),
        st.builds(lambda sign, value: f"{at}ts {sign} CAST({value} AS {{tz}})", _SIGNS, _DAY),
        st.just(f"{at}d = CAST({at}ts AS DATE)"), st.just(f"{at}ts >= {at}d"), st.just(f"{at}ts IS NULL"),
    )  # fmt: skip
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
            st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
            st.builds(lambda a: f"NOT ({a})", inner),
        ),
        max_leaves=4,
    )


_KEYS = st.sampled_from(
    ["a.d = b.d", "a.ts = b.ts", "a.d = b.d AND a.ts = b.ts", "a.d = CAST(b.ts AS DATE)", "a.ts = b.d", "a.d = b.ts"]
)


@st.composite
def time_statements(draw: st.DrawFn) -> str:
    """Draw a statement whose rows have no order."""
    first, second, _ = draw(st.permutations(["{t}", "{u}", "{few}"]))
    form = draw(st.integers(0, 6))
    if form < 3:
        return f"SELECT w FROM {first} WHERE {draw(tests_on(''))}"
    if form == 3:
        return f"SELECT count(*), min(d), max(ts) FROM {first} WHERE {draw(tests_on(''))}"
    if form == 4:
        return f"SELECT a.w, b.w FROM {first} a JOIN {second} b ON {draw(_KEYS)} WHERE {draw(tests_on('b'))}"
    if form == 5:
        return f"SELECT a.w, b.w FROM {first} a LEFT JOIN {second} b ON {draw(_KEYS)} AND {draw(tests_on('a'))}"
    return (
        f"SELECT w FROM {first} a WHERE a.d IN (SELECT CAST(b.ts AS DATE) FROM {second} b WHERE {draw(tests_on('b'))})"
    )
