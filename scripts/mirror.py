#!/usr/bin/env python3
"""Shows the shape of carrick-proto: methods of its types, open fields, and imports against the order of its modules.

    scripts/mirror.py             types with 20 methods or more, open fields, and all imports that run back up
    scripts/mirror.py --all       all types
    scripts/mirror.py --json

Methods are counted over all inherent `impl` blocks of a type outside of tests; `--json` lists their
files. A method serves only the export and import of state if its name occurs nowhere but in
implementations of `Portable`, in their lists of fields (`check`), in `export/`, and in other such methods.

A field is open if it is `pub(crate)`, `pub(super)` or `pub(in ...)`. The compiler finds who reaches into
it: it checks a copy of the crate in which these fields are private, and reports each use outside of the
module of the type. Struct literals and patterns are not among the uses, and a field that is reached
through another open field is not counted.

The order of the modules is sessions, endpoint, association, its parts, path, cc and export; an import that
runs back up makes a lower module depend on a higher one. The rules of `research` are called by tx and
rx and name their types, so that it is one of the parts. The configuration, events, statistics and the
trace describe the types of all modules for the user, and all modules use them; they have no place in the
order.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WORKSPACE = pathlib.Path(__file__).resolve().parent.parent
ROOT = WORKSPACE / "crates/sctp/proto/src"
RANKS = {"sessions": 6, "endpoint": 5, "association": 4, "path": 2, "cc": 1, "export": 0}
RANKS |= dict.fromkeys(["tx", "rx", "addresses", "streams", "auth", "protection", "ecn", "cookie", "research"], 3)
DESCRIPTIONS = ["config", "event", "stats", "trace"]
IMPL = re.compile(r"^impl(?:<[^>]*>)? (?:(?P<trait>[\w:<>, ]+) for )?(?P<type>\w+)")
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)")
IMPORT = re.compile(r"\bcrate::(\w+)")
STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)[^;]*\{$")
FIELD = re.compile(r"^    (pub(?:\([^)]*\))? )?(\w+):")
PRIVATE = re.compile(r"field `(\w+)` of struct `([\w:]+)(?:<.*>)?` is private")


def is_test(path):
    return path.name in ("tests.rs",) or path.name.endswith("_tests.rs")


def code(path):
    """Yields the lines of a file without its test module."""
    for line in path.read_text().split("\n"):
        if line.startswith("#[cfg(test)]"):
            return
        yield line


def sources():
    """Yields the name, the path and the first module of each file that is no test."""
    for path in sorted(ROOT.rglob("*.rs")):
        if not is_test(path):
            name = path.relative_to(ROOT)
            yield str(name), path, name.parts[0].removesuffix(".rs")


def measure():
    methods = collections.defaultdict(collections.Counter)
    upward = collections.Counter()
    for name, path, module in sources():
        current = None
        for line in code(path):
            if found := IMPL.match(line):
                current = None if found["trait"] else found["type"]
            elif line == "}":
                current = None
            elif current and METHOD.match(line):
                methods[current][name] += 1
            if line.lstrip().startswith("//") or module in DESCRIPTIONS:
                continue
            for target in IMPORT.findall(line):
                if RANKS.get(target, 0) > RANKS.get(module, 0):
                    upward[f"{module} -> {target}", name] += 1
    return methods, upward


def exporting():
    """Counts the methods of each type that serve only the export and import of state."""
    methods = set()
    users = collections.defaultdict(set)
    for _, path, module in sources():
        owner = "export" if module == "export" else None
        kind = method = None
        for line in code(path):
            if found := IMPL.match(line):
                kind = found["type"]
                method = "export" if (found["trait"] or "").endswith("Portable") else None
            elif line == "}":
                kind = method = None
            elif " check Self::" in line:
                method = "export"
            elif kind and method != "export" and (found := METHOD.match(line)):
                method = (kind, found[1])
                methods.add(method)
                line = line.replace(found[1], "", 1)
            if not line.lstrip().startswith("//"):
                for word in set(re.findall(r"\w+", line)):
                    users[word].add(owner or method)
    serving = {"export"}
    while more := {m for m in methods - serving if users[m[1]] - {m} and users[m[1]] - {m} <= serving}:
        serving |= more
    return collections.Counter(kind for kind, _ in serving - {"export"})


def open_fields():
    """Returns, for each type with open fields, its file, fields and open fields, and the uses of these."""
    types = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for entry in ["Cargo.toml", "Cargo.lock"]:
            shutil.copy(WORKSPACE / entry, copy)
        (copy / "crates/sctp").mkdir(parents=True)
        for crate in [*(WORKSPACE / "crates").iterdir(), *(WORKSPACE / "crates/sctp").iterdir()]:
            if crate.name not in ("sctp", "proto"):
                (copy / crate.relative_to(WORKSPACE)).symlink_to(crate)
        shutil.copytree(ROOT.parent, copy / "crates/sctp/proto")
        for name, path, _ in sources():
            prefix = name.removesuffix(".rs").removesuffix("/mod").replace("/", "::")
            current, lines = None, []
            for line in path.read_text().split("\n"):
                if found := STRUCT.match(line):
                    current = {"file": name, "fields": 0, "open": [], "uses": []}
                    types[f"{prefix}::{found[1]}"] = current
                elif line == "}":
                    current = None
                elif current and (found := FIELD.match(line)):
                    current["fields"] += 1
                    if (found[1] or "").startswith("pub("):
                        current["open"].append(found[2])
                        line = line.replace(found[1], "", 1)
                lines.append(line)
            (copy / "crates/sctp/proto/src" / name).write_text("\n".join(lines))
        check = ["cargo", "check", "-p", "carrick-proto", "--message-format", "json"]
        target = os.environ | {"CARGO_TARGET_DIR": str(WORKSPACE / "target/mirror")}
        checked = subprocess.run(check, cwd=copy, env=target, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in checked.stdout.splitlines():
        report = json.loads(line)
        message = report["message"] if report["reason"] == "compiler-message" else {"spans": []}
        if message["spans"] and (private := PRIVATE.match(message["message"])):
            use = next(span["file_name"] for span in message["spans"] if span["is_primary"])
            # A type that is exported again is reported by another path.
            named = [name for name in types if name.endswith(private[2]) and private[1] in types[name]["open"]]
            types[named[0]]["uses"].append((use.split("src/", 1)[1], private[1]))
    if checked.returncode != 0 and not any(found["uses"] for found in types.values()):
        sys.exit("cargo check failed for another reason than private fields")
    return {name: found for name, found in types.items() if found["open"]}


def modules(uses):
    """Returns the modules of the uses with their numbers, for reading."""
    counts = collections.Counter(use.split("/")[0].removesuffix(".rs") for use, _ in uses)
    return ", ".join(f"{module} {count}" for module, count in counts.most_common()) or "none"


def main():
    methods, upward = measure()
    serving = exporting()
    fields = open_fields()
    least = 1 if "--all" in sys.argv else 20
    ranked = sorted(methods.items(), key=lambda entry: -entry[1].total())
    ranked = [(name, files) for name, files in ranked if files.total() >= least]
    edges = collections.defaultdict(set)
    for (edge, name), _ in upward.items():
        edges[edge].add(name)
    if "--json" in sys.argv:
        types = [
            {"type": name, "methods": files.total(), "of_export": serving[name], "files": dict(files)}
            for name, files in ranked
        ]
        imports = {edge: sorted(names) for edge, names in edges.items()}
        print(json.dumps({"types": types, "open_fields": fields, "imports_up": imports}, indent=1))
        return
    for name, files in ranked:
        share = f", {serving[name]} of them for export and import only" if serving[name] else ""
        print(f"{files.total():4} methods of {name} in {len(files)} files{share}")
    for title, is_value in [("types with open and private fields", False), ("values, whose fields are all open", True)]:
        group = {n: f for n, f in fields.items() if (len(f["open"]) == f["fields"]) == is_value}
        print(f"\n{len(group)} {title}, {sum(len(f['uses']) for f in group.values())} uses from other modules")
        for name, found in sorted(group.items(), key=lambda entry: -len(entry[1]["uses"])):
            share = f"{len(found['open'])} of {found['fields']} fields open"
            if found["uses"] or "--all" in sys.argv:
                print(f"{len(found['uses']):4} uses of {name} ({share}): {modules(found['uses'])}")
    print(f"\n{sum(map(len, edges.values()))} files with imports that run back up")
    for edge, names in sorted(edges.items()):
        print(f"  {edge}: {', '.join(sorted(names))}")


main()
