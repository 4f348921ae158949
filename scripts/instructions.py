#!/usr/bin/env python3
"""Counts the instructions of a DATA chunk and of a set-up under callgrind, and fails above a limit.

    scripts/instructions.py            needs valgrind; builds the benchmark `count` of carrick-proto
    scripts/instructions.py --curves | scripts/performance.py
                                       the instructions of a DATA chunk over one parameter at a time, as tables

Each case runs with N and with 2 N messages or set-ups; the difference leaves out what happens once. The
limits are the counts of the last change that docs/performance.md records, and 2 % for another compiler.
"""

import json
import os
import re
import subprocess
import sys

# Arguments of the benchmark before the count, the count, and the limit per chunk or set-up.
CASES = [
    (["default", "65536"], 400, 6_260),
    # An observer without events of chunks: below 1 % more.
    (["observed", "65536"], 400, 6_300),
    (["modern", "65536"], 400, 6_575),
    (["default", "100"], 20_000, 3_700),
    (["setup"], 500, 58_950),
]

# Points of the curves of benches/support/curves.rs, and the least number of messages.
CURVES = {
    "size": ("bytes of a message", [16, 100, 1024, 1400, 4096, 16384, 65536, 262144, 1048576], 4),
    "streams": ("streams with messages of 100 bytes in turn", [1, 10, 100, 1000, 10000, 65535], 8000),
    "associations": ("associations of a server, each with a message of 100 bytes a second", [1, 10, 100, 1000, 10000], 4000),
    "window": ("bytes of both buffers", [16384, 65536, 262144, 1048576, 4194304, 16777216], 12000),
    "loss": ("lost packets of 10,000", [0, 1, 10, 100, 300, 1000], 12000),
    "reordering": ("packets of 1,000 that arrive behind the three after them", [0, 1, 10, 100], 12000),
    "paths": ("paths, the first with data", [1, 2, 4, 8], 6000),
}
# Bytes that all messages of a point have at least.
CURVE_BYTES = 4 << 20

# Long copies of the C library by vector instructions: valgrind counts each byte of `rep movsb`.
ENVIRONMENT = os.environ | {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=2147483647"}


def program():
    build = ["cargo", "bench", "-p", "carrick-proto", "--bench", "count", "--no-run", "--locked", "--message-format=json"]
    lines = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = (json.loads(line) for line in lines if line.startswith("{"))
    return [message["executable"] for message in built if message.get("executable")][-1]


def run(binary, arguments, count):
    """Returns the instructions of a run, and the chunks or set-ups that it reports."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, *arguments, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    instructions = re.search(r"Collected : (\d+)", done.stderr)
    return int(instructions[1]), int(done.stdout.split()[0])


def cost(binary, arguments, count):
    """Returns the instructions of a chunk or set-up."""
    (once, few), (twice, many) = run(binary, arguments, count), run(binary, arguments, 2 * count)
    return (twice - once) / (many - few)


def curves(binary):
    """Prints the curves as Markdown tables."""
    print("Instructions of a DATA chunk at both ends, and their ratio to the first point.")
    for name, (about, values, least) in CURVES.items():
        costs = []
        for value in values:
            count = max(least, value) if name in ("streams", "associations") else least
            if name == "size":
                count = max(count, CURVE_BYTES // max(value, 400))
            print(f"{name}: {value}", file=sys.stderr, flush=True)
            costs.append(cost(binary, ["curve", name, str(value)], count))
        rows = [
            [f"{name}: {about}", *(f"{value:,}" for value in values)],
            ["---"] * (len(values) + 1),
            ["instructions", *(f"{each:,.0f}" for each in costs)],
            ["ratio", *(f"{each / costs[0]:.2f}" for each in costs)],
        ]
        print("\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows), flush=True)


def main():
    binary = program()
    if sys.argv[1:] == ["--curves"]:
        return curves(binary)
    failed = 0
    for arguments, count, limit in CASES:
        each = cost(binary, arguments, count)
        failed += each > limit
        verdict = "more than" if each > limit else "at most"
        print(f"measured: {' '.join(arguments)}: {each:.0f} instructions each, {verdict} {limit}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
