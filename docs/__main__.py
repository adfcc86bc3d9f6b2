"""Builds the site: ``python -m docs`` writes it to ``docs/_build/site``, and fails at a warning or a lost link."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from docs.checks import problems

FOLDER = Path(__file__).parent / "_build"
"""What a build replaces: the pages that are made first, what Sphinx keeps of them, and the site."""


def main(argv: list[str] | None = None) -> int:
    """Make the pages, build the site strictly, check it, and print where it is; return the exit code."""
    argparse.ArgumentParser(prog="python -m docs", description=__doc__).parse_args(argv)
    try:
        failure = _built()
    except ModuleNotFoundError as missing:
        package = f"{missing.name}".partition(".")[0]
        failure = f'the site needs {package}, which is not installed\nhint: pip install -e ".[docs]"'
    print(failure or f"The site is built: open {FOLDER / 'site' / 'index.html'}", file=sys.stderr if failure else None)
    return int(bool(failure))


def _built() -> str:
    """Build the site; return what went wrong, or nothing."""
    from sphinx.cmd.build import build_main

    from docs.pages import LostLinkError, built

    pages, site = FOLDER / "pages", FOLDER / "site"
    try:
        built().write(pages)
    except LostLinkError as lost:
        return str(lost)
    shutil.rmtree(site, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-E", "-c", f"{Path(__file__).parent}", "-d", f"{FOLDER / 'cache'}"]
    if build_main([*options, f"{pages}", f"{site}"]) != 0:
        return "the site was not built: see the warnings of Sphinx above"
    return "\n".join(problems(site))


if __name__ == "__main__":
    sys.exit(main())
