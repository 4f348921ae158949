"""Page of the table, docs/redundancy.md, and its figure: written from the results, always in the same order."""

import datetime
import os
import platform
import shlex
import subprocess
import sys

import expectations
from columns import COLUMNS
from figure import figure
from rows import ROWS

HEAD = """# Redundancy

What a program notices when a network between two hosts fails: each kind of failure against each stack with its defaults. `interop/redundancy/run.py` measures
it and writes this page.

Two hosts, A and B, have two interfaces each, in two networks ("planes") that carry each frame {delay:g} ms later: the round trip is {round_trip:g} ms. A connects to B's address
on plane 1. Both send one message of {size} bytes ({large} bytes in rows about large packets) each {interval} ms, without Nagle's algorithm. Hosts route by destination, as they do
without further configuration; with *policy routing*, by source address. Faults last {fault:g} s; where planes fail in turn, the first one fails for {first:g} s,
and {pause:g} s pass between two failures.

- **Silence** is the longest time in which a program receives nothing, the worse one of both directions, less the time in which no pair of addresses worked or the
  process was stopped. At best it is the interval of the messages. `≥`: the silence ended when the fault was repaired, or had not ended at the end of the measurement.
  In rows about killed peers, it is the time until A's program is notified.
- **Lost**, **repeated** and **out of order** are messages that A or B received not at all, twice, or late; **not delivered** ones were still queued
  {drain:g} s after the last one was sent.
- **Shown** is the first state other than *active* that an operator of A saw for a path, and after which time: `carrick ss`, `carrick::PathStats`, `/proc/net/sctp/remaddr`, the
  subflows of `ss -ti`, or usrsctp's notifications.

Columns are crate `carrick` with the configuration `AssociationConfig::modern()`; a program on `carrick run` that sets no option but `SCTP_NODELAY`{signaling}; the same program on
the SCTP of Linux (user-mode Linux as hosts) and on MPTCP of the host's kernel, where B announces its second address; and usrsctp. Cells of Carrick are **met** if
no message is lost, repeated, out of order or not delivered, the association lives, and the silence is at most {default:g} s, in the signaling preset {preset:g} s, or what the row
states: the aims of rows that name a rule of the standard were set after a first run had shown what it costs. `interop/redundancy/expectations.toml` has these bounds.
"""


def version(*command):
    """Returns the first line that a program prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not installed"
    return (done.stdout.strip().splitlines() or [""])[0]


def about(options, missing):
    """Returns what the page states about a run."""
    kernel = version("/usr/bin/linux.uml", "--version")
    return {
        "date": datetime.date.today().isoformat(),
        "host": f"Linux {platform.release()}, {os.cpu_count()} cores",
        "versions": [
            version(options.carrick, "--version"), f"Linux {kernel} in guests",
            f"usrsctp {version('dpkg-query', '-W', '-f', '${Version}', 'libusrsctp-dev')}",
        ],
        "command": shlex.join(["interop/redundancy/run.py", *sys.argv[1:]]),
        "load": round(os.getloadavg()[0], 1),
        "delay_ms": options.delay_ms,
        "times": vars(options.times),
        "missing": missing,
    }


def seconds(result):
    """Returns the silence of a cell as text."""
    value = result["silence"]
    text = f"{value:.2f}" if value < 10 else f"{value:.1f}"
    return ("≥ " if result["open_end"] else "") + text


def faults(result):
    """Returns the counts that are not 0, and the end of the association, as text."""
    parts = [f"{result[name]} {text}" for name, text in expectations.COUNTS.items() if result[name]]
    if not result["alive"] and result["row"] not in expectations.NOTICES:
        parts.append("ended")
    return ", ".join(parts)


def summary_cell(results):
    """Returns the worst of the results with and without policy routing."""
    if not results:
        return "–"
    if any("failed" in result for result in results):
        return "failed"
    worst = max(results, key=lambda result: (bool(faults(result)), result["silence"]))
    text = seconds(worst) + (f" ({faults(worst)})" if faults(worst) else "")
    return f"**{text}**" if any(expectations.verdict(result) == "met" for result in [worst]) else text


def shown(result):
    seen = expectations.failing(result["states"])
    return f"{seen[1]} after {seen[0]:.1f} s" if seen else ("–" if not result["states"] else "active")


def detail(result, titles):
    routes = "by source" if result["policy"] else "by destination"
    title = titles[result["column"]]
    if "failed" in result:
        return f"| {title} | {routes} | – | – | – | – | – | – | no result |"
    row_is_notice = result["row"] in expectations.NOTICES
    alive = ("not notified" if result["alive"] else result["ended"]) if row_is_notice else ("lives" if result["alive"] else f"ended: {result['ended']}")
    counts = [str(result[name]) for name in ("lost", "repeated", "disordered", "waiting")]
    verdict = expectations.verdict(result) or ""
    return f"| {title} | {routes} | {seconds(result)} | {' / '.join(counts)} | {alive} | {shown(result)} | {verdict} |"


def lines(results, about):
    """Returns the lines of the page."""
    from cell import DRAIN
    from rows import LARGE, SMALL

    present = {result["column"] for result in results}
    columns = [column for column in COLUMNS if column.name in present]
    titles = {column.name: column.title for column in COLUMNS}
    cells = {}
    for result in results:
        cells.setdefault((result["row"], result["column"]), []).append(result)
    has_preset = any(name.startswith("signaling") for name in present)
    yield HEAD.format(
        delay=about["delay_ms"], round_trip=2 * about["delay_ms"], size=SMALL, large=f"{LARGE:,}", interval=round(expectations.INTERVAL * 1e3), drain=DRAIN,
        signaling=", also with `--preset signaling`" if has_preset else "", default=expectations.BOUNDS["aim"]["default"],
        preset=expectations.BOUNDS["aim"]["signaling"], **{name: about["times"][name] for name in ("fault", "first", "pause")},
    )
    yield "## Result\n"
    verdicts = [verdict for result in results if (verdict := expectations.verdict(result))]
    below, both = expectations.compared(results)
    yield (
        f"{verdicts.count('met')} of {len(verdicts)} cells of Carrick are met. In {below} of {both} rows, the worst cell of Carrick's defaults is at or below the worst one of each "
        "other stack, within two intervals of the messages.\n"
    )
    yield f"{about['date']}, {about['host']}, load {about['load']} at the end. {'; '.join(about['versions'])}. Command:\n"
    yield f"```\n{about['command']}\n```\n"
    for name, reason in sorted(about["missing"].items()):
        yield f"No column `{name}`: {reason}.\n"
    yield "![Longest silence of each kind of failure and stack](redundancy.svg)\n"
    yield "Longest silence in s, the worse one without and with policy routing; cells that are met are in bold type.\n"
    yield f"| failure | {' | '.join(column.title for column in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    rows = [row for row in ROWS if any(result["row"] == row.name for result in results)]
    for row in rows:
        yield f"| {row.title} | {' | '.join(summary_cell(cells.get((row.name, column.name))) for column in columns)} |"
    yield "\n## Each row\n"
    for row in rows:
        aims = [f"{expectations.bound(row.name, 'default'):g} s"]
        if has_preset:
            aims.append(f"{expectations.bound(row.name, 'signaling'):g} s with the signaling preset")
        yield f"### {row.title[0].upper()}{row.title[1:]}\n"
        note = expectations.note(row.name)
        yield f"`{row.name}`; aim {', '.join(aims)}.{' ' + note if note else ''}\n"
        yield "| stack | routes | silence [s] | lost / repeated / out of order / not delivered | association | shown | verdict |"
        yield "|---|---|---|---|---|---|---|"
        for column in columns:
            for result in sorted(cells.get((row.name, column.name), []), key=lambda result: result["policy"]):
                yield detail(result, titles)
        yield ""


def write(path, results, about):
    """Writes the page and the figure beside it."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(results, about)).rstrip() + "\n")
    with open(os.path.join(os.path.dirname(path), "redundancy.svg"), "w", encoding="utf-8") as file:
        file.write(figure(results))
