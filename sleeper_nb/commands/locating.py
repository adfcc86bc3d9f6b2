"""Where an instance lives: what a command was told, the environment, or the nearest ``sleeper.toml``.

::

    warehouse = "./warehouse"            # a folder, from the file's own one; or s3://bucket/prefix
    region = "eu-west-2"                 # of S3 and DynamoDB; may be left out, as may
    endpoint-url = "http://host:9000"    # the server

    [instances.prod]                     # the same words, for one instance
    warehouse = "s3://bucket/prefix"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model import toml_text

FILE = "sleeper.toml"
VARIABLE = "SLEEPER_WAREHOUSE"
DEFAULT = "./warehouse"
_KEYS = ("warehouse", "region", "endpoint-url")


@dataclass(frozen=True, slots=True)
class Home:
    """The address of a warehouse, and the region and server of its S3 and DynamoDB where they are said."""

    warehouse: str
    region: str | None = None
    endpoint_url: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of a warehouse of this machine; None when it is elsewhere."""
        if "://" in self.warehouse and not self.warehouse.startswith("file://"):
            return None
        return Path(self.warehouse.removeprefix("file://")).expanduser()

    def toward(self, uri: str) -> Home:
        """Return what is known of an address: the region and server of this one where that is in this warehouse."""
        return self if uri.startswith(self.warehouse.rstrip("/")) else Home(uri)


def near(uri: str, home: Callable[[], Home]) -> Home:
    """Return an address with the region and server that a home says of it; a folder has none, and none is asked for."""
    return home().toward(uri) if "://" in uri else Home(uri)


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
        When the file cannot be read, naming it and the line.
    """
    asked = given or environment.get(VARIABLE)
    if asked:
        return Home(asked)
    path = next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)
    return Home(DEFAULT) if path is None else _home_in(path, instance)


def _home_in(path: Path, instance: str) -> Home:
    hint = 'write warehouse = "./warehouse"'
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}", hint=hint) from error
    said = toml_text.load(text, str(path), hint)
    instances = said.pop("instances", {})
    own = instances.get(instance, {}) if isinstance(instances, dict) else instances
    for part, name in ((said, ""), (own, f"instances.{instance}")):
        _check(part, name, path, text)
    found = {**said, **own}
    warehouse = found.get("warehouse", DEFAULT)
    if "://" not in warehouse:
        warehouse = str(path.parent / Path(warehouse).expanduser())
    return Home(warehouse, found.get("region"), found.get("endpoint-url"))


def _check(part: Any, name: str, path: Path, text: str) -> None:
    if not isinstance(part, dict):
        raise InvalidInput(
            f"{name or 'instances'} of {path} is no table", hint="write [instances.NAME] above its lines"
        )
    toml_text.check_keys(part, _KEYS, (text, str(path), name))
    for key, value in part.items():
        if not isinstance(value, str):
            raise InvalidInput(
                f"{toml_text.where(text, str(path), key, name)}: {key} is no text", hint=f'write {key} = "…"'
            )
