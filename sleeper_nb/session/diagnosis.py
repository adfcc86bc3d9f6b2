"""Check all that sleeper_nb needs, on this machine, on AWS and on Spark's workers; suggest a fix for each problem."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.admin.instances import check_warehouse, instance_names
from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.errors import Action, EngineError, HintParts, NotInstalled, SleeperError, hint_text
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import Grid, Report, counted, escaped
from sleeper_nb.storage.aws import AwsTarget, Network, in_short
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.storage.s3 import S3Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
    from sleeper_nb.engines.spark.spark_workers import WorkerHealth

OK, WARNING, FAILED, NOT_CHECKED = "ok", "warning", "failed", "not checked"
CLOCK_WARNS, CLOCK_FAILS = timedelta(seconds=30), timedelta(minutes=5)
"""S3 refuses requests of a clock that is 15 minutes apart; readers' leases last as long."""
_QUICK = 1
"""A quota of lost answers that lets no request be sent again: the doctor says at once that there is no answer."""
_PACKAGES: Final = ("pyarrow", "duckdb", "datafusion")
_OPTIONAL: Final = {
    "pyspark": "spark", "boto3": "aws", "altair": "charts", "openpyxl": "excel", "pyiceberg": "iceberg",
    "deltalake": "delta",
}  # fmt: skip
"""Packages of extras, and the extra that installs each."""
_WITHOUT_SPARK: Final = "; loads and DuckDB work without it"
_ASK_CLUSTER = Action("doctor --cluster", "session.doctor(cluster=True)")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One line of the doctor."""

    name: str
    state: str  # ``ok``, ``warning`` (something does not work, or may fail), ``failed``, or ``not checked``
    found: str
    fix: HintParts = ()


@dataclass(frozen=True, slots=True, repr=False)
class DoctorReport(Report):
    """What the doctor found; `as_json` shows it as JSON."""

    checks: tuple[HealthCheck, ...]
    as_json: bool = False
    prefix: str = ""

    @property
    def failed(self) -> tuple[HealthCheck, ...]:
        """The lines that failed; the console then ends with 1."""
        return tuple(each for each in self.checks if each.state == FAILED)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def grid(self) -> Grid:
        rows = tuple((each.name, each.state, each.found, hint_text(each.fix, self.prefix)) for each in self.checks)
        warned = sum(each.state == WARNING for each in self.checks)
        footer = f"{counted(len(self.failed), 'check')} failed, {counted(warned, 'warning')}"
        return Grid(("what", "state", "found", "fix"), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return whether all is well, and each check."""
        return {
            "ok": self.ok,
            "checks": [
                {"name": each.name, "state": each.state, "found": each.found, "fix": hint_text(each.fix, self.prefix)}
                for each in self.checks
            ],
        }

    def __repr__(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) if self.as_json else self.grid().text()

    def _repr_html_(self) -> str:
        return f"<pre>{escaped(repr(self))}</pre>" if self.as_json else self.grid().html()


@dataclass(frozen=True, slots=True)
class Patient:
    """What the doctor looks at; it opens and makes nothing."""

    warehouse: Storage  # may be missing
    instance: str
    catalog: DynamoDBCatalog | None  # None for a folder
    clock: Clock
    spark_config: Mapping[str, str] = field(default_factory=dict, repr=False)
    engine: Callable[[], SparkRuntime] | None = None  # for a look at the workers
    given: SparkSession | None = None  # the Spark session that was passed in; None for none
    stops: bool = False  # whether the engine is the doctor's own, which is stopped after the look


@checked
def doctor(
    warehouse: str | Path = "./warehouse",
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
    cluster: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> DoctorReport:
    """Look at Java, Spark, packages, credentials, clocks, S3, DynamoDB and permissions; nothing is opened or changed.

    Parameters
    ----------
    warehouse, instance, region, endpoint_url, profile, spark, spark_config
        As `connect` takes them.
    cluster
        Whether to look at Spark's workers too, by a small task; Spark is started and stopped for it if there is none.

    Returns
    -------
    DoctorReport
        A line for each, and how to fix it; failed checks are in `failed`. It takes seconds, also without a network.
    """
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime

    clock, config = clock or Clock(), dict(spark_config or {})
    engine = partial(SparkRuntime, spark, config=config, clock=clock, progress=progress or SILENT)
    with open_patient(warehouse, instance, clock, AwsTarget(region, endpoint_url, profile)) as patient:
        return examine(replace(patient, spark_config=config, engine=engine, given=spark, stops=True), cluster=cluster)


@contextmanager
def open_patient(warehouse: str | Path, instance: str, clock: Clock, aws: AwsTarget) -> Iterator[Patient]:
    """Give what the doctor looks at; its connections give up at the first lost answer, and are closed at the end."""
    network = Network(clock, quota=_QUICK)
    storage = open_storage(warehouse, aws, network)
    if storage.local:
        yield Patient(storage, instance, None, clock)
        return
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

    with closing(DynamoDBCatalog(instance, aws, clock=clock, network=network, warehouse=storage.root)) as catalog:
        yield Patient(storage, instance, catalog, clock)


def examine(patient: Patient, *, cluster: bool = False) -> DoctorReport:
    """Look at everything once; what needs the network at most for some seconds. Nothing is changed.

    Parameters
    ----------
    patient
        What to look at.
    cluster
        Whether to run a small task on Spark's workers, for which Spark may be started.
    """
    on_aws = _on_aws if not patient.warehouse.local else _in_folder
    parts: Sequence[tuple[str, Callable[[Patient], Iterator[HealthCheck]]]] = (
        ("Python", _python),
        ("Java", _java),
        ("Spark", _spark),
        ("warehouse", on_aws),
        ("workers", _workers if cluster else _workers_unseen),
    )
    return DoctorReport(tuple(check for name, look in parts for check in _safely(name, look, patient)))


def _safely(name: str, look: Callable[[Patient], Iterator[HealthCheck]], patient: Patient) -> Iterator[HealthCheck]:
    """Yield checks; an error is one that failed."""
    try:
        yield from look(patient)
    except SleeperError as error:
        yield HealthCheck(name, FAILED, error.message, error.hint_parts)
    except Exception as error:  # noqa: BLE001 - the doctor always answers
        yield HealthCheck(name, FAILED, in_short(error))


# This machine.


def _python(_: Patient) -> Iterator[HealthCheck]:
    from sleeper_nb import __version__

    yield HealthCheck("Python", OK, f"{platform.python_version()}, sleeper-nb {__version__}, {platform.system()}")
    found, missing = [], []
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    needed = [name for name in missing if name in _PACKAGES]
    if needed:
        install = (f"pip install {' '.join(needed)}",)
        yield HealthCheck("packages", FAILED, f"missing: {', '.join(needed)}", install)
    else:
        yield HealthCheck("packages", OK, ", ".join(found))
    if without := [_OPTIONAL[name] for name in missing if name in _OPTIONAL]:
        line = f'pip install "sleeper-nb[{",".join(without)}]"'
        yield HealthCheck("extras", OK, f"not installed: {', '.join(without)}", (line,))


def _java(patient: Patient) -> Iterator[HealthCheck]:
    from sleeper_nb.engines.spark.jvm import find_java

    if patient.given is not None:
        yield HealthCheck("Java", OK, "that of the Spark session that was passed in")
        return
    try:
        java = find_java()
    except EngineError as error:
        yield HealthCheck("Java", WARNING, f"{error.message}{_WITHOUT_SPARK}", error.hint_parts)
    else:
        ignored = f"; not used: {'; '.join(java.ignored)}" if java.ignored else ""
        yield HealthCheck("Java", OK, f"{java.version} ({java.origin}){ignored}")


def _spark(patient: Patient) -> Iterator[HealthCheck]:
    from sleeper_nb.engines.spark.gateway import active_session, check_classic
    from sleeper_nb.engines.spark.jvm import spark_home

    try:
        home = spark_home()
    except NotInstalled as error:
        yield HealthCheck("Spark", WARNING, f"{error.message}{_WITHOUT_SPARK}", error.hint_parts)
        return
    session = patient.given or active_session()
    if session is not None:
        check_classic(session)
        yield HealthCheck("Spark", OK, f"{session.version}, an existing session, on {session.sparkContext.master}")
        return
    found = sorted(home.glob("jars/spark-core_*.jar"))
    version = found[-1].stem.rpartition("-")[2] if found else "of an unknown version"
    master = patient.spark_config.get("spark.master", "local[*]")
    yield HealthCheck("Spark", OK, f"{version}, starts with its first use on {master}")


# The warehouse.


def _in_folder(patient: Patient) -> Iterator[HealthCheck]:
    root = Path(patient.warehouse.root)
    instance = root / patient.instance
    there = instance if instance.is_dir() else next(each for each in (root, *root.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        mend = (f"chmod u+rwx {there}, or work in another folder",)
        yield HealthCheck("warehouse", WARNING, f"{there} may only be read: queries work, and nothing else", mend)
    elif there == instance:
        yield HealthCheck("warehouse", OK, f"{root}, instance {patient.instance}")
    else:
        yield _no_instance(patient, root)
    yield HealthCheck("credentials", OK, "none needed: the warehouse is a folder")


def _no_instance(patient: Patient, root: Path) -> HealthCheck:
    says = f"no instance {patient.instance!r} in {root}" if root.exists() else f"no warehouse at {root}"
    others = instance_names(patient.warehouse) if root.exists() else ()
    named = f"instances there: {', '.join(others)}; " if others else ""
    return HealthCheck("warehouse", WARNING, says, (named, Action.opening(str(root), patient.instance), " creates one"))


def _on_aws(patient: Patient) -> Iterator[HealthCheck]:
    yield from _safely("credentials", _credentials, patient)  # a profile may ask a service for them
    with ThreadPoolExecutor(2) as pool:  # each may wait some seconds for a server that does not answer
        looks = (("S3", _s3), ("DynamoDB", _dynamodb))
        yield from chain.from_iterable(pool.map(lambda each: list(_safely(each[0], each[1], patient)), looks))
    says = "an error names the action that AWS refuses"
    mend = ("docs/aws-roles.md has the policies of readers, writers and maintainers",)
    yield HealthCheck("permissions", NOT_CHECKED, says, mend)


def _deploy_line(patient: Patient) -> str:
    assert patient.catalog is not None  # noqa: S101 - a bucket has a catalog in DynamoDB
    where = f"{shlex.quote(patient.warehouse.root)} --instance {patient.instance}"
    return f"add-instance {where}{patient.catalog.db.aws.options} --deploy"


def _credentials(patient: Patient) -> Iterator[HealthCheck]:
    """Yield whether there are keys and how they were found; nothing of them is shown."""
    assert patient.catalog is not None  # noqa: S101 - a bucket has a catalog in DynamoDB
    aws = patient.catalog.db.aws
    who = f"profile {aws.profile}" if aws.profile else "as boto3 finds them"
    found = aws.keys(aws.session())
    if found is None:
        mend = "aws configure, aws sso login, or set AWS_PROFILE; in a cluster, give the machines a role"
        yield HealthCheck("credentials", FAILED, f"none ({who})", (mend,))
        return
    keys = found.get_frozen_credentials()
    kind = "temporary" if keys.token else "permanent"
    yield HealthCheck("credentials", OK, f"{kind}, from {found.method} ({who})")


def _s3(patient: Patient) -> Iterator[HealthCheck]:
    """Yield whether the bucket answers, and how far the clocks are apart; it is asked once."""
    place = patient.warehouse.place
    assert isinstance(place, S3Place)  # noqa: S101 - what is not local
    with patient.warehouse.explained():
        answer = place.look_once()
    where = f"{patient.warehouse.root} at {place.connection.endpoint_url or place.connection.client.meta.region_name}"
    yield HealthCheck("S3", OK, f"{where} answers")
    yield _clock(patient.clock.now(), answer["ResponseMetadata"]["HTTPHeaders"].get("date", ""))


def _clock(now: datetime, date: str) -> HealthCheck:
    try:
        apart = abs(now - parsedate_to_datetime(date).astimezone(UTC))
    except (TypeError, ValueError):
        return HealthCheck("clock", NOT_CHECKED, "S3 did not say its time")
    return _compared("clock", apart, "S3's")


def _compared(name: str, apart: timedelta, other: str) -> HealthCheck:
    says = f"{apart.total_seconds():.0f} s from {other}"
    if apart <= CLOCK_WARNS:
        return HealthCheck(name, OK, says)
    mend = ("set the clock by the network: sudo timedatectl set-ntp true",)
    return HealthCheck(name, FAILED if apart > CLOCK_FAILS else WARNING, says, mend)


def _dynamodb(patient: Patient) -> Iterator[HealthCheck]:
    catalog = patient.catalog
    assert catalog is not None  # noqa: S101 - a bucket has a catalog in DynamoDB
    missing = [table.name for table in catalog.tables_of_instance if not catalog.db.has_table(table)]
    if missing:
        says = f"answers; no table {missing[0]} yet: the first table of the instance makes it"
        yield HealthCheck("DynamoDB", WARNING, says, (Action(_deploy_line(patient)),))
        return
    check_warehouse(catalog, patient.warehouse.below(patient.instance))
    yield HealthCheck("DynamoDB", OK, f"answers; instance {patient.instance} exists")


# The workers.


def _workers_unseen(patient: Patient) -> Iterator[HealthCheck]:
    from sleeper_nb.engines.spark.jvm import worker_python

    master = patient.spark_config.get("spark.master", "local[*]")
    says = f"on {master} they run {worker_python(patient.spark_config)}"
    yield HealthCheck("workers", NOT_CHECKED, says, (_ASK_CLUSTER,))


def _workers(patient: Patient) -> Iterator[HealthCheck]:
    from sleeper_nb.engines.spark.spark_workers import looking

    assert patient.engine is not None  # noqa: S101 - a caller that asks for the cluster gives one
    engine = patient.engine()
    try:
        found = engine.run(looking(patient.warehouse), "Looking at the workers")
    finally:
        if patient.stops:
            engine.stop()
    now = patient.clock.now().timestamp()
    hosts = {each.host for each in found}
    yield HealthCheck("workers", OK, f"{counted(len(hosts), 'machine')}: {', '.join(sorted(hosts)[:5])}")
    yield _of_pythons(found)
    yield _of_packages(found)
    apart = max((abs(each.seconds - now) for each in found), default=0.0)
    yield _compared("workers' clocks", timedelta(seconds=apart), "this machine's")
    problems = [each for each in found if each.problem]
    if problems:
        mend = "keep the warehouse at s3://…, and give the machines a role with the policy of a writer"
        yield HealthCheck("workers' files", FAILED, f"{problems[0].host}: {problems[0].problem}", (mend,))
    else:
        yield HealthCheck("workers' files", OK, f"they list {patient.warehouse.root}")


def _of_pythons(found: Sequence[WorkerHealth]) -> HealthCheck:
    own, others = f"{sys.version_info[0]}.{sys.version_info[1]}", sorted({each.python for each in found})
    if others == [own]:
        return HealthCheck("workers' Python", OK, own)
    mend = (
        f"set spark.pyspark.python to a Python {own} of the workers, under [spark] of sleeper.toml or in spark_config"
    )
    return HealthCheck("workers' Python", FAILED, f"{', '.join(others)}, and here {own}", (mend,))


def _of_packages(found: Sequence[WorkerHealth]) -> HealthCheck:
    missing = sorted({name for each in found for name in each.missing})
    if missing:
        names = " ".join("sleeper-nb" if name == "sleeper_nb" else name for name in missing)
        mend = f"in the Python of the workers: pip install {names}"
        return HealthCheck("workers' packages", FAILED, f"missing: {', '.join(missing)}", (mend,))
    versions = sorted({(name, version) for each in found for name, version in each.packages.items()})
    return HealthCheck("workers' packages", OK, ", ".join(f"{name} {version}".strip() for name, version in versions))
