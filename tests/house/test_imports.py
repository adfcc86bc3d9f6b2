"""What is loaded when: nothing heavy before its first use."""

from __future__ import annotations

import subprocess
import sys

import sleeper_nb as sl

HEAVY = {
    "altair", "boto3", "datafusion", "duckdb", "ipywidgets", "numpy", "pandas", "polars", "pyarrow", "pyspark",
    "sqlglot", "vl_convert",
}  # fmt: skip


def loaded(source):
    """The modules of a new process after some lines."""
    script = f"{source}\nimport sys; print(*sorted(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded("import sleeper_nb") & {*HEAVY, "IPython", "traitlets"}


def test_the_console_loads_nothing_heavy_for_its_help():
    assert not loaded("from sleeper_nb.cli import main; main(['help'])") & {*HEAVY, "IPython", "traitlets"}


def test_tab_in_a_shell_loads_nothing_heavy(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        session.create_table("trips", sl.Schema({"city": "string"}, {}, {"fare": "double"}))
    words = ["--complete", "fish", f"sleeper --warehouse {tmp_path / 'w'} scan trips --where 'fa"]
    modules = loaded(f"from sleeper_nb.cli import main; main({words})")
    assert "fare" in modules  # it was offered
    assert not modules & {*HEAVY, "IPython", "traitlets"}


def test_loading_the_extension_loads_nothing_heavy(tmp_path):
    lines = (
        f"import os; os.environ['IPYTHONDIR'] = {str(tmp_path)!r}",
        "from IPython.core.interactiveshell import InteractiveShell",
        "from traitlets.config import Config",
        "shell = InteractiveShell.instance(config=Config(HistoryManager={'enabled': False}))",
        "shell.run_line_magic('load_ext', 'sleeper_nb')",
        "shell.run_cell('x = %sleeper help').raise_error()",
    )
    assert not loaded("\n".join(lines)) & HEAVY


def test_the_first_answer_of_sql_loads_only_what_reads(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"n": "int"}), split_points=[3])
        table.ingest([{"k": k, "n": k} for k in range(10)])
    lines = (
        "import sleeper_nb as sl",
        f"session = sl.connect({str(tmp_path / 'w')!r})",
        "assert session.sql('SELECT sum(n) AS n FROM t WHERE k < 5').to_dict() == {'n': [10]}",
    )
    modules = loaded("\n".join(lines))
    assert not modules & {"boto3", "pandas", "polars", "pyarrow.dataset", "pyspark", "altair", "datafusion", "IPython"}
    ours = {name.removeprefix("sleeper_nb.") for name in modules if name.startswith("sleeper_nb.")}
    of_changes = {name for name in ours if name.partition(".")[0] in {"edit", "changes", "load", "maintain", "table"}}
    assert of_changes <= {"load", "load.load_options", "maintain", "maintain.system_tables"}
    elsewhere = ("catalog.dynamodb", "state_store.dynamodb", "widgets", "commands", "session.sql_writes", "sql.writes")
    assert not {name for name in ours if name.startswith(elsewhere)}


def test_the_first_rows_of_the_grid_do_not_wait_for_pandas(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"at": "timestamp?"}), split_points=[3])
        table.ingest([{"k": 1, "at": "2026-01-31 10:00:00"}, {"k": 5, "at": None}])
    lines = (
        "import sleeper_nb as sl",
        "from sleeper_nb.widgets import explore",
        f"session = sl.connect({str(tmp_path / 'w')!r})",
        "assert '2026-01-31 10:00:00 UTC' in str(explore(session, 't').start)",
    )
    assert not loaded("\n".join(lines)) & {"pandas", "polars", "pyspark", "altair"}
