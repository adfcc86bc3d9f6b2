"""The types of what public calls take and return: for annotations, and to tell one answer from another.

Each is imported on first use: `import sleeper_nb.public_types` loads none of the modules that they are from.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sleeper_nb.admin.alter import AlterReport
    from sleeper_nb.admin.create_plan import CreatePlan, SplitPointsEstimate
    from sleeper_nb.admin.delete import DeletionReport
    from sleeper_nb.admin.deploy import DeployReport
    from sleeper_nb.admin.instances import InstanceSummary
    from sleeper_nb.admin.reinitialise import ReinitialiseReport
    from sleeper_nb.edit.purge import PurgeReport
    from sleeper_nb.edit.row_editor import ChangeReport
    from sleeper_nb.load.load_options import LoadArguments
    from sleeper_nb.load.load_report import AddFilesPlan, IngestPlan, LoadReport
    from sleeper_nb.load.split import SplitReport
    from sleeper_nb.maintain.collect_garbage import GarbageReport
    from sleeper_nb.maintain.compact import CompactionReport
    from sleeper_nb.maintain.findings import CheckReport
    from sleeper_nb.maintain.maintain import MaintenanceReport
    from sleeper_nb.maintain.status import InstanceStatus, TableStatus
    from sleeper_nb.maintain.sweep_orphans import OrphanReport
    from sleeper_nb.model.property_guide import PropertyValue
    from sleeper_nb.publish.publish import PublishReport
    from sleeper_nb.publish.published import UnpublishReport
    from sleeper_nb.query import ENGINES, EngineChoice, EngineName, QueryResult
    from sleeper_nb.query.cost import QueryCost
    from sleeper_nb.read.column_profile import ColumnProfile
    from sleeper_nb.read.export import ExportReport
    from sleeper_nb.read.job_tracking import Which
    from sleeper_nb.session.apply import ApplyReport
    from sleeper_nb.versions.delete_savepoint import SavepointDeletion
    from sleeper_nb.versions.diff import Diff, FileDiff
    from sleeper_nb.versions.expire import ExpiryReport
    from sleeper_nb.versions.roll_back import RollbackReport
    from sleeper_nb.versions.row_images import FirstImages, ImageSummary

_HOMES = {
    "admin.alter": "AlterReport",
    "admin.create_plan": "CreatePlan SplitPointsEstimate",
    "admin.delete": "DeletionReport",
    "admin.deploy": "DeployReport",
    "admin.instances": "InstanceSummary",
    "admin.reinitialise": "ReinitialiseReport",
    "edit.row_editor": "ChangeReport",
    "edit.purge": "PurgeReport",
    "load.load_options": "LoadArguments",
    "load.load_report": "AddFilesPlan IngestPlan LoadReport",
    "load.split": "SplitReport",
    "maintain.collect_garbage": "GarbageReport",
    "maintain.compact": "CompactionReport",
    "maintain.findings": "CheckReport",
    "maintain.maintain": "MaintenanceReport",
    "maintain.status": "InstanceStatus TableStatus",
    "maintain.sweep_orphans": "OrphanReport",
    "model.property_guide": "PropertyValue",
    "publish.publish": "PublishReport",
    "publish.published": "UnpublishReport",
    "query": "ENGINES EngineChoice EngineName QueryResult",
    "query.cost": "QueryCost",
    "read.column_profile": "ColumnProfile",
    "read.export": "ExportReport",
    "read.job_tracking": "Which",
    "session.apply": "ApplyReport",
    "versions.delete_savepoint": "SavepointDeletion",
    "versions.diff": "Diff FileDiff",
    "versions.expire": "ExpiryReport",
    "versions.roll_back": "RollbackReport",
    "versions.row_images": "FirstImages ImageSummary",
}
"""The names of each module."""
__all__ = [name for names in _HOMES.values() for name in names.split()]


def __getattr__(name: str) -> Any:
    """Import a type from its module at its first use."""
    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'sleeper_nb.public_types' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sleeper_nb.{home}"), name)


def __dir__() -> list[str]:
    return __all__
