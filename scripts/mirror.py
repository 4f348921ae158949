#!/usr/bin/env python3
"""Shows the shape of carrick-proto: methods of its types, and imports against the order of its modules.

    scripts/mirror.py             types with 20 methods or more, and all imports that run back up
    scripts/mirror.py --all       all types
    scripts/mirror.py --json

Methods are counted over all inherent `impl` blocks of a type outside of tests; `--json` lists their
files. The order of the modules is sessions, endpoint, association, its parts, path and cc; an import that
runs back up makes a lower module depend on a higher one. The rules of `research` are called by tx and
rx and name their types, so that it is one of the parts. The configuration, events, statistics and the
trace describe the types of all modules for the user, and all modules use them; they have no place in the
order.
"""

import collections
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "crates/carrick-proto/src"
RANKS = {"sessions": 6, "endpoint": 5, "association": 4, "path": 2, "cc": 1}
RANKS |= dict.fromkeys(["tx", "rx", "addresses", "streams", "auth", "protection", "ecn", "cookie", "research"], 3)
DESCRIPTIONS = ["config", "event", "stats", "trace"]
IMPL = re.compile(r"^impl(?:<[^>]*>)? (?:(?P<trait>[\w:<>, ]+) for )?(?P<type>\w+)")
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)")
IMPORT = re.compile(r"\bcrate::(\w+)")


def is_test(path):
    return path.name in ("tests.rs",) or path.name.endswith("_tests.rs")


def code(path):
    """Yields the lines of a file without its test module."""
    for line in path.read_text().split("\n"):
        if line.startswith("#[cfg(test)]"):
            return
        yield line


def measure():
    methods = collections.defaultdict(collections.Counter)
    upward = collections.Counter()
    for path in sorted(ROOT.rglob("*.rs")):
        if is_test(path):
            continue
        name = path.relative_to(ROOT)
        module = name.parts[0].removesuffix(".rs")
        current = None
        for line in code(path):
            if found := IMPL.match(line):
                current = None if found["trait"] else found["type"]
            elif line == "}":
                current = None
            elif current and METHOD.match(line):
                methods[current][str(name)] += 1
            if line.lstrip().startswith("//") or module in DESCRIPTIONS:
                continue
            for target in IMPORT.findall(line):
                if RANKS.get(target, 0) > RANKS.get(module, 0):
                    upward[f"{module} -> {target}", str(name)] += 1
    return methods, upward


def main():
    methods, upward = measure()
    least = 1 if "--all" in sys.argv else 20
    ranked = sorted(methods.items(), key=lambda entry: -entry[1].total())
    ranked = [(name, files) for name, files in ranked if files.total() >= least]
    edges = collections.defaultdict(set)
    for (edge, name), _ in upward.items():
        edges[edge].add(name)
    if "--json" in sys.argv:
        types = [{"type": name, "methods": files.total(), "files": dict(files)} for name, files in ranked]
        print(json.dumps({"types": types, "imports_up": {edge: sorted(names) for edge, names in edges.items()}}, indent=1))
        return
    for name, files in ranked:
        print(f"{files.total():4} methods of {name} in {len(files)} files")
    print(f"\n{sum(map(len, edges.values()))} files with imports that run back up")
    for edge, names in sorted(edges.items()):
        print(f"  {edge}: {', '.join(sorted(names))}")


main()
