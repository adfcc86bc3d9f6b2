"""Builds the site: ``python -m docs`` writes it to ``docs/_build/site``, and fails at a warning or a lost link."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.checks import problems
from docs.pages import ROOT, LostLinkError, built


def main(argv: list[str] | None = None) -> int:
    """Make the pages, build the site strictly, check it, and print where it is; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Build the site of documentation.")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "_build", help="its folder (docs/_build)")
    folder = parser.parse_args(argv).to.resolve()
    pages, site = folder / "pages", folder / "site"
    try:
        built().write(pages)
    except LostLinkError as lost:
        print(lost, file=sys.stderr)
        return 1
    shutil.rmtree(site, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-E", "-c", f"{ROOT / 'docs'}", "-d", f"{folder / 'cache'}"]
    if build_main([*options, f"{pages}", f"{site}"]) != 0:
        return 1
    if found := problems(site):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    print(f"The site is built: open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
