#!/usr/bin/env python3
"""Runs the probe of the sockets API on Linux and on another stack, and compares the answers.

    run.py --store              runs it in the guest (user-mode Linux) and stores linux-6.1.txt
    run.py --check              runs it in the guest and compares with linux-6.1.txt
    run.py [OPTIONS] --carrick      runs it on Carrick's sockets, with the extensions of the guest, and compares
    run.py [OPTIONS] --supervised   the same, without the preload library
    run.py [OPTIONS] -- PREFIX...   runs it with another command prefix, and compares

Cases may be given by --only, also by the beginning of their names. What differs must be in differences.toml, with
the reason, and what is there must differ; --draft prints the steps that it lacks. Exit status 0:
as expected, 1: not, 3: something is missing.
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
import threading
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kernel"))

from guest import Guest, Missing  # noqa: E402

PROBE = os.path.abspath(os.path.join(HERE, "../../target/interop/sockets-probe"))
STORED = os.path.join(HERE, "linux-6.1.txt")
DIFFERENCES = os.path.join(HERE, "differences.toml")
TIME_LIMIT = 900  # seconds of a run
CARRICK = os.path.abspath(os.path.join(HERE, "../../target/debug/carrick"))
# What the guest enables (kernel/init.py) and Carrick does not by default.
EXTENSIONS = ["auth", "addip", "addip-noauth"]
# The network of a run, beside 127.0.0.1 and ::1. 192.0.2.2 is a neighbour that does not answer.
NETWORK = [
    ["ip", "address", "add", "127.0.0.2/8", "dev", "lo"],
    ["ip", "link", "add", "dead0", "type", "veth", "peer", "name", "dead1"],
    ["ip", "link", "set", "dead0", "addrgenmode", "none"],
    ["ip", "link", "set", "dead1", "addrgenmode", "none"],
    ["ip", "link", "set", "dead0", "up"],
    ["ip", "link", "set", "dead1", "up"],
    ["ip", "address", "add", "192.0.2.1/24", "dev", "dead0"],
    ["ip", "neighbour", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:99", "dev", "dead0"],
]


class Failed(Exception):
    """A run that gave no answers; the text is the reason."""


def in_guest(arguments):
    """Returns the lines of a run on Linux."""
    guest = Guest([PROBE, *arguments], modules=["veth"], commands=NETWORK)
    timer = threading.Timer(TIME_LIMIT, guest.kill)
    timer.daemon = True
    timer.start()
    lines = list(guest.lines())
    timer.cancel()
    if guest.status != 0:
        raise Failed(f"the guest ended with status {guest.status}: {' '.join(lines[-1:])}")
    return lines


def in_namespace(prefix, arguments, own_network):
    """Returns the lines of a run with a command prefix, in a new network namespace unless `own_network` is false."""
    command = [*prefix, PROBE, *arguments]
    if own_network:
        script = "\n".join(" ".join(words) for words in [["ip", "link", "set", "lo", "up"], *NETWORK]) + '\nexec "$@"'
        unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
        command = [*unshare, "sh", "-ec", script, "sh", *command]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(prefix)} did not end within {TIME_LIMIT} s") from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(prefix)} ended with status {done.returncode}")
    return done.stdout.splitlines()


def answers(lines):
    """Returns the results by step. A line is `CASE/STEP: CALL = RESULT`; the call may have another ` = ` in it."""
    found = {}
    for line in lines:
        name, separator, rest = line.partition(": ")
        if not separator or "/" not in name:
            raise Failed(f"not a step: {line}")
        found[name] = rest
    return found


def wanted(name, only):
    return not only or any(name.startswith(start) for start in only)


def unexpected(expected, actual, explained, only):
    """Returns the steps whose answer is neither that of Linux nor the listed one."""
    names = [name for name in {**expected, **actual, **explained} if wanted(name, only)]
    wrong = []
    for name in names:
        answer = actual.get(name, "no such step")
        allowed = explained.get(name, [result_of(expected.get(name, "no such step"))])
        if result_of(answer) not in allowed:
            wrong.append(name)
    return wrong


def compare(expected, actual, explained, only):
    """Prints what differs and returns whether everything is explained."""
    names = [name for name in {**expected, **actual} if wanted(name, only)]
    differing = {name for name in names if expected.get(name) != actual.get(name)}
    unexplained = [name for name in names if name in differing and name not in explained]
    varies = {name for name, allowed in explained.items() if result_of(expected.get(name, "no such step")) in allowed}
    outdated = [name for name in explained if wanted(name, only) and name not in differing | varies]
    for name in unexplained:
        print(f"{name}\n  Linux  {expected.get(name, 'no such step')}\n  here   {actual.get(name, 'no such step')}")
    for name in outdated:
        print(f"{name}\n  differs no more; remove it from differences.toml")
    changed = [
        name for name in differing & set(explained) if result_of(actual.get(name, "no such step")) not in explained[name]
    ]
    for name in sorted(changed):
        print(f"{name}\n  listed  {' or '.join(explained[name])}\n  here    {result_of(actual.get(name, 'no such step'))}")
    explained_here = len(differing) - len(unexplained)
    print(
        f"{len(names)} steps, {len(names) - len(differing)} equal, {explained_here} with a listed reason, "
        f"{len(unexplained)} without, {len(changed)} other than listed, {len(outdated)} listed and equal"
    )
    return not unexplained and not outdated and not changed


def result_of(answer):
    return answer.rpartition(" = ")[2]


def explained_differences(supervised):
    """Returns the listed results of the other stack by step. differences.toml has the steps by their reason, with a
    result or a list of those that a race decides between; those of [[supervised]] are of supervised programs alone."""
    with open(DIFFERENCES, "rb") as file:
        listed = tomllib.load(file)
    explained = {}
    for group in listed.get("difference", []) + (listed.get("supervised", []) if supervised else []):
        if set(group) != {"title", "reason", "steps"} or not group["reason"] or explained.keys() & group["steps"].keys():
            raise Failed(f"differences.toml: {group.get('title', group)} needs title, reason and steps, each step once")
        for step, result in group["steps"].items():
            explained[step] = result if isinstance(result, list) else [result]
    return explained


def draft(expected, actual, explained, only):
    """Prints the steps for the differences that differences.toml does not list."""
    for name in {**expected, **actual}:
        answer = result_of(actual.get(name, "no such step"))
        if wanted(name, only) and name not in explained and expected.get(name) != actual.get(name):
            print(f'"{name}" = {json.dumps(answer, ensure_ascii=False)}')


def check(lines, only):
    """Prints what Linux answers otherwise than is stored, and returns whether nothing does. Steps wait for times; so a
    case that differs on a busy machine is asked again, alone, and counts with what it answers then."""
    expected = [line for line in stored() if wanted(line, only)]
    changes = list(difflib.unified_diff(expected, lines, "linux-6.1.txt", "this run", lineterm="", n=0))
    again = sorted({change[1:].partition("/")[0] for change in changes if "/" in change.partition(": ")[0]})
    if again:
        print(f"again, one after the other: {', '.join(again)}", flush=True)
        once_more = in_guest(["-j", "1", *again])
        expected = [line for line in expected if line.partition("/")[0] in again]
        changes = list(difflib.unified_diff(expected, once_more, "linux-6.1.txt", "this run", lineterm="", n=0))
    print("\n".join(changes) if changes else f"{len(lines)} steps, all equal")
    return not changes


def stored():
    with open(STORED, encoding="utf-8") as file:
        return file.read().splitlines()


def main():
    parser = argparse.ArgumentParser(usage="run.py [--only CASE,...] [--jobs N] (--store | --check | --carrick | [--here] -- PREFIX...)")
    parser.add_argument("--store", action="store_true", help="store what Linux answers")
    parser.add_argument("--check", action="store_true", help="compare Linux with what is stored")
    parser.add_argument("--carrick", action="store_true", help="run it on Carrick's sockets")
    parser.add_argument("--supervised", action="store_true", help="run it on Carrick's sockets, supervised")
    parser.add_argument("--only", default="", help="cases, or beginnings of names, separated by commas")
    parser.add_argument("--jobs", type=int, default=4, help="cases at a time (4)")
    parser.add_argument("--here", action="store_true", help="no network namespace; its network must exist already")
    parser.add_argument("--draft", action="store_true", help="print what differences.toml lacks")
    parser.add_argument("--output", help="file for the answers of this run")
    parser.add_argument("prefix", nargs="*", help="command that runs the probe on the stack under test")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    arguments = ["-j", str(options.jobs), *only]
    if (options.carrick or options.supervised) and not options.prefix:
        mode = ["--seccomp"] if options.supervised else []
        options.prefix = [CARRICK, "run", *mode, *(f"--{name}-enable" for name in EXTENSIONS), "--"]
        if not os.path.exists(CARRICK):
            raise Missing("target/debug/carrick is missing; run cargo build -p carrick-cli -p carrick-preload")
    if options.store + options.check + bool(options.prefix) != 1 or options.store and only:
        parser.error("give one of --store (without --only), --check and a command prefix behind --")
    if not os.path.exists(PROBE):
        raise Missing("target/interop/sockets-probe is missing; run make -C interop")
    if options.store:
        lines = in_guest(arguments)
        with open(STORED, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        print(f"{len(lines)} steps stored")
        return 0
    lines = in_guest(arguments) if options.check else in_namespace(options.prefix, arguments, not options.here)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    if options.check:
        return 0 if check(lines, only) else 1
    expected, actual, explained = answers(stored()), answers(lines), explained_differences(options.supervised)
    again = sorted({name.partition("/")[0] for name in unexpected(expected, actual, explained, only)})
    if again and not options.draft:
        # As for check: steps wait for times, so that a busy machine answers some of them otherwise.
        print(f"again, one after the other: {', '.join(again)}", flush=True)
        once_more = answers(in_namespace(options.prefix, ["-j", "1", *again], not options.here))
        actual = {name: answer for name, answer in actual.items() if name.partition("/")[0] not in again}
        actual.update(once_more)
    compared = expected, actual, explained, only
    if options.draft:
        draft(*compared)
        return 0
    return 0 if compare(*compared) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, Missing) as problem:
        print(f"sockets: {problem}", file=sys.stderr)
        sys.exit(3)
