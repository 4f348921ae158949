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
LOSSES = ("0", "0.5", "1", "2", "3", "5", "7", "10")
REQUIRED_TIMES = ("failover-a", "failover-b", "failover-c", "failover", "transfer-a", "transfer-bc")
FLOW_SIZES = (20, 50, 100, 200, 400, 700, 1000, 1400)
REQUIRED = {
    "satellite": [f"{variant}.{what}" for variant in ("tcp", "standard", "modified", "best") for what in ("delay", "recovery", "throughput")],
    "mobile-ip": [f"{what}.{loss}.throughput" for what in ("tcp", "tcp-like", "config1", "config2", "best") for loss in (0, 1, 2, 5)]
    + [f"{what}.{loss}.throughput" for what in ("counters1", "counters2") for loss in (1, 2, 5)]
    + [f"{what}.{loss}" for what in ("gain", "counters-gain") for loss in (1, 2, 5)]
    + [
        f"{stack}.{kind}.interruption"
        for stack in ("standard", "best")
        for kind in ("re-registration", "failover", "asconf", "make-before-break")
    ]
    + ["config3.old-rule.delivered", "config3.paper.delivered"],
    "failover": [
        f"pmr{retrans}.{what}"
        for retrans in (2, 3, 4, 5)
        for what in REQUIRED_TIMES
    ]
    + [f"{load}best.{what}" for load in ("", "bursts.", "concurrent.", "congested.") for what in ("failover", "false-failovers")],
    "firewall": [f"sctp.p{loss}.n{streams}.mean" for loss in LOSSES for streams in (1, 2, 3, 4, 6, 8, 10)]
    + [f"tcp.p{loss}.n1.mean" for loss in LOSSES],
    "overhead": [
        f"{kind}.{size}.{what}" for kind in ("counted", "uncounted") for size in range(10, 201, 10) for what in ("share", "jain")
    ]
    + [f"{flow}.{size}" for flow in ("extra250", "memory-left.sws-both", "true.sws-both", "best") for size in FLOW_SIZES],
}
LIVE_REQUIRED = {
    "satellite": [f"{variant}.{what}.{way}" for variant in ("standard", "modified", "best") for what in ("delay", "recovery", "throughput") for way in ("udp", "raw")]
    + [f"gain.recovery.{way}" for way in ("udp", "raw")],
    "failover": [f"{variant}.{what}.{way}" for variant in ("pmr2", "pmr3", "pmr4", "pmr5", "best") for what in ("failover", "transfer") for way in ("udp", "raw")],
    "firewall": [f"{cell}.{what}.{way}" for cell in ("sctp.p0.n1", "sctp.p1.n1", "sctp.p1.n6", "sctp.p5.n1", "sctp.p5.n6", "best.p1.n1") for what in ("mean", "q99") for way in ("udp", "raw")]
    + [f"tcp.p{loss}.n1.{what}.{name}" for loss in (1, 5) for what in ("mean", "q99") for name in ("reno", "cubic", "bbr")],
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


def measured(rows, key):
    return rows[key]["measured"]


def outside(row, low, high):
    """Whether a row is outside a range, as far as its repetitions can tell."""
    uncertain = row["ci95"] or 0
    return row["measured"] + uncertain < low or row["measured"] - uncertain > high


def satellite(rows):
    best, standard, modified = (measured(rows, f"{v}.delay") for v in ("best", "standard", "modified"))
    if not best < min(standard, modified):
        yield f"best {best} is not under standard {standard} and modified {modified}"
    if not modified < standard:
        yield f"modified {modified} is not under standard {standard}"
    # The bounds know no waiting in the sender, and where the load waits there it is in another row.
    recovery = rows["best.recovery"]
    if not recovery["measured"] <= 1.1 * recovery["bound"]:
        yield f"best {recovery['measured']} is more than 10 % above the bound {recovery['bound']}"
    for key, low, high in (("standard.recovery", 708, 803), ("modified.recovery", 483, 553), ("gain.recovery", 200, 260)):
        if outside(rows[key], low, high):
            yield f"{key} is {rows[key]['measured']}, not between {low} and {high}"
    throughput = rows["best.throughput"]
    if not throughput["measured"] >= 0.9 * throughput["bound"]:
        yield f"best carries {throughput['measured']} of {throughput['bound']}"


def firewall(rows):
    """The model is met up to 2 % of loss, and not undercut above 1 %."""
    for loss in LOSSES:
        for streams in (1, 2, 3, 4, 6, 8, 10):
            key = f"sctp.p{loss}.n{streams}.mean"
            row = rows[key]
            model = row["published"]
            if float(loss) <= 2 and outside(row, 0.97 * model, 1.03 * model):
                yield f"{key} is {row['measured']}, the model {model}"
            if float(loss) > 1 and outside(row, model, float("inf")):
                yield f"{key} is {row['measured']}, below the model {model}"
        if not measured(rows, f"tcp.p{loss}.n1.mean") >= measured(rows, f"sctp.p{loss}.n1.mean") - 0.05:
            yield f"TCP is faster than SCTP with one stream at {loss} %"


def mobile_ip(rows):
    for loss in (0, 1, 2, 5):
        row = rows[f"config1.{loss}.throughput"]
        if outside(row, 0.9 * row["published"], 1.1 * row["published"]):
            yield f"configuration 1 at {loss} % is {row['measured']}, published {row['published']}"
    for loss in (1, 5):
        gain = rows[f"gain.{loss}"]
        if outside(gain, 0, float("inf")):
            yield f"the second link gains {gain['measured']} % at {loss} %"
        if gain["measured"] < gain["published"] and not gain["note"]:
            yield f"the gain at {loss} % is less than published without a reason"
    old, paper = (measured(rows, f"config3.{v}.delivered") for v in ("old-rule", "paper"))
    if not old < 50 < paper == 100:
        yield f"configuration 3 delivers {old} % with the old rule and {paper} % without"
    for stack in ("standard", "best"):
        soft = measured(rows, f"{stack}.make-before-break.interruption")
        if not soft < 107.5:
            yield f"make before break interrupts for {soft} ms with {stack} settings"


def failover(rows):
    for retrans in (2, 3, 4, 5):
        for what in REQUIRED_TIMES:
            row = rows[f"pmr{retrans}.{what}"]
            if outside(row, 0.95 * row["published"], 1.05 * row["published"]) and not row["note"]:
                yield f"{row['id']} is {row['measured']}, published {row['published']}, without a reason"
    for load in ("", "bursts.", "concurrent.", "congested."):
        time, wrong = (measured(rows, f"{load}best.{what}") for what in ("failover", "false-failovers"))
        if not time < 200:
            yield f"the best settings take {time} ms {load}"
        if wrong != 0:
            yield f"the best settings take congestion for a break {load}"


def overhead(rows):
    for size in FLOW_SIZES:
        for flow in ("true", "best"):
            key = f"{flow}.{size}" if flow == "best" else f"{flow}.sws-both.{size}"
            if outside(rows[key], 0.99, 1.01):
                yield f"{key}: sent {rows[key]['measured']} times"
    for size in range(10, 201, 10):
        row = rows[f"counted.{size}.jain"]
        if outside(row, 0.99, 1):
            yield f"{row['id']} is {row['measured']}"


CLAIMS = {"satellite": satellite, "firewall": firewall, "mobile-ip": mobile_ip, "failover": failover, "overhead": overhead}


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
        if not faults:
            faults.extend(f"{path.stem}: {fault}" for fault in CLAIMS.get(path.stem, lambda _: [])(rows))
    for fault in faults:
        print(fault)
    print(f"{len(scenarios)} scenarios, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
