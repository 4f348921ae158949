#!/usr/bin/env python3
"""The table of redundancy: every kind of failure against every stack with its defaults. See interop/README.md.

    interop/redundancy/run.py                                     all rows and columns
    interop/redundancy/run.py --quick --check                     the quick rows of carrick, asserted by their gates
    interop/redundancy/run.py --rows 'second-*' --columns 'run-*,linux'
    interop/redundancy/run.py --page docs/redundancy.md           writes the page and its figure as well
    interop/redundancy/run.py --from FILE... --page docs/redundancy.md      writes them from results of former runs
"""

import argparse
import dataclasses
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

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
sys.path.insert(0, os.path.join(HERE, ".."))

import expectations  # noqa: E402
import page  # noqa: E402
from cell import Cell, Interrupted, interrupted  # noqa: E402
from columns import COLUMNS  # noqa: E402
from network import remove_stale  # noqa: E402
from rows import ROWS, Times  # noqa: E402


class Screen:
    """Lines of the cells, which run side by side."""

    def __init__(self, total, as_json):
        self.total, self.done, self.as_json = total, 0, as_json
        self.out = sys.stderr if as_json else sys.stdout
        self.live = self.out.isatty()
        self.running, self.lock = {}, threading.Lock()
        self.shown = self.began = time.monotonic()

    def begin(self, name):
        with self.lock:
            self.running[name] = time.monotonic()

    def finish(self, result):
        with self.lock:
            self.running.pop(result["cell"], None)
            self.done += 1
            clear = "\r\033[K" if self.live else ""
            print(f"{clear}[{self.done:3}/{self.total}] {result['cell']:40} {expectations.line(result)}", file=self.out, flush=True)
            if self.as_json:
                print(json.dumps(result), flush=True)

    def tick(self):
        """Shows that cells run: each second to a person, every 30 s in a log."""
        with self.lock:
            now = time.monotonic()
            if now - self.shown < (1 if self.live else 30) or not self.running:
                return
            self.shown = now
            text = f"{self.done} of {self.total} cells in {now - self.began:.0f} s, {len(self.running)} running"
            print(f"\r{text}\033[K" if self.live else text, end="" if self.live else "\n", file=self.out, flush=True)


def parse():
    usage, _, examples = __doc__.partition("\n\n")
    top = argparse.ArgumentParser(description=usage, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--quick", action="store_true", help="the quick cells of carrick, with short faults")
    top.add_argument("--check", action="store_true", help="fail if a cell of carrick's columns is beyond its gate")
    top.add_argument("--rows", metavar="GLOB,...", help="these rows")
    top.add_argument("--columns", metavar="GLOB,...", help="these columns")
    top.add_argument("--policy", choices=["both", "no", "yes"], default="both", help="without and with routes by source address (both)")
    top.add_argument("--list", action="store_true", help="print the names of rows and columns")
    top.add_argument("--jobs", type=int, default=12, metavar="N", help="cells side by side, which mostly wait (12)")
    top.add_argument("--json", action="store_true", help="an object per line on standard output, progress on standard error")
    top.add_argument("--carrick", default=f"{ROOT}/target/debug/carrick", help="the command, with libcarrick_preload.so beside it (target/debug/carrick)")
    top.add_argument("--stream", default=f"{ROOT}/target/debug/examples/stream", help="example of crate carrick (target/debug/examples/stream)")
    top.add_argument("--out", default=f"{ROOT}/target/interop/redundancy", help="directory of logs and results (target/interop/redundancy)")
    top.add_argument("--page", metavar="FILE", help="write this page, and a figure beside it")
    top.add_argument("--from", dest="sources", nargs="+", metavar="FILE", help="read results of former runs and run nothing")
    top.add_argument("--delay-ms", type=float, default=10, metavar="MS", help="delay of a plane in one direction (10)")
    for field in dataclasses.fields(Times):
        top.add_argument(f"--{field.name}", type=float, metavar="S", help=f"duration '{field.name}' (expectations.toml)")
    options = top.parse_args()
    durations = expectations.times("quick" if options.quick else "full")
    given = {name: getattr(options, name) for name in durations if getattr(options, name) is not None}
    options.times = Times(**(durations | given))
    return options


def chosen(options):
    """Returns the cells, and why columns are left out."""
    def wanted(name, globs):
        return globs is None or any(fnmatch.fnmatch(name, glob) for glob in globs.split(","))

    columns, missing = [], {}
    for column in COLUMNS:
        if not wanted(column.name, options.columns):
            continue
        if options.quick and not any(expectations.is_quick(row.name, column.name, policy) for row in ROWS for policy in (False, True)):
            continue
        if reason := column.missing(options):
            missing[column.name] = reason
        else:
            columns.append(column)
    rows = [row for row in ROWS if wanted(row.name, options.rows)]
    cells = [
        Cell(row, column, policy, options)
        for row in rows for column in columns for policy in (False, True)
        if column.carrier in row.carriers and not (row.mute and column.echoes) and (column.has_daemon or not row.needs_daemon)
        and (not policy or row.policy) and options.policy in ("both", "yes" if policy else "no")
        and (not options.quick or expectations.is_quick(row.name, column.name, policy))
    ]
    # The longest ones first, so that the last one to end is a short one.
    return sorted(cells, key=lambda cell: -(cell.plan.end + (cell.plan.notice or 0))), missing


def interrupt(*_):
    # A second signal does not end the clean-up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted


def run_cells(cells, options):
    """Returns the results, in the order of the table."""
    screen = Screen(len(cells), options.json)

    def run_one(cell):
        if interrupted.is_set():
            raise Interrupted
        screen.begin(cell.name)
        result = cell.go()
        screen.finish(result)
        return result

    pool = ThreadPoolExecutor(max(1, options.jobs))
    try:
        running = [pool.submit(run_one, cell) for cell in cells]
        while not all(one.done() for one in running):
            time.sleep(0.2)
            screen.tick()
        results = [one.result() for one in as_completed(running)]
    except Interrupted:
        interrupted.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    order = {row.name: number for number, row in enumerate(ROWS)} | {column.name: number for number, column in enumerate(COLUMNS)}
    return sorted(results, key=lambda result: (order[result["row"]], order[result["column"]], result["policy"]))


def former(sources):
    """Returns the results of former runs, the last one of each cell, and what is known about the last run, with the commands of all."""
    results, about, commands = {}, None, []
    for source in sources:
        with open(source, encoding="utf-8") as file:
            stored = json.load(file)
        about = stored["about"]
        commands.append(about["command"])
        results |= {result["cell"]: result for result in stored["results"]}
    return list(results.values()), about | {"command": "\n".join(commands)}


def main():
    options = parse()
    if options.list:
        print("\n".join(["rows:", *(f"  {row.name:20} {row.title}" for row in ROWS), "columns:", *(f"  {c.name:20} {c.title}" for c in COLUMNS)]))
        return 0
    if options.sources:
        results, about = former(options.sources)
    else:
        if os.geteuid() != 0:
            sys.exit("redundancy: needs root for network namespaces")
        built = subprocess.run(["make", "-s", "-C", os.path.join(HERE, "..")], capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"redundancy: the programs do not build ({built.stderr.strip().splitlines()[-1]}); run interop/install.sh")
        cells, missing = chosen(options)
        for name, reason in missing.items():
            print(f"redundancy: no column {name}: {reason}", file=sys.stderr)
        if options.check and any(column.required and column.name in missing for column in COLUMNS):
            sys.exit("redundancy: --check needs these columns")
        if not cells:
            sys.exit("redundancy: no cell is chosen; --list prints the names")
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)
        remove_stale()
        shutil.rmtree(options.out, ignore_errors=True)
        os.makedirs(options.out)
        try:
            results = run_cells(cells, options)
        except Interrupted:
            print("\nredundancy: interrupted; everything it made is removed", file=sys.stderr)
            return 130
        about = page.about(options, missing)
        with open(f"{options.out}/results.json", "w", encoding="utf-8") as file:
            json.dump({"about": about, "results": results}, file, indent=1)
    if options.page:
        page.write(options.page, results, about)
    failed = [result for result in results if "failed" in result]
    beyond = [(result, reasons) for result in results if (reasons := expectations.beyond_gate(result))]
    out = sys.stderr if options.json else sys.stdout
    for result in failed:
        print(f"FAILED {result['cell']}: {result['failed']}", file=out)
    for result, reasons in beyond if options.check else []:
        print(f"FAILED {result['cell']}: {'; '.join(reasons)}", file=out)
    bad = len(failed) + (len(beyond) if options.check else 0)
    met = sum(expectations.verdict(result) == "met" for result in results)
    verdicts = sum(expectations.verdict(result) is not None for result in results)
    print(f"{len(results) - bad} passed, {bad} failed; {met} of {verdicts} cells of carrick meet their aim", file=out)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
