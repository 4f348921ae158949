#!/usr/bin/env python3
"""Measures what Carrick, the Linux kernel and usrsctp accept and advertise as their window, as section 4.2 of the paper
of experiments/overhead: messages of one size, a DATA chunk a packet, to a program that does not read, without and with
a gap. Writes the table into experiments/overhead/report.md, in front of what `carrick reproduce` reads.

    interop/windows.py                       measures and writes the table
    interop/windows.py --print               prints it
    interop/windows.py --json                prints an object for each row

Each row is a packet script, run by `carrick script`: for Carrick in virtual time against its sockets. Exit status 3: something
is missing.
"""

import argparse
import collections
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from network import NetworkError, remove_stale
from programs import PeerFailed
from scripts import ATTEMPTS, ROOT, RUNS, UNREAD_PORT, Servers

SIZES = [20, 50, 100, 200, 400, 1000, 1400]
# Bytes and messages that a script sends at most: more than any of the stacks has room for.
MOST_BYTES, MOST_MESSAGES = 3 << 20, 16_000
HEADING = "### Windows of stacks (section 4.2)"
REPORT = os.path.join(ROOT, "experiments/overhead/report.md")
FIRST_TSN = 10
# Receive buffer of Carrick beside its own, which grows.
FIXED_BUFFER = 131_072
# SACKs over which the decrease of the window is averaged.
AVERAGED = 10
SET_UP = """+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=2, is=2, tsn={tsn}]
* > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=100, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
* > sctp: COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
"""
PACKETS = """+0 < sctp: DATA[flgs=IBE, len={len}, tsn={tsn}, sid=0, ssn={ssn}, ppid=0]
+0~+1 > sctp: SACK[]
"""


def messages(size):
    """Returns the number of messages of a script."""
    return min(MOST_MESSAGES, MOST_BYTES // size)


def script(size, has_gap, buffer=None):
    """Returns a script that sends messages until no SACK follows: each has the I bit (RFC 7053)."""
    gap = "with" if has_gap else "without"
    text = [f"// Window of unread messages of {size} bytes, {gap} a gap\n--profile=sockets\n", SET_UP.format(tsn=FIRST_TSN)]
    if buffer:
        option = f"+0 setsockopt(3, SOL_SOCKET, SO_RCVBUF, [{buffer}], 4) = 0\n"
        text[1] = text[1].replace("+0 bind", option + "+0 bind")
    for index in range(int(has_gap), messages(size)):
        text.append(PACKETS.format(len=16 + size, tsn=FIRST_TSN + index, ssn=index))
    return "".join(text)


def packets_with_windows(capture):
    """Returns the fields of the INIT ACK and the SACKs of each script, by its number."""
    fields = ["frame.interface_id", "sctp.initack_credit", "sctp.sack_a_rwnd", "sctp.sack_cumulative_tsn_ack_raw",
              "sctp.sack_gap_block_start", "sctp.sack_gap_block_end"]
    command = ["tshark", "-n", "-r", capture, "-o", "sctp.tsn_analysis:FALSE", "-Y", "sctp.chunk_type == 2 || sctp.chunk_type == 3",
               "-T", "fields", *(word for field in fields for word in ("-e", field))]
    found = collections.defaultdict(list)
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        interface, *values = line.split("\t")
        found[int(interface)].append(values)
    return found


def row_of(packets, size, has_gap):
    """Returns what a stack accepted and advertised, from its INIT ACK and its SACKs, one for each message. None if a message
    that fits has none."""
    if len(packets) <= AVERAGED:
        return None
    initial, sacks = int(packets[0][0]), packets[1:]
    accepted, windows = [], [int(sack[1]) for sack in sacks]
    for _, _, cumulative, starts, ends in sacks:
        blocks = zip(starts.split(","), ends.split(",")) if starts else []
        accepted.append(int(cumulative) - FIRST_TSN + 1 + sum(int(end) - int(start) + 1 for start, end in blocks))
    indices = range(len(sacks))
    drop = next((i for i in indices if accepted[i] <= i), None)
    if drop is None and len(sacks) < messages(size) - has_gap:
        return None
    return {
        "size": size, "gap": has_gap, "initial": initial, "sent": len(sacks), "accepted": accepted[-1],
        "decrease": (initial - windows[AVERAGED - 1]) / AVERAGED,
        # Messages after which the window has no room for another one, and the window when one was dropped.
        "filled": next((i + 1 for i in indices if windows[i] < size), None),
        "at_drop": None if drop is None else windows[max(drop - 1, 0)],
    }


def run_scripts(carrick, paths, capture, servers, options):
    """Runs scripts, against Carrick's sockets if there are no servers, and returns the packets with windows."""
    options = [*options, "--pcapng", capture]
    command = [carrick, "script", *options, *paths]
    if servers:
        command = servers.script_command(carrick, UNREAD_PORT, options, paths)
    subprocess.run(command, capture_output=True)
    return packets_with_windows(capture)


def measure(run, carrick, directory):
    """Runs all scripts against one stack; returns the rows."""
    rows, paths = [], []
    cases = [(size, has_gap) for size in SIZES for has_gap in (False, True)]
    for number, (size, has_gap) in enumerate(cases):
        paths.append(os.path.join(directory, f"{run}-{number:02}.pkt"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(script(size, has_gap, FIXED_BUFFER if run == "carrick-buffer" else None))
    stack, options = RUNS.get(run, (None, []))
    capture = os.path.join(directory, f"{run}.pcapng")
    with Servers(stack, directory) if stack else contextlib.nullcontext() as servers:
        packets = run_scripts(carrick, paths, capture, servers, options)
        for number, (size, has_gap) in enumerate(cases):
            row = None
            for _ in range(ATTEMPTS):
                row = row_of(packets[number], size, has_gap)
                if row:
                    break
                # A packet was lost on a busy machine.
                packets[number] = run_scripts(carrick, [paths[number]], capture, servers, options)[0]
            if not row:
                raise PeerFailed(f"{run}: a message of {size} bytes was not answered in {ATTEMPTS} attempts")
            rows.append({"stack": run, **row})
            print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def versions(carrick):
    """Returns the names of the runs with the versions of their stacks."""
    usrsctp = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libusrsctp2"], capture_output=True, text=True).stdout
    kernel = max(os.listdir("/usr/lib/uml/modules"))
    own = subprocess.run([carrick, "-V"], capture_output=True, text=True).stdout.split()[-1]
    return {
        "carrick": f"Carrick {own}", "carrick-buffer": f"Carrick {own}, SO_RCVBUF {FIXED_BUFFER}",
        "linux-ip": f"Linux {kernel}", "usrsctp-udp": f"usrsctp {usrsctp}",
    }


def of_paper(run, row):
    """Returns the number of messages by the paper's equation for the system that the stack comes from."""
    size, window = row["size"], row["initial"]
    if run == "linux-ip":
        return f"{-(-2 * window // (176 + size)) if size < 176 else -(-window // size)}"
    if run == "usrsctp-udp":
        return f"{min(3200, -(-window // (256 + size)))}"
    return "–"


def cell(row):
    accepted = row["accepted"] if row["at_drop"] is not None else f"{row['accepted']} or more"
    filled, at_drop = ("–" if row[key] is None else row[key] for key in ("filled", "at_drop"))
    return f"{row['decrease']:.0f} | {filled} | {accepted} | {at_drop}"


def table(rows, names):
    """Returns the section of the report."""
    lines = [
        HEADING, "",
f"Measured on {datetime.date.today().isoformat()} by `interop/windows.py` with packet scripts: messages of one",
        "size to a program that does not read, one DATA chunk a packet, first without a gap, then with the first TSN left out.",
        "The sender ignores the window.", "",
        "- a_rwnd: of the INIT ACK, with the settings that the stack has without options (Carrick: also with SO_RCVBUF)",
        "- decrease: mean decrease of a_rwnd for a message, over the first ten",
        "- filled: messages after which a_rwnd is smaller than the next message",
        "- accepted: messages that the last SACK acknowledges, without those that were dropped",
        "- at drop: a_rwnd that was advertised when the first message was dropped",
        "- equation: messages by the paper’s equation (10) for Linux 2.6.25, and by (9) for FreeBSD 7.0, from which usrsctp comes,",
        "  with the smaller one of its two values, as the paper’s text describes it", "",
        "| stack | a_rwnd | size | decrease | filled | accepted | at drop | gap: decrease | filled | accepted | at drop | equation |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run, name in names.items():
        for size in SIZES:
            plain, gap = (next(r for r in rows if (r["stack"], r["size"], r["gap"]) == (run, size, g)) for g in (False, True))
            lines.append(f"| {name} | {plain['initial']} | {size} | {cell(plain)} | {cell(gap)} | {of_paper(run, plain)} |")
    return "\n".join(lines) + "\n"


def main():
    top = argparse.ArgumentParser(description="Measures the windows of stacks.")
    top.add_argument("--carrick", default=os.path.join(ROOT, "target/debug/carrick"))
    top.add_argument("--print", action="store_true", help="print the table, and leave the report as it is")
    top.add_argument("--json", action="store_true", help="print an object for each row, and leave the report as it is")
    options = top.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    remove_stale()
    carrick, directory = os.path.abspath(options.carrick), tempfile.mkdtemp(prefix="carrick-windows-")
    try:
        names = versions(carrick)
        rows = [row for run in names for row in measure(run, carrick, directory)]
    except (NetworkError, PeerFailed, OSError, subprocess.CalledProcessError) as problem:
        print(f"windows: {problem}; files are in {directory}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        shutil.rmtree(directory)
        return 130
    shutil.rmtree(directory)
    if options.json:
        print("\n".join(json.dumps(row) for row in rows))
    elif options.print:
        print(table(rows, names), end="")
    else:
        with open(REPORT, encoding="utf-8") as file:
            text = file.read()
        section = re.compile("(" + re.escape(HEADING) + r"\n.*?)?(?=## Question\n)", re.S)
        text = section.sub(lambda _: table(rows, names) + "\n", text, count=1)
        with open(REPORT, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
