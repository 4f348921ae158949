#!/usr/bin/env python3
"""Runs the packet scripts of conformance/ against the Linux kernel's SCTP and usrsctp, with `carrick script`.

    interop/scripts.py                                against both; the kernel in UDP and on plain IP
    interop/scripts.py --stack usrsctp-udp FILE...    these scripts, against one
    interop/scripts.py --json                         a JSON object for each script and stack

Prints a line for each script that was run, the number of those that were not for each reason, and a table of failures with
their reasons. servers/differences.toml has these; a failure that it lacks, and an entry whose script passes (unless `at_random`), fail
the run.
Exit status 0: as listed; 1: not; 3: something is missing.
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

from network import Network, NetworkError, address, remove_stale
from programs import BUILT, HERE, Peer, PeerFailed, Stacks

ROOT = os.path.dirname(HERE)
PORT, UNREAD_PORT, UDP_PORT = 5000, 5001, 9899
# Name of a run: stack, and the arguments of `carrick script`.
RUNS = {
    "linux-ip": ("kernel", ["--raw"]),
    "linux-udp": ("kernel", ["--udp", str(UDP_PORT)]),
    "usrsctp-udp": ("usrsctp", ["--udp", str(UDP_PORT)]),
}
BOOT_LIMIT = 60
# Processes of `carrick script`, which an interrupt ends.
running = set()
ATTEMPTS = 3
# Deviation of times: the guest has a clock tick of 10 ms, and the machine other work.
TOLERANCE = "100ms"


class Servers:
    """Servers of one stack on side b of a network: PORT reads all messages, UNREAD_PORT none."""

    def __init__(self, stack, directory):
        self.stack, self.directory = stack, directory
        self.network = Network(["b"] if stack == "kernel" else [])
        self.server = None

    def __enter__(self):
        self.network.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        stacks = Stacks()
        stacks.paths["usrsctp"] = [os.path.abspath(os.path.join(BUILT, "usrsctp-servers"))]
        ports = [PORT, UNREAD_PORT]
        arguments = ["--serve", *ports] if self.stack == "kernel" else [*ports, UDP_PORT]
        command = stacks.command(self.stack, self.network, "b", arguments)
        log = os.path.join(self.directory, f"{self.stack}-{self.network.middle}.log")
        self.server = Peer(f"servers of {self.stack}", command, log)
        deadline = time.monotonic() + BOOT_LIMIT
        while not self.server.seen("ready"):
            self.server.next_event(0.5)
            if time.monotonic() > deadline:
                raise PeerFailed(f"the servers of {self.stack} are not ready after {BOOT_LIMIT} s; see {log}")

    def __exit__(self, *_):
        if self.server:
            self.server.stop()
        self.network.__exit__()

    def script_command(self, carrick, port, options, paths):
        """Returns the command that runs scripts against a port, from side a."""
        where = ["ip", "netns", "exec", self.network.namespace["a"]]
        return [*where, carrick, "script", "--json", "--strict-end", "--tolerance", TOLERANCE, "--peer", f"{address('b', 0)}:{port}", *options, *paths]


class ScriptLines:
    """Output of the runs, which are side by side."""

    def __init__(self, as_json):
        self.as_json, self.lock = as_json, threading.Lock()

    def write(self, run, result):
        with self.lock:
            if self.as_json:
                print(json.dumps({"run": run, **result}), flush=True)
            elif not result.get("skipped"):
                verdict = "passed" if result["passed"] else "FAILED"
                print(f"{run:12} {verdict:8} {result['script']}", flush=True)


def results_of(name, command):
    """Runs scripts and yields their results."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        running.add(process)
        for line in process.stdout:
            yield json.loads(line)
        errors = process.stderr.read()
    running.discard(process)
    if process.returncode not in (0, 1):
        raise PeerFailed(f"{name}: {errors.strip()}")


def run_all(name, carrick, paths, differences, directory, lines):
    """Runs the scripts against one stack; returns their results."""
    stack, options = RUNS[name]
    results = []
    with Servers(stack, directory) as servers:
        for result in results_of(name, servers.script_command(carrick, PORT, options, paths)):
            # The times are real: one that a busy machine missed is met by another attempt.
            for _ in range(ATTEMPTS - 1):
                if result["passed"] or result.get("skipped") or reason_of(differences, name, result):
                    break
                command = servers.script_command(carrick, PORT, options, [result["script"]])
                (result,) = results_of(name, command)
            results.append(result)
            lines.write(name, result)
    return results


def reason_of(differences, run, result):
    """Returns the listed reason of a failure, or None."""
    for entry in differences:
        if result["script"].endswith(entry["script"]) and run in entry["runs"]:
            return entry
    return None


def report(runs, differences, is_complete):
    """Prints counts, reasons of scripts that were not run, and the table of failures. Returns the problems."""
    problems, rows, skipped = [], [], collections.Counter()
    for run, results in runs.items():
        counts = collections.Counter(
            "passed" if r["passed"] else "skipped" if r.get("skipped") else "failed" for r in results
        )
        print(f"{run}: {counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed")
        for result in results:
            if result.get("skipped"):
                skipped[re.sub(r"^line \d+: ", "", result["skipped"])] += 1
            entry = reason_of(differences, run, result)
            if entry and result["passed"] and not entry.get("at_random"):
                problems.append(f"{run}: {result['script']} passes, and differences.toml lists a failure")
            if result["passed"] or result.get("skipped"):
                continue
            rows.append((run, result, entry))
            if not entry:
                problems.append(f"{run}: {result['script']}, line {result['line']}: {result['message']}")
    for reason, number in skipped.most_common():
        print(f"skipped {number:4}  {reason}")
    print("\n| run | script | rule | fault of | reason |\n|---|---|---|---|---|")
    for run, result, entry in rows:
        rule = result["title"].partition(":")[0]
        fault, reason = (entry["fault"], entry["reason"]) if entry else ("?", result["message"])
        print(f"| {run} | {result['script']} | {rule} | {fault} | {reason} |")
    if is_complete:
        known = {result["script"] for results in runs.values() for result in results}
        for entry in differences:
            if not any(script.endswith(entry["script"]) for script in known):
                problems.append(f"differences.toml lists {entry['script']}, which does not exist")
    return problems


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    top.add_argument("paths", nargs="*", default=["conformance"], metavar="FILE|DIRECTORY")
    top.add_argument("--carrick", default=os.path.join(ROOT, "target/debug/carrick"))
    top.add_argument("--stack", action="append", choices=RUNS, help="run against this one only; may be repeated")
    top.add_argument("--json", action="store_true", help="print a JSON object for each script and stack")
    options = top.parse_args()
    with open(os.path.join(HERE, "servers/differences.toml"), "rb") as file:
        differences = tomllib.load(file)["difference"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    remove_stale()
    directory = tempfile.mkdtemp(prefix="carrick-scripts-")
    lines, carrick = ScriptLines(options.json), os.path.abspath(options.carrick)
    try:
        with ThreadPoolExecutor() as pool:
            started = {
                name: pool.submit(run_all, name, carrick, options.paths, differences, directory, lines)
                for name in options.stack or RUNS
            }
            try:
                runs = {name: future.result() for name, future in started.items()}
            except BaseException:
                for process in list(running):
                    process.terminate()
                raise
    except (NetworkError, PeerFailed, OSError) as problem:
        print(f"scripts: {problem}; logs are in {directory}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        shutil.rmtree(directory)
        return 130
    shutil.rmtree(directory)
    if options.json:
        sys.stdout = sys.stderr
    problems = report(runs, differences, options.paths == ["conformance"])
    for problem in problems:
        print(f"FAILED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
