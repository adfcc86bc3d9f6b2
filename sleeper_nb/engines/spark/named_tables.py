"""Tables by name in a program's own Spark: ``spark.table("flights")``, ``spark.sql("… flights VERSION AS OF 12")``.

Spark looks for a name that is no temporary view in its session catalog, once for each query. Spark has an interface for
classes that add to this catalog, and a few lines of Java implement it: what Spark itself has comes first, and for any
other name in its database ``default`` they call this process, through the connection that PySpark has for callbacks.
So a query reads the version that is current when it is made, or the one that it names; a table that was created a
moment ago is found; and the rows come from Spark's own Parquet reader, as they do for SQL of the session.

The answer to Spark is a view over the planned rows, which are a global temporary view for as long as Spark needs it.

Spark's compiler for generated code compiles the class, so no jar is needed. It becomes a class of Spark's own class
loader, as Spark loads it by name in each copy of a session, such as that of a streaming query.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sleeper_nb.engines.spark.frames import NAMES_AND_SETTINGS, SESSION_ID
from sleeper_nb.engines.spark.gateway import (
    gateway_of,
    java_array,
    java_frame,
    java_session,
    jvm_of,
    own_views,
    session_state,
)
from sleeper_nb.engines.spark.spark_errors import as_raised, explain, in_one_line
from sleeper_nb.engines.spark.spark_settings import CATALOG, CATALOG_CLASS, TIMES
from sleeper_nb.errors import NotFound, SleeperError, first_line
from sleeper_nb.model.snapshots import EPOCH, VersionReference, parse_moment, parse_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_BUILTIN: Final = "builtin"
_NEIGHBOUR: Final = "org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension"
_KEPT_VIEWS: Final = 256
"""How many views stay for Spark; one statement can name at most as many tables."""

_SOURCE: Final = """
package org.apache.spark.sql.connector.catalog;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CreateTableEvent;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogEvent;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogEventListener;

public class SleeperNamedTables extends DelegatingCatalogExtension implements ExternalCatalogEventListener {
  public static volatile Function tables;
  public static final SleeperNamedTables LISTENER = new SleeperNamedTables();

  public void onEvent(ExternalCatalogEvent event) {
    if (!(event instanceof CreateTableEvent)) { return; }
    CreateTableEvent made = (CreateTableEvent) event;
    ask("made", new String[] {made.database()}, made.name(), "");
  }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    Table own;
    try { own = super.loadTable(ident); }
    catch (NoSuchTableException missing) { return ours("read", ident, "", missing); }
    ask("hidden", ident.namespace(), ident.name(), "");
    return own;
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    try { super.loadTable(ident); }
    catch (NoSuchTableException missing) { return ours("version", ident, version, missing); }
    return super.loadTable(ident, version);
  }

  public Table loadTable(Identifier ident, long micros) throws NoSuchTableException {
    try { super.loadTable(ident); }
    catch (NoSuchTableException missing) { return ours("timestamp", ident, String.valueOf(micros), missing); }
    return super.loadTable(ident, micros);
  }

  public Table loadTable(Identifier ident, java.util.Set privileges) throws NoSuchTableException {
    try { super.loadTable(ident); }
    catch (NoSuchTableException missing) { return ours("write", ident, "", missing); }
    return ((TableCatalog) delegate).loadTable(ident, privileges);
  }

  public boolean tableExists(Identifier ident) {
    return super.tableExists(ident) || Boolean.TRUE.equals(ask("exists", ident.namespace(), ident.name(), ""));
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    java.util.LinkedHashSet all = new java.util.LinkedHashSet(java.util.Arrays.asList(super.listTables(namespace)));
    Object names = ask("list", namespace, "", "");
    if (names != null && !names.equals("")) {
      String[] each = ((String) names).split(",");
      for (int i = 0; i < each.length; i++) { all.add(Identifier.of(namespace, each[i])); }
    }
    return (Identifier[]) all.toArray(new Identifier[all.size()]);
  }

  private Table ours(String use, Identifier ident, String version, NoSuchTableException missing)
      throws NoSuchTableException {
    Object found = ask(use, ident.namespace(), ident.name(), version);
    if (found == null) { throw missing; }
    if (found instanceof String) { throw new IllegalArgumentException((String) found); }
    return new V1Table((CatalogTable) found);
  }

  private static Object ask(String use, String[] namespace, String name, String version) {
    Function asked = tables;
    String session = org.apache.spark.SparkContext.getOrCreate().getLocalProperty("%s");
    if (asked == null || namespace.length != 1 || !namespace[0].equalsIgnoreCase("default")) { return null; }
    try { return asked.apply((session == null ? "" : session) + "\\n" + use + "\\n" + name + "\\n" + version); }
    catch (py4j.Py4JException gone) { return null; }
  }
}
""".replace("%s", SESSION_ID)

_DEFINE: Final = """
public class SleeperDefine {
  public static Class define(byte[] code, Class neighbour) throws Exception {
    java.lang.invoke.MethodHandles.Lookup here = java.lang.invoke.MethodHandles.lookup();
    return java.lang.invoke.MethodHandles.privateLookupIn(neighbour, here).defineClass(code);
  }
}
"""


_LOADS: Final = frozenset({"read", "version", "timestamp", "write"})
"""Requests for a table, which Spark shows the error of; the others have answers without errors."""


class NamedTables:
    """Answers a Spark session that asks for a table by name.

    Parameters
    ----------
    session_id
        Identifies the session whose tables these are; SQL of another one does not see them.
    location
        The address of the instance, for SQL of another session that names a table of this one.
    names
        Returns the names of all tables; of none once they can no longer be read.
    frame
        Returns the rows of a table at a version, the current one when None; None when there is no such table.
    """

    def __init__(
        self,
        session_id: str,
        location: str,
        names: Callable[[], Sequence[str]],
        frame: Callable[[SparkSession, str, VersionReference | None], DataFrame | None],
        new_id: Callable[[], str],
    ) -> None:
        self._session_id, self._location = session_id, location
        self._names, self._frame, self._new_id = names, frame, new_id
        self._spark: SparkSession | None = None
        self._views: deque[str] = deque()
        self._warned: set[str] = set()

    def offer(self, spark: SparkSession) -> None:
        """Give a Spark session the tables by name, instead of those of any other instance.

        Warns about tables whose names its own views and tables have, as those are read instead; and when it has the
        catalog of another library in that place, as no table has a name then.
        """
        is_new, self._spark = spark is not self._spark, spark
        problem = self._offered(spark)
        if not is_new:
            return
        if problem:
            warnings.warn(
                f"tables have no names in this Spark session, as {problem}: "
                'write spark.read.format("sleeper").load("flights"), or session.sql("…", engine="spark")',
                stacklevel=4,
            )
            return
        for name in _own(spark, self._names()):
            self._warn_of(name)

    def _offered(self, spark: SparkSession) -> str:
        """Let the catalog of a Spark session ask this object; return why that is not possible, or ""."""
        with NAMES_AND_SETTINGS:
            catalog = spark.conf.get(CATALOG, _BUILTIN)
            if catalog not in {_BUILTIN, CATALOG_CLASS}:
                return f"its catalog is {catalog}"
            try:
                _offer(spark, self)
            except Exception as error:  # another release of Spark: all else works without names
                logger.warning("the catalog of this Spark cannot be extended", exc_info=True)
                return f"its catalog cannot be extended ({first_line(explain(error) or error)})"
            spark.conf.set(CATALOG, CATALOG_CLASS)
            return ""

    def _warn_of(self, name: str) -> None:
        if name.casefold() in self._warned:
            return
        self._warned.add(name.casefold())
        warnings.warn(
            f"Spark has a table or view of its own named {name!r}, which it reads by this name; "
            f'for ours, write spark.read.format("sleeper").load({name!r}), or session.sql("…")',
            stacklevel=5,
        )

    def _warn_of_new(self, name: str) -> None:
        """Warn that a program made a table with Spark, which the warehouse knows nothing of."""
        if self._spark is None or _external_catalog(self._spark).getTable("default", name).tableType().name() == "VIEW":
            return
        warnings.warn(
            f"{name!r} is a table of Spark's own, outside the warehouse: "
            f'to make one in it, write session.sql("CREATE TABLE …"); DROP TABLE {name} removes Spark\'s',
            stacklevel=2,
        )

    def apply(self, request: str) -> Any:
        """Answer Spark: a table, the text of an error, names, or whether there is a table; None for no such table."""
        session_id, use, name, version = request.split("\n", 3)
        try:
            if session_id not in {"", self._session_id}:
                # SQL of another session, perhaps by a view that was made here: the error for a table of this one
                is_refused = use in _LOADS and self._has(name)
                return as_raised(_of_other(name, self._location)) if is_refused else None
            return self._answer(use, name, version)
        except Exception as error:  # noqa: BLE001 - Spark would show the whole stack of this process
            return in_one_line(explain(error) or error) if use in _LOADS else None

    def _has(self, name: str) -> bool:
        return name.partition("$")[0].casefold() in {each.casefold() for each in self._names()}

    def _answer(self, use: str, name: str, version: str) -> Any:
        if use == "list":
            return ",".join(self._names())
        if use == "made":
            return self._warn_of_new(name)
        is_ours = self._has(name)
        if use == "exists":
            return is_ours
        if not is_ours or self._spark is None:
            return None
        if use == "hidden":
            return self._warn_of(name)
        if use == "write":
            return in_one_line(_no_write(name))
        rows = self._frame(self._spark, name, _reference(use, version))
        return None if rows is None else self._view(self._spark, name, rows)

    def _view(self, spark: SparkSession, name: str, rows: DataFrame) -> Any:
        view = f"sleeper_{self._new_id()}"
        rows.createOrReplaceGlobalTempView(view)
        self._views.append(view)
        while len(self._views) > _KEPT_VIEWS:
            # not PySpark's own method, which also drops what the program has cached of the same rows
            session_state(spark).catalog().dropGlobalTempView(self._views.popleft())
        return _catalog_table(spark, name, view, rows)

    class Java:
        """What Py4J reads: the Java interface of this class."""

        implements: ClassVar = ["java.util.function.Function"]


def _reference(use: str, version: str) -> VersionReference | None:
    if use == "version":
        return parse_version(version)
    return parse_moment(EPOCH + timedelta(microseconds=int(version))) if use == "timestamp" else None


def _of_other(name: str, location: str) -> NotFound:
    return NotFound(
        f"no table or view {name!r} of this session: {name!r} is a table of {location}, which another session has open",
        hint="read it, and views of it, with that session",
    )


def _no_write(name: str) -> SleeperError:
    return SleeperError(
        f"SQL of Spark cannot write to table {name!r}",
        hint='run the statement as session.sql("…", engine="spark"); or append a DataFrame: '
        f'df.write.format("sleeper").option("table", "{name}").mode("append").save()',
    )


def _own(spark: SparkSession, names: Iterable[str]) -> list[str]:
    """Return the names that a Spark session has itself too, as temporary views or in its database."""
    catalog = session_state(spark).catalog()  # PySpark's own list would ask us
    stored = catalog.listTables("default")
    own = {stored.apply(index).table().casefold() for index in range(stored.size())}
    own |= {view.casefold() for view in own_views(spark)}
    return sorted(name for name in names if name.casefold() in own)


def _offer(spark: SparkSession, tables: NamedTables) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway_of(spark))  # type: ignore[no-untyped-call]
    catalog_class = _catalog_class(spark)
    catalog_class.getField("tables").set(None, tables)
    listener, catalog = catalog_class.getField("LISTENER").get(None), _external_catalog(spark)
    catalog.removeListener(listener)  # of a session before
    catalog.addListener(listener)


def _external_catalog(spark: SparkSession) -> Any:
    return java_session(spark).sharedState().externalCatalog()


def _catalog_class(spark: SparkSession) -> Any:
    """Return the class of the catalog, compiled first when this JVM does not have it."""
    from py4j.protocol import Py4JJavaError

    jvm = jvm_of(spark)
    loader = jvm.org.apache.spark.util.Utils.getSparkClassLoader()
    try:
        return loader.loadClass(CATALOG_CLASS)
    except Py4JJavaError:  # not compiled yet
        compiled, define = _compiled(jvm, loader, _SOURCE), _compiled(jvm, loader, _DEFINE)
    methods = define.getClassLoader().loadClass("SleeperDefine").getMethods()
    method = next(each for each in methods if each.getName() == "define")
    return method.invoke(
        None, java_array(spark, compiled.getBytecodes().get(CATALOG_CLASS), loader.loadClass(_NEIGHBOUR))
    )


def _compiled(jvm: Any, loader: Any, source: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.setParentClassLoader(loader)
    compiler.cook(source)
    return compiler


def _catalog_table(spark: SparkSession, name: str, view: str, rows: DataFrame) -> Any:
    """Return what Spark's catalog has for a view over a global temporary view."""
    jvm = jvm_of(spark)
    catalog, some = jvm.org.apache.spark.sql.catalyst.catalog, jvm.scala.Option.apply
    database = spark.conf.get("spark.sql.globalTempDatabase", "global_temp")
    make = getattr(getattr(catalog, "CatalogTable$"), "MODULE$")
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name, some("default"), some("spark_catalog"))
    fields = [
        identifier,
        catalog.CatalogTableType.VIEW(),
        catalog.CatalogStorageFormat.empty(),
        java_frame(rows).schema(),
    ]
    methods = {each.getName() for each in make.getClass().getMethods()}
    # the other fields have defaults, more of them in each release of Spark
    while (default := f"apply$default${len(fields) + 1}") in methods:
        fields.append(getattr(make, default)())
    names = make.apply(*fields).productElementNames().toList()
    properties = {
        "view.referredTempViewNames": json.dumps([[database, view]]),
        "view.catalogAndNamespace.numParts": "2",
        "view.catalogAndNamespace.part.0": "spark_catalog",
        "view.catalogAndNamespace.part.1": "default",
        f"view.sqlConfig.{TIMES}": spark.conf.get(TIMES, "false"),  # a view has settings of its own
    }
    fields[names.indexOf("properties")] = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(properties)
    fields[names.indexOf("viewText")] = some(f"TABLE `{database}`.`{view}`")
    return make.apply(*fields)
