#!/usr/bin/env python3
"""Runs programs of Debian with the Linux kernel's SCTP (user-mode Linux) on one side and Carrick's on the other, in UDP
and on plain IP, and compares what each side prints with a run where both are the kernel's. Programs whose output is a
log with times only have to do what run.py expects of them.

    kernel.py [--carrick PATH] [PROGRAM...]

Exit status 0: the same; 1: not; 3: something is missing.
"""

import argparse
import base64
import difflib
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../kernel")]

import run  # noqa: E402
from guest import Guest, Missing  # noqa: E402
from network import PATHS, Network, NetworkError, with_length  # noqa: E402

PORT = 9899  # of UDP
ROOT = os.path.realpath(os.path.join(HERE, "../.."))
# The programs of a checkout below /tmp, which the memory that is mounted there hides.
CHECKOUT_IN_TMP = (
    [["mkdir", "-p", ROOT], ["mount", "-t", "hostfs", "-o", ROOT, "none", ROOT]] if ROOT.startswith("/tmp/") else []
)
# Runs a program and lists its endpoints: in the guest, nothing else can. The guest stays until its kernel has shut down the
# associations that the program has closed, for 10 s at most.
GUEST_SCRIPT = r"""
"$@" &
while kill -0 $! 2>/dev/null; do
    now=$(awk 'NR > 1 { print "ENDPOINT " $6 }' /proc/net/sctp/eps | sort -u)
    [ "$now" = "$before" ] || echo "$now"
    before=$now
    sleep 0.1
done
wait $!
status=$?
n=0
while [ "$(wc -l </proc/net/sctp/assocs)" -gt 1 ] && [ $n -lt 100 ]; do
    n=$((n + 1))
    sleep 0.1
done
exit $status"""


class GuestHost(run.Host):
    """Side of the network that is a guest. It boots for each program."""

    def __init__(self, network, side, transport, directory):
        super().__init__(network, side, None, directory)
        self.runtime = "/tmp"
        self.encapsulates = transport == "udp"
        self.nics = [{"tap": f"{side}{path}", "addresses": with_length(side, path)} for path in range(PATHS)]

    def start_daemon(self, options):
        """The kernel needs none."""

    def start(self, name, *arguments):
        guest = {
            "program": ["sh", "-c", GUEST_SCRIPT, "sh", *arguments],
            "nics": self.nics,
            "encaps_ports": [PORT, PORT] if self.encapsulates else [0, 0],
            "commands": [["mount", "-t", "tmpfs", "none", "/tmp"], *CHECKOUT_IN_TMP],
        }
        packed = base64.b64encode(json.dumps(guest).encode()).decode()
        command = [sys.executable, "-B", os.path.abspath(__file__), "--guest", packed]
        return GuestProgram(self, name, command)


class GuestProgram(run.Program):
    """A program in a guest."""

    def wait_until_it_listens(self, *ports):
        for port in ports:
            self.wait_for_output(rf"ENDPOINT {port}\b")


def run_guest(packed):
    """Boots a guest, relays its output, and returns the status of its program. Runs in the namespace of the taps."""
    guest = Guest(**json.loads(base64.b64decode(packed)))

    def end(*_):
        guest.kill()

    signal.signal(signal.SIGTERM, end)
    for line in guest.lines():
        print(line, flush=True)
    return 3 if guest.status is None else guest.status


def iperf3(near, far, _):
    """Both roles, in both directions one after the other."""
    server = far.start("iperf3", "iperf3", "-s", "-1")
    if isinstance(far, GuestHost):
        server.wait_for_output("Server listening")
        time.sleep(1)
    else:
        time.sleep(2)  # its output is in a buffer
    near.run("iperf3-client", "iperf3", "--sctp", "-c", far.addresses[0], "-t", "2")
    server.wait()


def withsctp(near, far, _):
    """ncat on sockets that the script of lksctp-tools makes SCTP sockets: ends when the server's program has ended.

    Not at the end of the client's input as in run.py: there ncat calls shutdown() and waits for the end of messages, which
    Linux reports to no one-to-one socket that has begun the shutdown (case ready.states of ../sockets).
    """
    run.echo(near, far, "withsctp", "ncat", "--no-shutdown", program="/bin/sed -u 2q")


# Numbers that differ between runs, for each program.
MASKS = {
    "ncat": [r":\d+\.$"],
    "sctp_darn": [r"(?<=sinfo_tsn)\s+\d+", r"(?<=sinfo_assoc_id)\s+\d+"],
    "sctp_darn_stream": [],
    "sctp_test": [r"\d+"],
    "withsctp": [r":\d+\.$"],
    # Ports of the client, and tags of the server.
    "kamailio": [r"(?<=10\.77\.0\.3:)\d+", r"(?<=rport=)\d+", r"(?<=;tag=)[0-9a-f.-]+$"],
    "iperf3": [r" *\d+(\.\d+)?( [KMG]?(?=[Bb]))?", " +"],
}
# Programs whose last interval may be one line more.
REPEATING = ["iperf3"]
COMPARED = [run.kamailio, run.ncat, run.sctp_darn, run.sctp_darn_stream, run.sctp_test, iperf3, withsctp]
LOGGING = [run.freediameterd, run.netperfmeter]
PROGRAMS = COMPARED + LOGGING
LOGS = ("daemon", "kamailio")  # beginnings of names of those that print a log
KERNEL, CARRICK = "kernel", "Carrick"
PAIRS = [(KERNEL, KERNEL), (CARRICK, KERNEL), (KERNEL, CARRICK)]


def run_on(program, stacks, transport, carrick):
    """Runs a program on a new network and returns the output of each side."""
    guests = [side for side, stack in zip("ab", stacks) if stack == KERNEL]
    # Guests have a /tmp of their own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, Network(guests=guests) as network:
        try:
            hosts = []
            for side in "ab":
                if side in guests:
                    hosts.append(GuestHost(network, side, transport, directory))
                else:
                    host = run.Host(network, side, carrick, directory)
                    host.start_daemon(run.TRANSPORTS[transport])
                    hosts.append(host)
            program(*hosts, network)
            programs = [started for started in run.Program.running if not started.name.startswith(LOGS)]
            if program in LOGGING:
                return {}
            return {started.name: printed(program.__name__, started.output()) for started in programs}
        finally:
            for started in reversed(run.Program.running):
                started.end()
            run.Program.running.clear()


def printed(program, output):
    """Returns the lines of an output without the numbers that differ."""
    # The lines of the guest's script, also in the middle of one of the program.
    output = re.sub(r"ENDPOINT \d+\n", "", output)
    # The guest relays no line that has no end, such as a prompt.
    lines = [line.strip() for line in output[: output.rfind("\n") + 1].splitlines()]
    for mask in MASKS[program]:
        lines = [re.sub(mask, " #", line) for line in lines]
    lines = [line for line in lines if line]
    if program in REPEATING:
        lines = [line for line, _ in itertools.groupby(lines)]
    return lines


def compare(program, transport, carrick):
    """Returns the differences of the runs with Carrick from that of the kernel alone, as lines."""
    expected = {} if program in LOGGING else run_on(program, PAIRS[0], transport, carrick)
    differences = []
    for stacks in PAIRS[1:]:
        for name, lines in run_on(program, stacks, transport, carrick).items():
            differences += difflib.unified_diff(
                expected.get(name, []), lines, f"{name}, kernel and kernel", f"{name}, {' and '.join(stacks)}", lineterm=""
            )
    return differences


def main():
    if sys.argv[1:2] == ["--guest"]:
        return run_guest(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrick", default="target/debug/carrick", help="the command (target/debug/carrick)")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(p.__name__ for p in PROGRAMS))
    options = parser.parse_args()
    programs = run.select(parser, options.programs, PROGRAMS)
    signal.signal(signal.SIGTERM, run.interrupt)
    carrick = os.path.abspath(options.carrick)
    if not os.path.exists(carrick):
        print(f"programs: {carrick} is missing; build it with cargo build -p carrick-cli -p carrick-preload", file=sys.stderr)
        return 3
    failed = 0
    for program in programs:
        for transport in run.TRANSPORTS:
            begin = time.monotonic()
            try:
                differences = compare(program, transport, carrick)
                same = "does as expected" if program in LOGGING else "the same"
                result = same if not differences else "\n".join(["DIFFERS", *differences])
            except (run.Failed, NetworkError, Missing) as problem:
                differences, result = True, f"FAILED: {problem}"
            failed += bool(differences)
            print(f"{program.__name__}/{transport}  {result}  {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as problem:
        print(f"guest: {problem}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
