#!/usr/bin/env python3
"""Counts the instructions of a DATA chunk and of a set-up under callgrind, and fails above a limit.

    scripts/instructions.py            needs valgrind; builds the benchmark `count` of carrick-proto

Each case runs with N and with 2 N messages or set-ups; the difference leaves out what happens once. The
limits are the counts of the last change that docs/performance.md records, and 2 % for another compiler.
"""

import json
import re
import subprocess
import sys

# Arguments of the benchmark before the count, the count, and the limit per chunk or set-up.
CASES = [
    (["default", "65536"], 400, 7_680),
    (["modern", "65536"], 400, 8_080),
    (["default", "100"], 20_000, 3_713),
    (["setup"], 500, 62_100),
]


def program():
    build = ["cargo", "bench", "-p", "carrick-proto", "--bench", "count", "--no-run", "--locked", "--message-format=json"]
    lines = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = (json.loads(line) for line in lines if line.startswith("{"))
    return [message["executable"] for message in built if message.get("executable")][-1]


def run(binary, arguments, count):
    """Returns the instructions of a run, and the chunks or set-ups that it reports."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, *arguments, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    instructions = re.search(r"Collected : (\d+)", done.stderr)
    return int(instructions[1]), int(done.stdout.split()[0])


def main():
    binary = program()
    failed = 0
    for arguments, count, limit in CASES:
        (once, few), (twice, many) = run(binary, arguments, count), run(binary, arguments, 2 * count)
        each = (twice - once) / (many - few)
        failed += each > limit
        verdict = "more than" if each > limit else "at most"
        print(f"measured: {' '.join(arguments)}: {each:.0f} instructions each, {verdict} {limit}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
