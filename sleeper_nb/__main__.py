"""``python -m sleeper_nb``: the console command, where its script is not on the path."""

from __future__ import annotations

import sys

from sleeper_nb.cli import main

if __name__ == "__main__":
    sys.exit(main())
