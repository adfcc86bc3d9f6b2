"""How long a user waits before the first command: ``import sleeper_nb``, and ``%load_ext`` in addition to IPython.

``python -m benchmarks.import_time [--rounds 9]``; each round is a new process, and medians are printed. The
floors are an empty Python and IPython's own shell.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

HEAVY = ("pyspark", "pandas", "duckdb", "boto3", "pyarrow", "numpy")
SHELL = "from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell.instance()"
MEASURED = {
    "import json (floor)": ("", "import json"),
    "import sleeper_nb": ("", "import sleeper_nb"),
    "import sleeper_nb, then sl.connect": ("", "import sleeper_nb as sl; sl.connect"),
    "%load_ext sleeper_nb": (SHELL, "shell.run_line_magic('load_ext', 'sleeper_nb')"),
}


def seconds(before: str, measured: str) -> tuple[float, str]:
    code = (
        f"import sys, time\n{before}\nbegan = time.perf_counter()\n{measured}\n"
        f"print(time.perf_counter() - began, *[m for m in {HEAVY} if m in sys.modules], sep=',')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    took, *loaded = done.stdout.strip().splitlines()[-1].split(",")
    return float(took), ", ".join(loaded)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=9)
    rounds = options.parse_args().rounds
    for name, (before, measured) in MEASURED.items():
        results = [seconds(before, measured) for _ in range(rounds)]
        print(f"{name:<36} {statistics.median(took for took, _ in results):.3f} s   loads: {results[0][1] or 'none'}")


if __name__ == "__main__":
    main()
