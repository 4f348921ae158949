#!/usr/bin/env python3
"""Checks the links in the project's documents: the file must exist, and the heading of an anchor. Where a link to a Rust
or Python file has the name of a test in backquotes as its text, that file must have this test. Each page in docs/ must
be in docs/SUMMARY.md, and once. The links of the built book are checked by scripts/book.py.

Prints the faults, one per line; exit status 1 if there are any.
"""
import collections
import functools
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
SUMMARY = pathlib.Path("docs/SUMMARY.md")


def summary_faults(files):
    """Yields the pages that are missing in the summary of the book, and those listed more than once."""
    listed = [str(SUMMARY.parent / target) for _, target in LINK.findall(SUMMARY.read_text())]
    pages = {name for name in files if name.startswith("docs/") and name != str(SUMMARY)}
    yield from (f"{SUMMARY}: {name} is missing" for name in sorted(pages - set(listed)))
    yield from (f"{SUMMARY}: {name} is no page in docs/" for name in sorted(set(listed) - pages))
    yield from (f"{SUMMARY}: {name} is listed more than once" for name in sorted(pages) if listed.count(name) > 1)


@functools.cache
def anchors(path):
    """Returns the anchors of a document's headings, as GitHub generates them."""
    found, fenced = collections.Counter(), False
    for line in path.read_text().splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = not fenced and re.match(r"#+ +(.*?)(?: +#+)?$", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            found[re.sub(r"[^\w -]", "", text).replace(" ", "-")] += 1
    return set(found) | {f"{name}-{n}" for name, count in found.items() for n in range(1, count)}


def main():
    files = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    faults = tests = 0
    for fault in summary_faults(files):
        print(fault)
        faults += 1
    for name in files:
        document = pathlib.Path(name)
        for text, target in LINK.findall(document.read_text()):
            if target.startswith("http"):
                continue
            target, _, anchor = target.partition("#")
            path = document.parent / target if target else document
            if not path.exists():
                print(f"{name}: no such file: {target}")
                faults += 1
                continue
            if anchor and path.suffix == ".md" and anchor not in anchors(path):
                print(f"{name}: no such heading: {target}#{anchor}")
                faults += 1
            test = re.fullmatch(r"`(\w+)`", text)
            if test and path.suffix in (".rs", ".py"):
                tests += 1
                if not re.search(rf"\b(fn|def|mod) {test[1]}\b", path.read_text()):
                    print(f"{name}: {target} has no test {test[1]}")
                    faults += 1
    print(f"{len(files)} documents, {tests} named tests, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
