"""Imports what Spark's Python workers need in the process that forks them: each would do so again, for nearly a second.

A worker ends with each task that fails, and many tests are about tasks that fail. The session of the tests
(``tests/conftest.py``) puts this folder on the path of those processes, where Python looks for a module of this name.
"""

import importlib
import sys

if "pyspark.daemon" in sys.orig_argv:
    for name in ("pandas", "pyarrow.parquet", "sleeper_nb.session", "sleeper_nb.engines.spark.append"):
        importlib.import_module(name)
