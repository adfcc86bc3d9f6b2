"""Imports what Spark's Python processes need in the one that forks them: each would do so again, for most of a second.

A process ends with each task that fails, and many tests are about tasks that fail. The session of the tests
(``tests/conftest.py``) puts this folder on the path of those processes, where Python looks for a module of this name.
"""

import importlib

for name in (
    "pandas",
    "pyarrow.parquet",
    "sleeper_nb.session",
    *map("sleeper_nb.engines.spark.{}".format, ("append", "bulk_tasks", "source", "stream")),
):
    importlib.import_module(name)
