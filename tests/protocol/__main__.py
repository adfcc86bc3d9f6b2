"""Explore the scenes, or show what happens without a rule: `python -m tests.protocol`."""

from __future__ import annotations

import argparse
import sys

from tests.protocol.scenes import CAUGHT_BY, scenes
from tests.protocol.world import RULES


def main() -> int:
    """Explore what the arguments name; return whether a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="explore only scenes whose names have this in them")
    parser.add_argument(
        "--without", choices=sorted(RULES), metavar="RULE", help="show the trace that the rule prevents"
    )
    arguments = parser.parse_args()
    if arguments.without:
        scene = CAUGHT_BY[arguments.without]
        print(f"{scene}\n{scene.explored(RULES - {arguments.without}).found}")
        return 0
    total = broken = 0
    for scene in scenes():
        if arguments.part in str(scene):
            explored = scene.explored()
            total += explored.states
            broken += explored.found is not None
            print(f"{explored.states:>9,} states {explored.steps:>9,} steps  {scene}", flush=True)
            if explored.found is not None:
                print(explored.found)
    print(f"{total:>9,} states")
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
