"""A versioned, key-sorted table store in a notebook.

`ARCHITECTURE.md`, in the repository, draws the layers and follows four journeys through them. Each layer imports only
those below it. `import sleeper_nb` loads almost none of them: each is loaded by its first use.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import TYPE_CHECKING, Any

from sleeper_nb import logs

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from sleeper_nb.errors import (
        AccessDenied,
        AlreadyExists,
        Cancelled,
        CatalogDamaged,
        ConfirmationNeeded,
        ConflictError,
        DiskFull,
        EngineError,
        InvalidInput,
        NetworkError,
        NotAFile,
        NotAllowed,
        NotFound,
        NotInstalled,
        OutcomeUnknown,
        SessionClosed,
        SleeperError,
        StateRuleBroken,
        StillRunning,
        StorageError,
    )
    from sleeper_nb.model.savepoints import Savepoint
    from sleeper_nb.model.schema import Field, Schema
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.session import Session, connect, open_warehouse
    from sleeper_nb.session.diagnosis import doctor
    from sleeper_nb.session.warehouse import deploy
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt
    from sleeper_nb.versions.savepoint_manager import SavepointManager

__version__ = "0.1.0"
logs.start(os.environ)
_HOMES = {
    **dict.fromkeys(("connect", "open_warehouse", "Session"), "sleeper_nb.session"),
    "deploy": "sleeper_nb.session.warehouse",
    "doctor": "sleeper_nb.session.diagnosis",
    "Table": "sleeper_nb.table",
    "TableAt": "sleeper_nb.table_at",
    **dict.fromkeys(("Field", "Schema"), "sleeper_nb.model.schema"),
    "Savepoint": "sleeper_nb.model.savepoints",
    "Snapshot": "sleeper_nb.model.snapshots",
    "SavepointManager": "sleeper_nb.versions.savepoint_manager",
}
"""Where the public names are from; those that are not here are errors."""
__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "Cancelled",
    "CatalogDamaged",
    "ConfirmationNeeded",
    "ConflictError",
    "DiskFull",
    "EngineError",
    "Field",
    "InvalidInput",
    "NetworkError",
    "NotAFile",
    "NotAllowed",
    "NotFound",
    "NotInstalled",
    "OutcomeUnknown",
    "Savepoint",
    "SavepointManager",
    "Schema",
    "Session",
    "SessionClosed",
    "SleeperError",
    "Snapshot",
    "StateRuleBroken",
    "StillRunning",
    "StorageError",
    "Table",
    "TableAt",
    "connect",
    "deploy",
    "doctor",
    "open_warehouse",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module at its first use."""
    if name == "widgets":
        return importlib.import_module("sleeper_nb.widgets")
    if name not in __all__:
        raise AttributeError(f"module 'sleeper_nb' has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # what a module makes stays: collections during the import would be a tenth of the first answer
    try:
        return getattr(importlib.import_module(_HOMES.get(name, "sleeper_nb.errors")), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make ``%load_ext sleeper_nb`` the same as ``%load_ext magics``."""
    import magics  # the one import of a higher layer: users load the extension by this package's name

    magics.load_ipython_extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Undo `load_ipython_extension`."""
    import magics

    magics.unload_ipython_extension(shell)
