"""Where an instance lives: what a command was told, the environment, or the nearest ``sleeper.toml``.

::

    warehouse = "./warehouse"            # a folder, from the file's own one; or s3://bucket/prefix
    region = "eu-west-2"                 # of S3 and DynamoDB; may be left out, as may
    endpoint-url = "http://host:9000"    # the server

    iterators = ["package.module:function"]    # what properties of its tables may run
    data-paths = ["/big/disk"]           # where its tables may have files, outside the warehouse

    [spark]                              # settings of the Spark session that is started for it:
    master = "spark://host:7077"         # spark.master
    executor.memory = "8g"               # spark.executor.memory

    [instances.prod]                     # the same words, for one instance; its settings of Spark go before the others
    warehouse = "s3://bucket/prefix"

The file is the user's: one that lies in a warehouse is refused, as it could come with it and name code and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model import config_text as toml_text
from sleeper_nb.storage.paths import CATALOG

if TYPE_CHECKING:
    from sleeper_nb.progress import Progress
    from sleeper_nb.session import Session

FILE = "sleeper.toml"
VARIABLE = "SLEEPER_WAREHOUSE"
DEFAULT = "./warehouse"
_TEXTS = ("warehouse", "region", "endpoint-url")
_SPARK = "spark"
_ITERATORS, _DATA_PATHS = "iterators", "data-paths"
_LISTS = (_ITERATORS, _DATA_PATHS)
_KEYS = (*_TEXTS, *_LISTS, _SPARK)


@dataclass(frozen=True, slots=True)
class Home:
    """The address of a warehouse, and what is said of it.

    Parameters
    ----------
    warehouse
        Its address.
    region, endpoint_url
        Of its S3 and DynamoDB.
    spark
        Settings of the Spark session that is started for it.
    iterators, data_paths
        What the properties of its tables may name.
    """

    warehouse: str
    region: str | None = None
    endpoint_url: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    iterators: tuple[str, ...] = ()
    data_paths: tuple[str, ...] = ()

    @property
    def folder(self) -> Path | None:
        """The folder of a warehouse of this machine; None when it is elsewhere."""
        if "://" in self.warehouse and not self.warehouse.startswith("file://"):
            return None
        return Path(self.warehouse.removeprefix("file://")).expanduser()

    def toward(self, uri: str) -> Home:
        """Return what is known of an address: all that is said of this one, where that is this one or below it."""
        here, there = self.folder, Home(uri).folder
        if here is not None and there is not None:
            inside = there.absolute().is_relative_to(here.absolute())
        else:
            inside = f"{uri}/".startswith(f"{self.warehouse.rstrip('/')}/")
        return replace(self, warehouse=uri) if inside else Home(uri)

    def connect(self, instance: str, progress: Progress) -> Session:
        """Open an instance there, with all that is said."""
        from sleeper_nb.session import connect

        return connect(
            self.warehouse,
            instance,
            region=self.region,
            endpoint_url=self.endpoint_url,
            spark_config=self.spark,
            iterators=self.iterators,
            data_paths=self.data_paths,
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
    """
    asked = given or environment.get(VARIABLE)
    path = next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)
    if path is None:
        return Home(asked or DEFAULT)
    home = _home_in(path, instance)
    return home.toward(asked) if asked else home


def _check_is_the_users(path: Path) -> None:
    folder = path.parent
    in_instance = any((each / CATALOG).is_file() for each in (folder, *folder.parents))
    if in_instance or any(folder.glob(f"*/{CATALOG}")):
        raise InvalidInput(
            f"{path} lies in a warehouse, and settings of a warehouse are not followed",
            hint="move it to a folder of your own, and work there",
        )


def _home_in(path: Path, instance: str) -> Home:
    _check_is_the_users(path)
    hint = 'write warehouse = "./warehouse"'
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}", hint=hint) from error
    said = toml_text.load(text, str(path), hint)
    instances = said.pop("instances", {})
    own = instances.get(instance, {}) if isinstance(instances, dict) else instances
    spark: dict[str, str] = {}
    for part, name in ((said, ""), (own, f"instances.{instance}")):
        _check(part, name, path, text)
        spark.update(_settings_of_spark(part.get(_SPARK, {}), _SPARK))
    found = {**said, **own}
    warehouse = found.get("warehouse", DEFAULT)
    if "://" not in warehouse:
        warehouse = str(path.parent / Path(warehouse).expanduser())
    iterators, places = ((*said.get(key, ()), *own.get(key, ())) for key in _LISTS)
    data_paths = tuple(each if "://" in each else str(path.parent / Path(each).expanduser()) for each in places)
    return Home(warehouse, found.get("region"), found.get("endpoint-url"), spark, iterators, data_paths)


def _check(part: Any, name: str, path: Path, text: str) -> None:
    if not isinstance(part, dict):
        raise InvalidInput(
            f"{name or 'instances'} of {path} is no table", hint="write [instances.NAME] above its lines"
        )
    toml_text.check_keys(part, _KEYS, (text, str(path), name))
    for key, value in part.items():
        where = toml_text.where(text, str(path), key, name)
        if key == _SPARK and not isinstance(value, dict):
            raise InvalidInput(f"{where}: {key} is no table", hint='write spark.master = "…", or [spark] above master')
        if key in _LISTS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise InvalidInput(f"{where}: {key} is not a list of texts", hint=f'write {key} = ["…"]')
        if key in _TEXTS and not isinstance(value, str):
            raise InvalidInput(f"{where}: {key} is no text", hint=f'write {key} = "…"')


def _settings_of_spark(part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each setting by its whole name, ``spark.executor.memory``, with its value as Spark writes it."""
    for key, value in part.items():
        name = key if key.startswith(f"{_SPARK}.") else f"{prefix}.{key}"
        if isinstance(value, dict):
            yield from _settings_of_spark(value, name)
        else:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
