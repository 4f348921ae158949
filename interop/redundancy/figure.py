"""Figure of the table: the longest silence of each failure and stack on a logarithmic axis, as SVG."""

import math
from html import escape

import expectations
from columns import COLUMNS
from rows import ROWS

# Colours that differ for people who do not see all of them, and marks that differ in print.
STYLES = {
    "crate-udp": ("#0072b2", "circle"), "crate-ip": ("#0072b2", "ring"), "run-udp": ("#00805e", "square"), "run-ip": ("#00805e", "frame"),
    "signaling-udp": ("#9a4f96", "diamond"), "signaling-ip": ("#9a4f96", "rhombus"), "linux": ("#d55e00", "triangle"), "mptcp": ("#1b1f24", "cross"),
    "stp-udp": ("#56707f", "square"), "usrsctp": ("#b8860b", "plus"),
}
LEFT, RIGHT, LINE, TOP = 590, 1090, 24, 96
LOW, HIGH = 0.01, 200.0


def x(value):
    """Returns the position of a time on the axis."""
    share = math.log(min(max(value, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (RIGHT - LEFT)


def mark(shape, colour, at, y):
    if shape in ("circle", "ring"):
        fill = colour if shape == "circle" else "#ffffff"
        return f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'
    paths = {
        "square": f"M{at - 4:.1f} {y - 4:.1f}h8v8h-8z", "frame": f"M{at - 4:.1f} {y - 4:.1f}h8v8h-8z",
        "diamond": f"M{at:.1f} {y - 5.5:.1f}l5 5.5l-5 5.5l-5-5.5z", "rhombus": f"M{at:.1f} {y - 5.5:.1f}l5 5.5l-5 5.5l-5-5.5z",
        "triangle": f"M{at:.1f} {y - 5:.1f}l5 9h-10z", "cross": f"M{at - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8", "plus": f"M{at - 5:.1f} {y:.1f}h10m-5-5v10",
    }
    fill = colour if shape in ("square", "diamond", "triangle") else "none" if shape in ("cross", "plus") else "#ffffff"
    return f'<path d="{paths[shape]}" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'


def figure(results):
    """Returns the figure."""
    rows = [row for row in ROWS if any(result["row"] == row.name for result in results)]
    present = {result["column"] for result in results}
    columns = [column for column in COLUMNS if column.name in present]
    worst = {}
    for result in results:
        if "failed" not in result:
            key = (result["row"], result["column"])
            worst[key] = max(worst.get(key, 0), result["silence"])
    height = TOP + LINE * len(rows) + 40
    bottom = TOP + LINE * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1110 {height}" role="img" font-family="system-ui, sans-serif" font-size="13" '
        'aria-label="Longest silence of each kind of failure and stack">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="8" y="20" font-size="15" font-weight="600" fill="#1b1f24">Longest silence [s]</text>',
    ]
    for number, column in enumerate(columns):
        at, y = 16 + 270 * (number % 4), 42 + 20 * (number // 4)
        parts.append(mark(STYLES[column.name][1], STYLES[column.name][0], at, y))
        parts.append(f'<text x="{at + 12}" y="{y + 5}" fill="#1b1f24">{escape(column.title.replace("`", ""))}</text>')
    for value in (0.02, 0.1, 1, 10, 100):
        parts.append(f'<path d="M{x(value):.1f} {TOP}V{bottom}" stroke="#d9dde2"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#5b6470">{value:g}</text>')
    aim = expectations.BOUNDS["aim"]["default"]
    parts.append(f'<path d="M{x(aim):.1f} {TOP}V{bottom}" stroke="#5b6470" stroke-dasharray="4 3"/>')
    parts.append(f'<text x="{x(aim):.1f}" y="{bottom + 34}" text-anchor="middle" fill="#5b6470">aim {aim:g} s</text>')
    for number, row in enumerate(rows):
        y = TOP + LINE * (number + 0.5)
        title = row.title if len(row.title) <= 92 else row.title[:90] + "…"
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4.5:.1f}" text-anchor="end" fill="#1b1f24">{escape(title)}</text>')
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#eef0f3"/>')
        for column in columns:
            if (value := worst.get((row.name, column.name))) is not None:
                parts.append(mark(STYLES[column.name][1], STYLES[column.name][0], x(value), y))
    return "\n".join([*parts, "</svg>"]) + "\n"
