#!/usr/bin/env python3
"""Checks what `carrick reproduce` wrote into a directory: every scenario's JSON and CSV, and the report.

Usage: check_report.py DIR. Prints what is wrong, one line each; exit status 1 if anything is.
"""
import csv
import json
import pathlib
import re
import sys

FIELDS = ["id", "label", "unit", "bound", "published", "measured", "ci95", "n", "note"]
LIVE_FIELDS = ["id", "label", "unit", "published", "simulated", "live", "ci95", "n", "difference", "note"]
LIVE_REQUIRED = {
    "satellite": [f"{variant}.{what}.{way}" for variant in ("standard", "modified", "best") for what in ("delay", "recovery", "throughput") for way in ("udp", "raw")]
    + [f"gain.recovery.{way}" for way in ("udp", "raw")],
    "failover": [f"{variant}.{what}.{way}" for variant in ("pmr2", "pmr3", "pmr4", "pmr5", "best") for what in ("failover", "transfer") for way in ("udp", "raw")],
    "firewall": [f"{cell}.{what}.{way}" for cell in ("sctp.p0.n1", "sctp.p1.n1", "sctp.p1.n6", "sctp.p5.n1", "sctp.p5.n6", "best.p1.n1") for what in ("mean", "q99") for way in ("udp", "raw")]
    + [f"tcp.p{loss}.n1.{what}.{name}" for loss in (1, 5) for what in ("mean", "q99") for name in ("reno", "cubic", "bbr")],
}
REQUIRED = {
    "satellite": [f"{variant}.{what}" for variant in ("tcp", "standard", "modified", "best") for what in ("delay", "recovery", "throughput")],
    "mobile-ip": [f"{what}.{loss}.throughput" for what in ("config1", "config2", "best") for loss in (0, 1, 2, 5)]
    + [
        f"{stack}.{kind}.interruption"
        for stack in ("standard", "best")
        for kind in ("re-registration", "failover", "asconf", "make-before-break")
    ]
    + ["config3.old-rule.delivered", "config3.paper.delivered"],
    "failover": [
        f"pmr{retrans}.{what}"
        for retrans in (2, 3, 4, 5)
        for what in ("failover-a", "failover-b", "failover-c", "failover", "transfer-a", "transfer-bc")
    ]
    + ["best.failover", "congested.best.failover", "congested.best.false-failovers"],
    "overhead": [
        f"{kind}.{size}.{what}" for kind in ("counted", "uncounted") for size in range(10, 201, 10) for what in ("share", "jain")
    ]
    + [f"{flow}.{size}" for flow in ("extra250", "true.sws-both", "best") for size in (20, 50, 100, 200, 400, 700, 1000, 1400)],
}


def check_scenario(path, report, faults):
    result = json.loads(path.read_text())
    name = result.get("scenario")
    if name != path.stem:
        faults.append(f"{path.name}: scenario is {name!r}")
    if not isinstance(result.get("seed"), int):
        faults.append(f"{path.name}: no seed")
    rows = {row.get("id"): row for row in result.get("rows", [])}
    for wanted in REQUIRED.get(name, []):
        if wanted not in rows:
            faults.append(f"{path.name}: no row {wanted}")
    for key, row in rows.items():
        if sorted(row) != sorted(FIELDS):
            faults.append(f"{path.name}: row {key} has fields {sorted(row)}")
        elif not isinstance(row["measured"], (int, float)):
            faults.append(f"{path.name}: row {key} was not measured")
        elif row["label"] not in report and row["label"].replace("'", "&#39;") not in report:
            faults.append(f"report.html: no row {row['label']!r}")
    with path.with_suffix(".csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    if [row["id"] for row in table] != [row["id"] for row in result["rows"]]:
        faults.append(f"{path.stem}.csv: other rows than {path.name}")
    return rows


def check_live(path, live, report, faults):
    """The part of a run with --live: every row measured both ways, a note where they are far apart."""
    if not live.get("rows"):
        if not live.get("notes"):
            faults.append(f"{path.name}: no live run and no reason")
        return
    faults.extend(f"{path.name}: {note}" for note in live["notes"] if "went wrong" in note)
    rows = {row.get("id"): row for row in live["rows"]}
    for wanted in LIVE_REQUIRED.get(path.stem, []):
        if wanted not in rows:
            faults.append(f"{path.name}: no live row {wanted}")
    for key, row in rows.items():
        if sorted(row) != sorted(LIVE_FIELDS):
            faults.append(f"{path.name}: live row {key} has fields {sorted(row)}")
            continue
        # A congestion control that the kernel has not got is told in the notes.
        if row["live"] is None and not any("Not run" in note for note in live["notes"]):
            faults.append(f"{path.name}: live row {key} was not measured")
        if row["difference"] is not None and abs(row["difference"]) > 5 and not row["note"]:
            faults.append(f"{path.name}: live row {key} differs by {row['difference']:.1f} % without a reason")
        if f'data-live="{key}"' not in report:
            faults.append(f"report.html: no live row {key}")
    if not isinstance((live.get("accuracy") or {}).get("late_p99"), float):
        faults.append(f"{path.name}: the accuracy of the live runs was not measured")
    with path.with_name(f"{path.stem}-live.csv").open(newline="") as file:
        if [row["id"] for row in csv.DictReader(file)] != list(rows):
            faults.append(f"{path.stem}-live.csv: other rows than {path.name}")


def main():
    out = pathlib.Path(sys.argv[1])
    faults = []
    report = (out / "report.html").read_text()
    if re.search(r'(src|href)="https?:', report) or "<script" in report:
        faults.append("report.html: is not self-contained")
    if "<svg" not in report:
        faults.append("report.html: has no figure")
    scenarios = sorted(out.glob("*.json"))
    if not scenarios:
        faults.append("no scenario was written")
    for path in scenarios:
        rows = check_scenario(path, report, faults)
        live = json.loads(path.read_text()).get("live")
        if live is not None:
            check_live(path, live, report, faults)
        if path.stem == "satellite" and not faults:
            best, standard, modified = (rows[f"{v}.delay"]["measured"] for v in ("best", "standard", "modified"))
            if not best < min(standard, modified):
                faults.append(f"satellite: best {best} is not under standard {standard} and modified {modified}")
            if not modified < standard:
                faults.append(f"satellite: modified {modified} is not under standard {standard}")
        if path.stem == "mobile-ip" and not faults:
            for loss in (0, 1, 2, 5):
                row = rows[f"config1.{loss}.throughput"]
                # As far as so many repetitions can tell.
                if abs(row["measured"] - row["published"]) - (row["ci95"] or 0) > 0.1 * row["published"]:
                    faults.append(f"mobile-ip: configuration 1 at {loss} % is {row['measured']}, published {row['published']}")
            old, paper = (rows[f"config3.{v}.delivered"]["measured"] for v in ("old-rule", "paper"))
            if not old < 50 < paper == 100:
                faults.append(f"mobile-ip: configuration 3 delivers {old} % with the old rule and {paper} % without")
            for stack in ("standard", "best"):
                soft = rows[f"{stack}.make-before-break.interruption"]["measured"]
                if not soft < 107.5:
                    faults.append(f"mobile-ip: make before break interrupts for {soft} ms with {stack} settings")
        if path.stem == "failover" and not faults:
            if not rows["best.failover"]["measured"] < 200:
                faults.append("failover: the best settings take 200 ms or more")
            if rows["congested.best.false-failovers"]["measured"] != 0:
                faults.append("failover: the best settings take congestion for a break")
        if path.stem == "overhead" and not faults:
            for size in (20, 50, 100, 200, 400, 700, 1000, 1400):
                if not 0.97 < rows[f"best.{size}"]["measured"] < 1.03:
                    faults.append(f"overhead: the default settings send {size} bytes {rows[f'best.{size}']['measured']} times")
    for fault in faults:
        print(fault)
    print(f"{len(scenarios)} scenarios, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
