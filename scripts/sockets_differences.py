#!/usr/bin/env python3
"""Generates docs/sockets-differences.md: the steps of the probe of the sockets API that Carrick answers otherwise than
Linux, from interop/sockets/differences.toml and linux-6.1.txt, grouped by their reason.

With `--check` nothing is written; the exit status is 1 if the page differs from what would be generated.
"""
import pathlib
import sys
import tomllib

FOLDER = pathlib.Path("interop/sockets")
PAGE = pathlib.Path("docs/sockets-differences.md")
COMMAND = "python3 scripts/sockets_differences.py"
LIMIT = 160  # characters of a cell

INTRODUCTION = """\
# Differences from Linux's sockets

[A program in C](../interop/README.md#the-sockets-api) goes through the calls, options, ancillary data and notifications of the sockets API of SCTP (RFC 6458). Its {all} steps
were answered by Linux 6.1 with all of its SCTP extensions enabled; Carrick gives the same answers in UDP, over loopback, but for the {different} below, and {more} of [supervised programs](sockets.md#static-programs) alone at the end. The program runs
against Carrick in the tests, with the preload library and supervised, which fail at any other difference, and at one that no longer exists.

Answers are results of the call, with `-1` and the error, or what was read. `some` is a value other than 0 that differs from run to run; `<assoc1>`, `<port1>` and `<tsn1>` are the
same value wherever they occur in a case. What concerns a program as a whole, such as dynamic linking, is in [Programs on Carrick](sockets.md#differences-from-the-kernels-sockets).

This page is made by `{command}` from [differences.toml](../interop/sockets/differences.toml).
"""


def cell(text):
    """Returns a text for a cell of a table."""
    text = " ".join(text.split())
    if len(text) > LIMIT:
        text = text[: LIMIT - 1] + "…"
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`" if text else "nothing"


def answers():
    """Returns the call and the answer of Linux by step."""
    found = {}
    for line in (FOLDER / "linux-6.1.txt").read_text(encoding="utf-8").splitlines():
        step, _, rest = line.partition(": ")
        call, _, answer = rest.rpartition(" = ")
        found[step] = (call, answer)
    return found


def page():
    linux = answers()
    listed = tomllib.loads((FOLDER / "differences.toml").read_text(encoding="utf-8"))
    groups, supervised = listed["difference"], listed["supervised"]
    different, more = (sum(len(group["steps"]) for group in part) for part in (groups, supervised))
    parts = [INTRODUCTION.format(all=f"{len(linux):,}", different=different, more=more, command=COMMAND)]
    for group in groups + supervised:
        parts.append(f"## {group['title']}\n\n{group['reason'].strip()}\n")
        rows = {}
        for step, result in group["steps"].items():
            call, answer = linux.get(step, ("", "no such step"))
            results = result if isinstance(result, list) else [result]
            row = (cell(call), cell(answer), " or ".join(map(cell, results)))
            rows.setdefault(row, []).append(step)
        lines = ["| step | call | Linux 6.1 | Carrick |", "|---|---|---|---|"]
        for row, steps in rows.items():
            lines.append("| " + " | ".join([", ".join(steps), *row]) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main():
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is out of date: run {COMMAND}")
        return 1
    print(f"{PAGE} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
