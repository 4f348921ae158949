#!/usr/bin/env python3
"""Runs carrick (or another stack) against the Linux kernel's SCTP and usrsctp. See interop/README.md.

    interop/run.py --carrick target/release/examples/peer      carrick against both, the quick set
    interop/run.py                                             no carrick: usrsctp against both
    interop/run.py --list
    interop/run.py --carrick target/release/examples/peer --jobs 2      two scenarios side by side
    interop/run.py --only 'usrsctp-kernel/udp/connects/echo*' --keep
    interop/run.py --carrick target/release/examples/peer --matrix docs/interop.md --jobs 2      every stack, and the page of the results
"""

import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import matrix
from network import Network, NetworkError, remove_stale
from programs import BUILT, HERE, Capture, Peer, PeerFailed, Stacks, Unsupported
from scenarios import scenarios_of

LINGER = 60
# Seconds before a process is killed.
SETTLED = 1.0


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM."""


# Set for the scenarios that other threads run.
interrupted = threading.Event()


class Screen:
    """Where the scenarios, which may run side by side, write their lines."""

    def __init__(self, total, as_json):
        self.total, self.as_json = total, as_json
        self.out = sys.stderr if as_json else sys.stdout
        self.live = self.out.isatty()
        self.lock = threading.Lock()

    def write(self, line, end="\n"):
        with self.lock:
            self.out.write(f"\r{line}\033[K{end}" if self.live else line + "\n")
            self.out.flush()


class Show:
    """Progress and verdict of one scenario: one line, updated while the scenario runs if a person looks."""

    def __init__(self, screen, number, name):
        self.screen, self.head = screen, f"[{number:3}/{screen.total}] {name}"
        self.started = self.last = time.monotonic()
        if screen.live:
            screen.write(self.head, end="")

    def tick(self, note):
        now = time.monotonic()
        if now - self.last < (0.5 if self.screen.live else 15):
            return
        self.last = now
        self.screen.write(f"{self.head} ... {now - self.started:.0f} s {note}", end="")

    def done(self, result):
        verdict = "ok" if result["passed"] else "not supported" if "unsupported" in result else "FAILED"
        reasons = "".join(f"\n          {line}" for reason in result["reasons"] for line in reason.splitlines())
        self.screen.write(f"{self.head}  {verdict}  {result['seconds']:.1f} s{reasons}")
        if self.screen.as_json:
            print(json.dumps(result), flush=True)


class ScenarioRun:
    """One scenario, from the namespaces to the verdict."""

    def __init__(self, scenario, stacks, directory, show):
        self.scenario, self.stacks, self.show = scenario, stacks, show
        self.directory = directory
        self.peers, self.capture, self.reasons, self.facts = {}, None, [], {}
        self.deadline = time.monotonic() + scenario.limit

    def go(self):
        os.makedirs(self.directory, exist_ok=True)
        started = time.monotonic()
        guests = [side for side, stack in self.scenario.stacks.items() if stack == "kernel"]
        try:
            with Network(guests) as network:
                try:
                    self.carry_out(network)
                finally:
                    self.stop_all()
        except (PeerFailed, NetworkError) as problem:
            self.reasons.append(str(problem))
        except Unsupported as problem:
            self.facts["unsupported"] = str(problem)
            self.reasons.append(f"not supported: {problem}")
        if not self.reasons:
            self.check()
        return {
            "scenario": self.scenario.name, "passed": not self.reasons, "seconds": round(time.monotonic() - started, 2),
            "reasons": self.reasons, **self.facts,
        }

    def start(self, network, which, side, arguments):
        arguments = [*arguments, "--linger", LINGER, "--time-limit", self.scenario.limit]
        stack = self.scenario.stacks[side]
        command = self.stacks.command(stack, network, side, arguments)
        again = "-again" if which in self.peers else ""
        self.peers[which] = Peer(f"{which} ({stack})", command, f"{self.directory}/{which}{again}.log")

    def carry_out(self, network):
        scenario = self.scenario
        if scenario.loss:
            network.lose(scenario.loss)
        if scenario.marks:
            network.mark(scenario.marks)
        if scenario.redirected_init:
            network.redirect_init("a" if scenario.near_listens else "b")
        self.capture = Capture(network, f"{self.directory}/capture.pcapng", scenario.over_dtls)
        order = [("near", "a", scenario.near_arguments), ("far", "b", scenario.far_arguments)]
        if not scenario.near_listens:
            order.reverse()
        self.start(network, *order[0])
        self.wait_until(lambda: self.peers[order[0][0]].seen("ready"), "be ready")
        self.start(network, *order[1])
        if scenario.restarted:
            self.restart(network)
        if scenario.cut_path is not None:
            self.wait_until(lambda: any(peer.seen("progress") for peer in self.peers.values()), "make progress")
            network.cut(scenario.cut_path)
        if scenario.restored_after is not None:
            end_of_cut = time.monotonic() + scenario.restored_after
            self.wait_until(lambda: time.monotonic() >= end_of_cut, "pass the break of the path")
            network.restore(scenario.cut_path)
        self.wait_until(lambda: all(peer.end for peer in self.peers.values()), "end")
        if scenario.loss:
            self.count_loss(network)
        if scenario.cut_path is not None:
            self.facts["cut_dropped"] = network.counted(f"cut{scenario.cut_path}")
            if self.facts["cut_dropped"] == 0:
                self.reasons.append("the break of the path stopped no packet: it came too late")

    def restart(self, network):
        """Kills one side's process, and starts it again with the same addresses and ports."""
        which = self.scenario.restarted
        self.wait_until(lambda: self.peers[which].seen("progress"), "make progress")
        # Until the delayed SACK (RFC 9260 section 6.2) acknowledges the last messages.
        settled = time.monotonic() + SETTLED
        self.wait_until(lambda: time.monotonic() >= settled, "be idle")
        self.peers[which].kill()
        self.start(network, which, "a" if which == "near" else "b", self.scenario.arguments_after_restart)

    def count_loss(self, network):
        """Loss that did not happen would make the scenario an easy one."""
        lost, passed = network.counted("loss"), network.counted("passed")
        self.facts["lost_packets"], self.facts["passed_packets"] = lost, passed
        packets = lost + passed
        expected = packets * self.scenario.loss / 100
        # Each packet is lost by chance: the count is within five standard deviations but for one run in a million.
        if lost == 0 or abs(lost - expected) > 5 * expected**0.5:
            self.reasons.append(f"{lost} of {packets} packets were lost, not some {expected:.0f} ({self.scenario.loss} %)")

    def wait_until(self, condition, what):
        while not condition():
            if interrupted.is_set():
                raise Interrupted
            if time.monotonic() > self.deadline + 5:
                late = [peer.name for peer in self.peers.values() if not peer.end]
                raise PeerFailed(f"{' and '.join(late)} did not {what} in {self.scenario.limit} s")
            for peer in self.peers.values():
                while peer.next_event(0.02):
                    pass
            received = [peer.seen("progress")[-1]["received"] for peer in self.peers.values() if peer.seen("progress")]
            self.show.tick(f"{max(received) / 1e6:.0f} MB" if received else "")

    def stop_all(self):
        for peer in self.peers.values():
            peer.stop()
        if self.capture:
            self.capture.stop()

    def check(self):
        scenario = self.scenario
        for peer in self.peers.values():
            if peer.status != (0 if peer.end["ok"] else 1):
                self.reasons.append(f"{peer.name} exited with status {peer.status}")
        for check in scenario.checks:
            if problem := check(self.peers):
                self.reasons.append(problem)
        for check in [] if scenario.over_dtls else scenario.wire_checks:
            if problem := check(self.capture):
                self.reasons.append(problem)
        self.facts["peers"] = {which: peer.end for which, peer in self.peers.items()}
        self.show.tick("reading the capture")
        if problem := self.capture.verdict():
            self.reasons.append(problem)


def parse():
    top = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[1],
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--carrick", metavar="PATH", help="the peer program of carrick")
    top.add_argument("--pairs", metavar="NEAR-FAR,...", help="stacks: carrick, kernel, usrsctp (default: carrick, or without it usrsctp, against the kernel and usrsctp)")
    top.add_argument("--matrix", metavar="FILE", help="run the scenarios of the matrix against all stacks (carrick only), and write its page")
    top.add_argument("--check", action="store_true", help="with --matrix: compare the cells with those of the page, and leave it as it is")
    top.add_argument("--full", action="store_true", help="all scenarios, not the quick set")
    top.add_argument("--only", metavar="PATTERN", action="append", help="only scenarios whose names match (shell pattern); may be repeated")
    top.add_argument("--jobs", metavar="N", type=int, default=1, help="scenarios run in parallel, each in separate namespaces (default: 1)")
    top.add_argument("--list", action="store_true", help="print the names and exit")
    top.add_argument("--json", action="store_true", help="one JSON object per scenario and a summary on standard output")
    top.add_argument("--keep", action="store_true", help="keep captures and logs of scenarios that passed, too")
    top.add_argument("--out", metavar="DIR", default=os.path.join(BUILT, "last"), help="captures and logs (default: target/interop/last)")
    return top.parse_args()


def choose(options):
    if options.matrix:
        chosen = [cell.scenario for cell in matrix.cells() if cell.scenario]
        return [s for s in chosen if not options.only or any(fnmatch.fnmatch(s.name, pattern) for pattern in options.only)]
    near = "carrick" if options.carrick else "usrsctp"
    pairs = (options.pairs or f"{near}-kernel,{near}-usrsctp").split(",")
    known = {"carrick", "kernel", "usrsctp"}
    chosen = []
    for pair in pairs:
        names = pair.split("-")
        if len(names) != 2 or not known.issuperset(names):
            sys.exit(f"run.py: '{pair}' is not a pair of carrick, kernel and usrsctp such as usrsctp-kernel")
        if "carrick" in names and not options.carrick and not options.list:
            sys.exit("run.py: carrick's peer program is needed; give its path with --carrick PATH")
        chosen += scenarios_of(*names)
    if options.only:
        chosen = [s for s in chosen if any(fnmatch.fnmatch(s.name, pattern) for pattern in options.only)]
    elif not options.full:
        chosen = [s for s in chosen if s.quick]
    if not chosen:
        sys.exit("run.py: no scenario has such a name; --list --full shows them")
    return chosen


def interrupt(_number, _frame):
    raise Interrupted


def main():
    options = parse()
    chosen = choose(options)
    if options.list:
        print("\n".join(scenario.name for scenario in chosen))
        return 0
    if os.geteuid() != 0:
        sys.exit("run.py: network namespaces need root; run as root")
    if options.matrix and not options.carrick:
        sys.exit("run.py: carrick's peer program is needed; give its path with --carrick PATH")
    missing = matrix.missing_programs() if options.matrix and not options.only else []
    if missing:
        sys.exit(f"run.py: {', '.join(missing)} is not built; run interop/peers/build.sh rust pion")
    if options.carrick and not os.access(options.carrick, os.X_OK):
        sys.exit(f"run.py: {options.carrick} is no program; build it first")
    built = subprocess.run(["make", "-s", "-C", HERE], capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"run.py: the peers do not build ({built.stderr.strip().splitlines()[-1]}); run interop/install.sh")
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    remove_stale()
    shutil.rmtree(options.out, ignore_errors=True)
    screen, stacks, results = Screen(len(chosen), options.json), Stacks(options.carrick), []

    def run_one(number, scenario):
        show = Show(screen, number, scenario.name)
        directory = os.path.join(options.out, scenario.name.replace("/", "_"))
        result = ScenarioRun(scenario, stacks, directory, show).go()
        if result["passed"] and not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            result["files"] = os.path.relpath(directory)
        show.done(result)
        return result

    started = time.monotonic()
    pool = ThreadPoolExecutor(max(1, options.jobs))
    try:
        running = [pool.submit(run_one, number, scenario) for number, scenario in enumerate(chosen, 1)]
        results = [one.result() for one in as_completed(running)]
        pool.shutdown()
    except Interrupted:
        interrupted.set()
        pool.shutdown(cancel_futures=True)
        print("\nrun.py: interrupted; everything it made is removed", file=sys.stderr)
        return 130
    if options.matrix:
        return matrix.conclude(options, {result["scenario"]: result for result in results})
    failures = [result for result in results if not result["passed"]]
    failed = len(failures)
    if not options.json:
        for result in failures:
            print(f"FAILED {result['scenario']}: {'; '.join(result['reasons'])}")
    summary = {"passed": len(results) - failed, "failed": failed, "seconds": round(time.monotonic() - started, 1)}
    print(json.dumps(summary) if options.json else f"{summary['passed']} passed, {failed} failed in {summary['seconds']} s"
          + (f"; captures and logs are in {os.path.relpath(options.out)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
