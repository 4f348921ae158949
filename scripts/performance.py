#!/usr/bin/env python3
"""Replaces the results of `carrick bench` in docs/performance.md by those on standard input.

    target/release/carrick bench | scripts/performance.py ["NOTE"]

NOTE, such as the other work of the machine at the time, is added as a paragraph.
"""

import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/performance.md"
BEGIN, END = "<!-- carrick bench -->", "<!-- end of carrick bench -->"


def main():
    results = sys.stdin.read().strip()
    if not results.startswith("Carrick ") or "### " not in results:
        sys.exit("performance: standard input is not the output of carrick bench: did it fail?")
    note = "".join(f"{note}\n\n" for note in sys.argv[1:])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"performance: {PAGE} has no lines {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{note}{results}\n\n{END}{after}")


if __name__ == "__main__":
    main()
