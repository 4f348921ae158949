#!/usr/bin/env python3
"""Writes the results of today's means into docs/means.md, and copies their figures into docs/means/.

    scripts/means.py REPORT...

REPORT is a directory that `carrick reproduce --live` has written. An experiment that none of them has keeps its results.
"""

import json
import pathlib
import platform
import shutil
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGE, FIGURES = DOCS / "means.md", DOCS / "means"
EXPERIMENTS = ("satellite-means", "firewall-means", "mobile-ip-means", "failover-means", "overhead-means")


def measured(row):
    """Returns mean, half width of the interval and number of runs as cells of the table."""
    if row["measured"] is None:
        return "–", "–", str(row["n"])
    interval = "–" if row["ci95"] is None else f"± {row['ci95']:.3g}"
    value = row["measured"]
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}", interval, str(row["n"])


def lines(result):
    """Returns the part of the page about an experiment."""
    yield "| means and measure | unit | mean | 95 % | runs | note |"
    yield "|---|---|---|---|---|---|"
    for row in result["rows"]:
        yield f"| {' | '.join([row['label'], row['unit'], *measured(row), row['note']])} |"
    accuracy = result["live"]["accuracy"]
    yield ""
    if accuracy:
        load = "unknown" if accuracy["load"] is None else f"{accuracy['load']:.1f}"
        yield (
            f"Linux {platform.release()}, {result['repetitions']} repetitions. The emulator delivered {accuracy['packets']} packets, "
            f"{accuracy['late_median']:.2f} ms late in the median and {accuracy['late_p99']:.2f} ms at 99 %; the load of the machine was "
            f"{load} on {accuracy['cores']} cores when the runs began.\n"
        )
    yield from (f"- {note}" for note in result["live"]["notes"])


def main():
    reports = [pathlib.Path(name) for name in sys.argv[1:]]
    page = PAGE.read_text()
    FIGURES.mkdir(exist_ok=True)
    found = 0
    for name in EXPERIMENTS:
        for report in reports:
            path = report / f"{name}.json"
            if not path.exists():
                continue
            found += 1
            result = json.loads(path.read_text())
            begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
            before, _, rest = page.partition(begin)
            _, known, after = rest.partition(end)
            if not known:
                sys.exit(f"means: {PAGE} has no lines {begin} and {end}")
            text = "\n".join(lines(result)).strip()
            page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
            shutil.copy(report / f"{name}-means.svg", FIGURES)
    if not found:
        sys.exit("means: no result of today's means in " + " ".join(sys.argv[1:]))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
