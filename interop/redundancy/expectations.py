"""Bounds of expectations.toml, and the verdicts by them."""

import os
import tomllib

from columns import COLUMNS
from rows import INTERVAL, ROWS

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expectations.toml"), "rb") as file:
    BOUNDS = tomllib.load(file)
KINDS = {column.name: column.bound for column in COLUMNS if column.ours}
NOTICES = {row.name for row in ROWS if row.is_notice}
COUNTS = {"lost": "lost", "repeated": "repeated", "disordered": "out of order", "waiting": "not delivered"}


def times(name):
    return BOUNDS["times"][name]


def is_quick(row, column, policy):
    """Returns whether a cell is in the quick run."""
    return column + ("/policy" if policy else "") in BOUNDS["rows"].get(row, {}).get("quick", [])


def note(row):
    """Returns the remark on the aim of a row, or an empty text."""
    return BOUNDS["rows"].get(row, {}).get("note", "")


def bound(row, kind):
    """Returns the bound of a row in s: "default", "signaling" or "gate"."""
    return BOUNDS["rows"].get(row, {}).get(kind, BOUNDS["aim"][kind])


def has_to_end(result):
    """Returns whether the association of a cell has to end before a path works again."""
    return KINDS.get(result["column"]) in BOUNDS["rows"].get(result["row"], {}).get("ends", [])


def faults(result, limit):
    """Returns what a result has beyond its bound, as texts."""
    if has_to_end(result):
        return ["the association did not end"] if result["alive"] else []
    found = [f"{result[name]} messages {text}" for name, text in COUNTS.items() if result[name]]
    if result["row"] in NOTICES:
        if result["alive"]:
            found.append("the end of the association was not reported")
    elif not result["alive"]:
        found.append(f"the association ended: {result['ended']}")
    if result["silence"] > limit:
        found.append(f"{result['silence']:.2f} s, more than {limit:g} s")
    return found


def verdict(result):
    """Returns "met" or "not met" for carrick's columns, otherwise None."""
    kind = KINDS.get(result["column"])
    if kind is None:
        return None
    return "not met" if "failed" in result or faults(result, bound(result["row"], kind)) else "met"


def compared(results):
    """Returns (rows in which carrick's defaults are at or below each other stack's, rows with both). Silences are those of the worst
    cells of a column, and equal within two intervals of the stream.
    """
    worst = {}
    for result in results:
        if "failed" not in result:
            columns = worst.setdefault(result["row"], {})
            # What does not arrive at all is worse than any silence.
            value = float("inf") if faults(result, float("inf")) else result["silence"]
            columns[result["column"]] = max(columns.get(result["column"], 0), value)
    below = both = 0
    for columns in worst.values():
        ours = [value for column, value in columns.items() if KINDS.get(column) == "default"]
        others = [value for column, value in columns.items() if column not in KINDS]
        if ours and others:
            both += 1
            below += max(ours) <= min(others) + 2 * INTERVAL
    return below, both


def failing(states):
    """Returns (seconds, state) when an operator first saw a state other than active of some path, or None."""
    seen = [(at, state) for history in states.values() for at, state in history if state not in ("active", "estab", "unconfirmed") and at > 0]
    return min(seen, default=None)


def beyond_gate(result):
    """Returns why a cell of carrick's columns fails a test, as texts."""
    if result["column"] not in KINDS or "failed" in result:
        return []
    found = faults(result, bound(result["row"], "gate"))
    if result["column"] in BOUNDS["rows"].get(result["row"], {}).get("shows", []) and not failing(result["states"]):
        found.append("no path was shown as failing")
    return found


def line(result):
    """Returns the result in a line of text."""
    if "failed" in result:
        return f"FAILED: {result['failed']}"
    at_least = ">= " if result["open_end"] else ""
    parts = [f"{at_least}{result['silence']:.2f} s"]
    parts += [f"{result[name]} {text}" for name, text in COUNTS.items() if result[name]]
    if not result["alive"] and result["row"] not in NOTICES:
        parts.append(f"association ended ({result['ended']})")
    if seen := failing(result["states"]):
        parts.append(f"{seen[1]} shown after {seen[0]:.1f} s")
    if word := verdict(result):
        parts.append(word)
    return ", ".join(parts)
