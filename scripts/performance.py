#!/usr/bin/env python3
"""Replaces the results of a measurement in docs/performance.md by those on standard input.

    target/dist/carrick bench | scripts/performance.py ["NOTE"]
    target/dist/carrick bench --curves | scripts/performance.py ["NOTE"]
    scripts/instructions.py --curves | scripts/performance.py

NOTE, such as the other work of the machine at the time, is added as a paragraph.
"""

import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/performance.md"


def command(results):
    """Returns the command that has this output, by which its place in the page is marked."""
    if results.startswith("Instructions ") and "| paths" in results:
        return "scripts/instructions.py --curves"
    if not results.startswith("Carrick ") or "### " not in results:
        sys.exit("performance: standard input is not the output of carrick bench: did it fail?")
    return "carrick bench --curves" if "### size\n" in results else "carrick bench"


def main():
    results = sys.stdin.read().strip()
    name = command(results)
    begin, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    note = "".join(f"{note}\n\n" for note in sys.argv[1:])
    before, _, rest = PAGE.read_text().partition(begin)
    _, end, after = rest.partition(last)
    if not end:
        sys.exit(f"performance: {PAGE} has no lines {begin} and {last}")
    PAGE.write_text(f"{before}{begin}\n\n{note}{results}\n\n{last}{after}")


if __name__ == "__main__":
    main()
