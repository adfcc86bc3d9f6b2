"""What the Python workers of a cluster get from this process: the package's own code, and where AWS is; never keys.

A machine of a cluster shares no folder with this process, and perhaps has another release of the package, or none. So
Spark hands a zip of the code to each of its Python workers, which import it before an installed release. The packages
that the code needs are compiled, and must be installed there.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import marshal
import os
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.gateway import delete_with_jvm
from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.model.checksums import checksum_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

PACKAGE: Final = "sleeper_nb"
AWS_SETTINGS: Final = (
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB",
)  # fmt: skip
"""The variables that say where AWS is. Those with keys, or the name of a profile, stay on this machine."""

_UNCHECKED: Final = (1).to_bytes(4, "little")
"""The flags of compiled code that Python takes without a look at its source."""


def equip_workers(spark: SparkSession, environ: Mapping[str, str] = os.environ) -> None:
    """Hand the code and the settings to the workers of a cluster; those of a local Spark have them already.

    A cluster that takes no code is used as it is: its workers may have the package installed.
    """
    context = spark.sparkContext
    if is_local(context.master):
        return
    for name in AWS_SETTINGS:
        if name in environ:
            context.environment[name] = environ[name]
    if any(Path(url).name.startswith(f"{PACKAGE}-") for url in context.listFiles):
        return  # another session of this package was here before
    content = code_as_zip(Path(__file__).parents[2])
    if content is None:
        return
    folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-code-"))
    path = folder / f"{PACKAGE}-{checksum_of(content)}.zip"
    path.write_bytes(content)
    try:
        context.addPyFile(str(path))
        for left in (folder, path):  # the JVM deletes what was named last first
            delete_with_jvm(spark, left)
    except Exception:
        logger.warning("Spark did not take the package's code; its workers must have it installed", exc_info=True)
    else:
        logger.info("handed %d bytes of code to the workers of %s", len(content), context.master)


def code_as_zip(package: Path) -> bytes | None:
    """Return the modules of a package as a zip; None where its code is not in a folder.

    Each module is there as source and compiled: a worker would otherwise compile what it imports, in each process.
    """
    if not package.is_dir():
        logger.warning("the code of %s is not in a folder; workers of the cluster must have it installed", package.name)
        return None
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package.parent).as_posix()
            source = path.read_bytes()
            # without a time, so that the same code is the same zip
            packed.writestr(zipfile.ZipInfo(name), source, zipfile.ZIP_DEFLATED)
            packed.writestr(zipfile.ZipInfo(f"{name}c"), _compiled(path, name, source), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def _compiled(path: Path, name: str, source: bytes) -> bytes:
    """Return the content of a compiled module; what Python has compiled already is not compiled again."""
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    code = SourceFileLoader(module, str(path)).get_code(module)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)
