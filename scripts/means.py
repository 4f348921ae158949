#!/usr/bin/env python3
"""Writes the results of today's means into docs/means.md, and copies their figures into docs/means/.

    scripts/means.py REPORT...
    scripts/means.py --check

REPORT is a directory that `carrick reproduce --live` has written. An experiment that none of them has keeps its results.
--check compares the marks of figures over names with the table beside them.
"""

import json
import pathlib
import platform
import re
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


def values(page, name):
    """Returns label and mean of the rows of an experiment, as the page has them, without those that have no mean."""
    text = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")][1:]
    return [(row[0], float(row[2])) for row in rows if row[2] != "–"]


def marks(svg):
    """Returns the names at the horizontal axis, and name and value of each mark by the label of its series; no name without an axis of names."""
    ticks = [(float(x), name) for x, name in re.findall(r'text-anchor="middle" x="([\d.]+)" y="[\d.]+">([^<]+)<', svg)]
    heights = [(float(y), float(value)) for y, value in re.findall(r'text-anchor="end" x="[\d.]+" y="([\d.]+)">([-\d.]+)<', svg)]
    labels = re.findall(r'class="entry"[^>]*>([^<]*)<', svg) or [""]
    if any(re.fullmatch(r"[-\d.]+", name) for _, name in ticks):
        return [], {}
    left, top = map(float, re.search(r'</svg><g transform="translate\(([\d.]+) ([\d.]+)\)">', svg).groups())
    # Text of a tick is 5 below its line.
    (low, least), (high, most) = heights[0], heights[-1]
    found = {}
    for points, label in zip(re.findall(r'class="curve"[^>]*d="M([-\d. L]+)"', svg[svg.index("<svg x=") :]), labels, strict=True):
        places = [tuple(map(float, point.split())) for point in points.split("L")]
        value = lambda y: least + (low - 5 - (y + top)) / (low - high) * (most - least)
        name = lambda x: next((name for tick, name in ticks if abs(tick - left - x) < 0.5), None)
        found[label] = [(name(x), value(y)) for x, y in places]
    return [name for _, name in ticks], found


def check():
    """Returns the differences between the figures over names and the tables of the page."""
    page, compared = PAGE.read_text(), 0
    for experiment in EXPERIMENTS:
        names, series = marks((FIGURES / f"{experiment}-means.svg").read_text())
        for label, points in series.items():
            rows = [(row, value) for row, value in values(page, experiment) if label in row]
            if [name for name, _ in points] != names or len(rows) != len(names):
                yield f"{experiment}: marks of {label!r} are at {[name for name, _ in points]}; expected {names} for {len(rows)} rows"
                continue
            for (name, shown), (row, value) in zip(points, rows, strict=True):
                compared += 1
                if abs(shown - value) > max(0.005 * abs(value), 0.6):
                    yield f"{experiment}: {name} is shown at {shown:.4g}, but {row!r} is {value:.4g}"
    if compared == 0:
        yield "no figure over names"


def main():
    if sys.argv[1:] == ["--check"]:
        faults = list(check())
        for fault in faults:
            print(f"means: {fault}")
        sys.exit(1 if faults else 0)
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
