"""Find the address of an instance: from a command's options, the environment, or the nearest ``sleeper.toml``.

::

    warehouse = "./warehouse"            # a folder, from the file's own one; or s3://bucket/prefix
    region = "eu-west-2"                 # of S3 and DynamoDB; may be left out, as may
    profile = "prod"                     # the AWS profile that has the keys
    endpoint-url = "http://host:9000"    # the server

    iterators = ["package.module:function"]    # code that its tables' properties may name
    data-paths = ["/big/disk"]           # where its tables may have files, outside the warehouse

    [spark]                              # settings of its Spark session:
    master = "spark://host:7077"         # spark.master
    executor.memory = "8g"               # spark.executor.memory

    [instances.prod]                     # the same keys, for one instance; its Spark settings take precedence
    warehouse = "s3://bucket/prefix"

The file belongs to the user. One inside a warehouse is refused, since it could come with the warehouse and name code
and addresses. A file of another user, iterators, a cluster, and settings of Spark that may be harmful need the user's
trust: see `sleeper_nb.commands.trust`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands import trust
from sleeper_nb.errors import InvalidInput
from sleeper_nb.instance_folder import InstanceFolder, instances_in
from sleeper_nb.model import config_text as toml_text

if TYPE_CHECKING:
    from sleeper_nb.progress import Progress
    from sleeper_nb.session import Session

FILE = "sleeper.toml"
VARIABLE = "SLEEPER_WAREHOUSE"
DEFAULT = "./warehouse"
_AWS = ("region", "endpoint-url", "profile")
_TEXTS = ("warehouse", *_AWS)
_SPARK = "spark"
_ITERATORS, _DATA_PATHS = "iterators", "data-paths"
_LISTS = (_ITERATORS, _DATA_PATHS)
_KEYS = (*_TEXTS, *_LISTS, _SPARK)


@dataclass(frozen=True, slots=True)
class Home:
    """The address of a warehouse, and its settings.

    Parameters
    ----------
    warehouse
        Its address.
    aws
        The region, endpoint_url and profile of its S3 and DynamoDB, as far as they are given.
    spark
        Settings of the Spark session that is started for it.
    iterators, data_paths
        What the properties of its tables may name.
    is_named
        Whether the address was given; otherwise it is the default one.
    """

    warehouse: str
    aws: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    iterators: tuple[str, ...] = ()
    data_paths: tuple[str, ...] = ()
    is_named: bool = field(default=True, compare=False)

    @property
    def folder(self) -> Path | None:
        """The folder of a warehouse of this machine; None when it is elsewhere."""
        if "://" in self.warehouse and not self.warehouse.startswith("file://"):
            return None
        return Path(self.warehouse.removeprefix("file://")).expanduser()

    def for_address(self, uri: str) -> Home:
        """Return the settings for an address: these ones, when the address is this warehouse or inside it."""
        here, there = self.folder, Home(uri).folder
        if here is not None and there is not None:
            inside = there.absolute().is_relative_to(here.absolute())
        else:
            inside = f"{uri}/".startswith(f"{self.warehouse.rstrip('/')}/")
        return replace(self, warehouse=uri, is_named=True) if inside else Home(uri)

    def with_aws(self, aws: Mapping[str, Any]) -> Home:
        """Return the settings with the region, server or profile that are given."""
        return replace(self, aws={**self.aws, **aws})

    def connect(self, instance: str, progress: Progress, *data_paths: str, new: bool = False) -> Session:
        """Open an instance there, with these settings; tables may also have files in `data_paths`.

        `new` is as that of `sleeper_nb.connect`.
        """
        from sleeper_nb.session import connect

        return connect(
            self.warehouse,
            instance,
            **self.aws,
            spark_config=self.spark,
            iterators=self.iterators,
            data_paths=(*self.data_paths, *data_paths),
            new=new,
            progress=progress,
        )


def find_home(instance: str, given: str | None, environment: Mapping[str, str], folder: Path) -> Home:
    """Return where an instance lives.

    Parameters
    ----------
    instance
        Its name.
    given
        What ``--warehouse`` says.
    environment
        ``SLEEPER_WAREHOUSE`` counts where nothing is given, then the file, then ``./warehouse``.
    folder
        The file is looked for here and in the folders above.

    Raises
    ------
    InvalidInput
        When the file cannot be read, naming it and the line; or lies in a warehouse.
    NotAllowed
        When another user may have written the file, or it may name code; and the user does not trust it.
    """
    address = given or environment.get(VARIABLE)
    path = next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)
    if path is None:
        return Home(address or DEFAULT, is_named=bool(address))
    home = _home_in(path, instance, environment)
    return home.for_address(address) if address else home


def is_warehouse(folder: Path) -> bool:
    return bool(instances_in(folder))


def _check_is_the_users(path: Path) -> None:
    folder = path.parent
    in_instance = any(InstanceFolder(each).is_instance for each in (folder, *folder.parents))
    if in_instance or is_warehouse(folder):
        raise InvalidInput(
            f"{path} is inside a warehouse, where settings are not allowed",
            hint="move it to a folder of your own, and work there",
        )


def _home_in(path: Path, instance: str, environment: Mapping[str, str]) -> Home:
    _check_is_the_users(path)
    hint = 'write warehouse = "./warehouse"'
    text = trust.read_settings(path, environment, hint)
    common = toml_text.load(text, str(path), hint)
    instances = common.pop("instances", {})
    own = instances.get(instance, {}) if isinstance(instances, dict) else instances
    spark: dict[str, str] = {}
    others: list[str] = []
    for part, name in ((common, ""), (own, f"instances.{instance}")):
        _check(part, name, path, text)
        of_spark = dict(_settings_of_spark(part.get(_SPARK, {}), _SPARK))
        others += [_ITERATORS] * bool(part.get(_ITERATORS))
        others += [setting for setting, value in of_spark.items() if not trust.is_harmless(setting, value)]
        spark.update(of_spark)
    trust.check_harmless(path, others, environment)
    settings = {**common, **own}
    warehouse = settings.get("warehouse", DEFAULT)
    if "://" not in warehouse:
        warehouse = str(path.parent / Path(warehouse).expanduser())
    iterators, places = ((*common.get(key, ()), *own.get(key, ())) for key in _LISTS)
    data_paths = tuple(each if "://" in each else str(path.parent / Path(each).expanduser()) for each in places)
    aws = {key.replace("-", "_"): settings[key] for key in _AWS if key in settings}
    return Home(warehouse, aws, spark, iterators, data_paths, is_named="warehouse" in settings)


def _check(part: Any, name: str, path: Path, text: str) -> None:
    if not isinstance(part, dict):
        raise InvalidInput(
            f"{name or 'instances'} of {path} is not a table", hint="write [instances.NAME] above its lines"
        )
    toml_text.check_keys(part, _KEYS, (text, str(path), name))
    for key, value in part.items():
        where = toml_text.where(text, str(path), key, name)
        if key == _SPARK and not isinstance(value, dict):
            raise InvalidInput(
                f"{where}: {key} is not a table", hint='write spark.master = "…", or [spark] above master'
            )
        if key in _LISTS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise InvalidInput(f"{where}: {key} is not a list of texts", hint=f'write {key} = ["…"]')
        if key in _TEXTS and not isinstance(value, str):
            raise InvalidInput(f"{where}: {key} is not a text", hint=f'write {key} = "…"')


def _settings_of_spark(part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each setting by its whole name, ``spark.executor.memory``, with its value as Spark writes it."""
    for key, value in part.items():
        name = key if key.startswith(f"{_SPARK}.") else f"{prefix}.{key}"
        if isinstance(value, dict):
            yield from _settings_of_spark(value, name)
        else:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
