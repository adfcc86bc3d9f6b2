"""The reference page: every command, option and property, made of what defines them; run as a module to write it.

``python -m sleeper_nb.commands.reference`` writes ``REFERENCE.md`` beside the package's modules.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.command import Argument, Command
from sleeper_nb.engines.spark.sql_rules import CHANGEABLE, FORMATS
from sleeper_nb.errors import ConfirmationNeeded
from sleeper_nb.model.properties import Property
from sleeper_nb.model.schema import SIMPLE_TYPES
from sleeper_nb.operations.administration.property_listing import DEFAULTS_NOTE, property_groups
from sleeper_nb.operations.loading.casts import KINDS, fit

CAST_TARGETS = (*SIMPLE_TYPES, "decimal", "list", "map")
"""The columns of the table of casts."""
CASTS_NOTE = """One rule holds for all data that is loaded, from every input, and for elements of lists and maps as for
columns: a value becomes exactly itself in the column's type, or the load is refused with its column, row (or line)
and value. Exact means that casting back gives the value that came; a time without a zone is UTC.
"""
CASTS_IN_FILES = """- `unsigned long` is 64 bits; shorter unsigned numbers are `int` and `long`. `other` are times of
  day, durations, structs, pandas' periods and all else. A column in which all is NULL becomes NULL in every type.
- A decimal or a text becomes a float or double when that keeps all digits that are written: `0.1` does,
  `9007199254740993` and `1e400` do not. A double becomes a decimal by its shortest digits: `1.24` fits `decimal(10,2)`,
  `1.239` does not. A double becomes a float only where 32 bits hold it; `numpy.float32(x)` rounds it.
- Texts mean `12`, `1.5e3`, `nan`, `inf`, `true`, `false`, `1`, `0`, `2026-11-21`,
  `2026-11-21T10:30:00.123456+01:00`; spaces around them do not count.
- Rows of Python: None, `pandas.NaT` and `pandas.NA` are NULL; a float NaN is NaN.
- pandas: NaN is NULL in columns of numpy's floats and of objects, as pandas marks missing values so. The dry run and
  the load say how many of them there were. Masked (`Float64`) and Arrow columns keep NaN and NULL apart, as do Arrow,
  Polars, Parquet and Spark.
- CSV: NULL is the null text without quotes, an empty value by default; in quotes it is a text, and NULL only in
  columns other than `string` and `bytearray`. `NaN` is NaN. Bytes are base64; lists are JSON, and maps are lists of
  pairs or objects.
- JSON: objects, one a line, or one array of objects. Bytes are base64; maps are objects or lists of pairs; numbers
  keep all digits that are written. A missing name is NULL.
- `export` writes CSV that `ingest` reads as the same values; in lists and maps it refuses years outside 1 to 9999, and
  elsewhere outside -32767 to 32767.
"""
PAGE = Path(__file__).parents[1] / "REFERENCE.md"
BAR = r"\|"
_HEAD = """# Reference
Made by `python -m sleeper_nb.commands.reference` of the command table and the properties: do not edit it by hand.

Each command is typed behind `%sleeper` in a notebook and behind `sleeper` on a console. In a notebook each also takes
`-o VAR`, the variable that keeps its value, as `VAR = %sleeper …` does; on a console each takes `--warehouse` and
`--instance`, and `sleeper --version` tells the version. `T` is a table, `T@REF` one of its versions:
`T@12` or `T@v12`, `T@<savepoint>`, `T@savepoint.3`, `T@2026-11-01T10:00`.
"""

_SQL = """## What SQL reads
SQL reads and never writes: in `sql`, `inspect`, `where`, views, and with `--dry-run`, `--explain`, `--plot` and
`--interactive`. A statement is judged as a whole by the parser of its engine before it is run.

| | DuckDB | Spark |
|---|---|---|
| allowed | `SELECT`, `WITH`, `FROM`, `VALUES`, `TABLE`, `PIVOT`, `UNPIVOT`, `DESCRIBE`, `SUMMARIZE`, `SHOW`, \
`EXPLAIN` | queries, `DESCRIBE`, `SHOW`, `LIST`, `EXPLAIN`; `CACHE`, `UNCACHE`, `REFRESH TABLE`, `USE` of a database, \
variables, `CREATE TEMP VIEW … USING` with a format below, `SET` and `RESET` of a setting below; all end with the \
Spark session |
| refused, also inside another statement | `COPY`, `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `CREATE`, `ALTER`, `DROP`, \
`ATTACH`, `INSTALL`, `LOAD`, `SET`, `PRAGMA`, `CALL`, secrets; the functions `query`, `query_table`, `nextval`, \
`setval`, `write_log`, `getenv`, `sleep_ms`, `pg_sleep`, `set_config` and every table function that does more than \
read | `INSERT`, also `INSERT OVERWRITE DIRECTORY`, \
`CREATE`, `ALTER`, `DROP`, `TRUNCATE`, `LOAD DATA`, `MERGE`, `UPDATE`, `DELETE`, `ANALYZE`, `MSCK`, `ADD JAR`, \
functions, `CALL`, `EXECUTE IMMEDIATE`, scripts; `TRANSFORM … USING`, `reflect`, `java_method`, functions of Avro and \
Protobuf; `SET` of any other setting, `SET CATALOG`, `USE` of another catalog; `${…}`, and `IDENTIFIER(…)` of more \
than a text |
| kept by the session | `CREATE TEMP VIEW … AS`, `DROP VIEW` | `CREATE TEMP VIEW … AS`, `DROP VIEW` |
| local files | `'data.csv'` and `read_csv`, `read_json`, `read_parquet`, `read_text`, `read_blob`, `glob` and their \
like, whose paths and patterns are texts or parameters | ``csv.`data.csv` `` and \
`CREATE TEMP VIEW … USING csv OPTIONS (path 'data.csv')`; formats: <formats> |

On Spark, `SET` changes only settings that change how a query runs, never what it answers:
<settings>.
All others, such as `spark.sql.session.timeZone`, `spark.sql.files.ignoreCorruptFiles` and `spark.sql.catalog.…`, are
set with `connect(…, spark_config={…})` or on a Spark session of your own. SQL may read the catalogs of that session:
`catalog.schema.table`. `OPTIONS` and `WITH` take options that say how a file is written, not ones that skip files which
cannot be read. Tables are read whole, or the read fails, whatever the Spark session's settings are.

Files of an instance of a warehouse are read by its tables' names alone, and files below `/proc`, `/sys` and `/dev` not
at all, also through patterns and links. On Spark, too, SQL reads no file of another machine. With the instance property
`sleeper.sql.local.files=false`, or `connect(…, properties={"sleeper.sql.local.files": "false"})` for one session, SQL
reads no local file. DuckDB runs statements in a database whose settings are locked, without network or extensions, and
which can open only the files of the statement's tables and the local files that it names. Data frames and relations
that Python is handed (`to_spark`, `to_duckdb`) have no such limits.

`spark.sleeper.jit`, a setting of the Spark session that is started (`spark_config`, or `[spark]` in `sleeper.toml`),
chooses the JVM's compiler: `full`, or `quick` for a sooner first answer and code that runs up to 17 times slower.
Without it, a first statement that reads less than 512 MiB of tables, and nothing else, starts `quick`; any other first
use, such as `session.spark_session`, starts `full`.
"""


def page() -> str:
    """Return the content of the page."""
    rule = ["## What deletes", *_rule()]
    casts = ["## Casts", *_casts()]
    return "\n".join([_HEAD, *rule, *_commands(), *casts, _sql(), "## Properties", *_properties()])


def _sql() -> str:
    """Return the part about SQL, with the lists that judge statements."""
    formats = ", ".join(f"`{name}`" for name in FORMATS)
    settings = textwrap.fill(
        ", ".join(f"`{name}`" for name in sorted(CHANGEABLE)), 120, break_on_hyphens=False, break_long_words=False
    )
    return _SQL.replace("<formats>", formats).replace("<settings>", settings)


def write(path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(page(), encoding="utf-8")


def _rule() -> Iterator[str]:
    """Yield the rule of `ConfirmationNeeded`, where it is written down."""
    text = inspect.getdoc(ConfirmationNeeded) or ""
    yield text.partition("\n\n")[2].partition("\n\nParameters\n")[0]
    yield ""


def _commands() -> Iterator[str]:
    for group in COMMANDS.groups:
        yield f"## Commands: {group.title}\n"
        for command in group.commands:
            yield from _command(command)


def _command(command: Command) -> Iterator[str]:
    yield f"### {command.name}"
    also = f" Also called {', '.join(f'`{name}`' for name in command.aliases)}." if command.aliases else ""
    yield f"{command.summary[:1].upper()}{command.summary[1:]}.{also}\n"
    yield f"    {command.usage}\n"
    if command.arguments:
        yield from _table(("argument", "what it is", "default"), map(_argument, command.arguments))
    yield from _examples(command)


def _argument(argument: Argument) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in argument.names) if argument.is_option else f"`{argument.usage}`"
    value = f" `{argument.value}`" if argument.takes_value else ""
    choices = f"; one of {', '.join(argument.choices)}" if argument.choices else ""
    return names + value, argument.help + choices, "" if argument.default is None else f"`{argument.default}`"


def _examples(command: Command) -> Iterator[str]:
    yield "Examples:\n"
    for example in command.examples:
        first, *body = example.splitlines()
        yield f"    {'%' * bool(body)}%sleeper {first}"
        yield from (f"    {line}" for line in body)
        if body:
            yield ""
    yield ""


def _casts() -> Iterator[str]:
    yield CASTS_NOTE
    heads = ("data \\ column", *CAST_TARGETS)
    yield from _table(heads, ((kind, *(fit(kind, name) for name in CAST_TARGETS)) for kind in KINDS))
    yield CASTS_IN_FILES


def _properties() -> Iterator[str]:
    yield f"{DEFAULTS_NOTE}\n"
    for title, known in property_groups():
        yield f"### Properties: {title}"
        yield from _table(("property", "type", "default", "effect"), map(_property, known))


def _property(known: Property) -> tuple[str, str, str, str]:
    return f"`{known.name}`", known.kind, f"`{known.default}`" if known.default else "", known.effect


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |"
    yield ""


if __name__ == "__main__":
    write()
