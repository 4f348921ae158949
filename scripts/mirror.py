#!/usr/bin/env python3
"""Shows the shape of carrick-proto: methods of its types, open fields, and modules that import one another.

    scripts/mirror.py             types with 20 methods or more, open fields, and the shortest circle of modules
    scripts/mirror.py --all       all types
    scripts/mirror.py --json
    scripts/mirror.py --check [CRATE...]
                                  fails if the modules of a crate import one another in a circle: those in ACYCLIC, or those in these
                                  folders; names the shortest circle with a file and line of each import

Methods are counted over all inherent `impl` blocks of a type outside of tests; `--json` lists their
files. A method serves only the export and import of state if its name occurs nowhere but in
implementations of `Portable`, in their lists of fields (`check`), in `export/`, and in other such methods.

A field is open if it is `pub(crate)`, `pub(super)` or `pub(in ...)`. The compiler finds who reaches into
it: it checks a copy of the crate in which these fields are private, and reports each use outside of the
module of the type. Struct literals and patterns are not among the uses, and a field that is reached
through another open field is not counted.

A module is one that `lib.rs` declares; a file below it counts as part of it. It imports another one by a path that begins with
`crate::`, by one of `super::` that leaves the module, and by a macro of a module with `#[macro_use]`. A name that `lib.rs` exports
again is that of its module. `lib.rs` itself is a module, too: what it defines must not be imported by what it imports. Tests are
left out: items and files under `#[cfg(test)]`.
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
# Crates whose modules form no circle.
ACYCLIC = ["crates/sctp/proto", "crates/sockets/sockets", "crates/sockets/daemon"]
IMPL = re.compile(r"^impl(?:<[^>]*>)? (?:(?P<trait>[\w:<>, ]+) for )?(?P<type>\w+)")
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)")
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^'\n]*|[^\\'\n])'""", re.DOTALL
)
TOKEN = re.compile(r"\w+|::|\S")
TEST = ["#", "[", "cfg", "(", "test", ")", "]"]
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
    for name, path, _ in sources():
        current = None
        for line in code(path):
            if found := IMPL.match(line):
                current = None if found["trait"] else found["type"]
            elif line == "}":
                current = None
            elif current and METHOD.match(line):
                methods[current][name] += 1
    return methods


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
        (copy / "bindings").symlink_to(WORKSPACE / "bindings")
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


def end_of_group(tokens, start):
    """Returns the index behind the group of brackets that begins at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index][0] in "([{") - (tokens[index][0] in ")]}")
        if depth == 0:
            return index + 1
    return len(tokens)


def without_tests(tokens):
    """Returns the tokens without items under `#[cfg(test)]`, and the modules that these items declare."""
    kept, declared, index = [], set(), 0
    while index < len(tokens):
        if [token for token, _ in tokens[index : index + len(TEST)]] != TEST:
            kept.append(tokens[index])
            index += 1
            continue
        index += len(TEST)
        start = index
        while index < len(tokens) and tokens[index][0] != ";":
            group = tokens[index][0] in "([{"
            is_body = tokens[index][0] == "{"
            index = end_of_group(tokens, index) if group else index + 1
            if is_body:
                break
        item = [token for token, _ in tokens[start : index + 1]]
        if "mod" in item and item[-1] == ";":
            declared.add(item[item.index("mod") + 1])
        index += item[-1:] == [";"]
    return kept, declared


def leaves(tokens, index, head=None):
    """Yields, for each path in a tree of `use`, its first name with the line, and the name that it imports."""
    name, continues = None, True
    while index < len(tokens):
        token, line = tokens[index]
        if continues and token == "{":
            end = end_of_group(tokens, index) - 1
            index += 1
            while index < end:
                start = index
                while index < end and tokens[index][0] != ",":
                    index = end_of_group(tokens, index) if tokens[index][0] == "{" else index + 1
                yield from leaves(tokens[start:index], 0, head)
                index += 1
            return
        if continues and re.match(r"[\w*]", token):
            head, name, continues = head or (token, line), token, False
        elif not continues and token in ("::", "as"):
            continues = True
        else:
            break
        index += 1
    if head:
        yield (*head, name)


def parse(crate):
    """Returns the tokens of each file of a crate outside of tests."""
    source = crate / "src"
    files, tests = {}, set()
    for path in sorted(source.rglob("*.rs")):
        text = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), path.read_text())
        tokens = [(token, number) for number, line in enumerate(text.split("\n"), 1) for token in TOKEN.findall(line)]
        files[path], declared = without_tests(tokens)
        folder = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        tests |= {folder / name for name in declared}
    return {path: tokens for path, tokens in files.items() if not tests & {path.with_suffix(""), *path.parents}}


def names_of_root(tokens):
    """Returns the modules that the root of a crate declares, those with macros for all, and the module of each name that it imports."""
    words = [token for token, _ in tokens]
    declared, with_macros, names = set(), set(), {}
    for index, word in enumerate(words):
        if word == "mod" and words[index + 2] == ";":
            declared.add(words[index + 1])
            before = words[max(0, index - 6) : index]
            if "macro_use" in before and ";" not in before[before.index("macro_use") :]:
                with_macros.add(words[index + 1])
    for index, word in enumerate(words):
        if word == "use":
            for head, _, name in leaves(tokens, index + 1):
                if head in declared:
                    names[name] = head
    return declared, with_macros, names


def paths(tokens, depth):
    """Yields the first name of each path that leads to the root of the crate, with its line. `depth` is that of the file's module."""
    inline, level, index = [], 0, 0
    while index < len(tokens):
        token, line = tokens[index]
        following = tokens[index + 1][0] if index + 1 < len(tokens) else ""
        first = index == 0 or tokens[index - 1][0] != "::"
        if token == "mod" and index + 2 < len(tokens) and tokens[index + 2][0] == "{":
            inline.append(level)
        level += (token == "{") - (token == "}")
        if token == "}" and inline and inline[-1] == level:
            inline.pop()
        if token in ("crate", "super") and following == "::" and first:
            index += 2
            left = depth + len(inline) - 1
            while token == "super" and tokens[index][0] == "super":
                index += 2
                left -= 1
            if token == "crate" or left <= 0:
                yield from ((head, line) for head, line, _ in leaves(tokens, index))
            continue
        if token.isidentifier() and following == "!":
            yield token + "!", line
        index += 1


def imports(crate):
    """Returns the modules of a crate, and for each of them the modules that it imports, with a file and line."""
    files = parse(crate)
    source = crate / "src"
    root = next(source / name for name in ("lib.rs", "main.rs") if source / name in files)
    declared, with_macros, names = names_of_root(files[root])
    owners = {}
    for path, tokens in files.items():
        module = path.relative_to(source).parts[0].removesuffix(".rs")
        words = [token for token, _ in tokens]
        for index, word in enumerate(words[:-2]):
            if word == "macro_rules" and module in with_macros:
                owners[words[index + 2] + "!"] = names[words[index + 2]] = module
    found = {module: {} for module in sorted(declared | {root.stem})}
    for path, tokens in files.items():
        parts = path.relative_to(source).parts
        module = parts[0].removesuffix(".rs")
        if module not in found:
            continue
        depth = 0 if path == root else len(parts) - (parts[-1] == "mod.rs")
        places = list(paths(tokens, depth))
        if path == root:
            starts = (index + 1 for index, (token, _) in enumerate(tokens) if token == "use")
            places += [(head, line) for start in starts for head, line, _ in leaves(tokens, start) if head in declared]
        for name, line in places:
            target = owners.get(name) if name.endswith("!") else name if name in declared else names.get(name, root.stem)
            if target and target != module:
                found[module].setdefault(target, f"{path.relative_to(crate)}:{line}")
    return found


def shortest_circle(graph):
    """Returns the modules of a shortest circle, the first one again at its end, or nothing; and the number of modules in circles."""
    circles = []
    for start in graph:
        before, queue = {}, [start]
        for module in queue:
            for target in graph[module]:
                if target not in before:
                    before[target] = module
                    queue.append(target)
        if start in before:
            circle = [start]
            while len(circle) == 1 or circle[-1] != start:
                circle.append(before[circle[-1]])
            circles.append(circle[::-1])
    return min(circles, key=len, default=[]), len(circles)


def report_circle(crate):
    """Prints whether the modules of a crate form a circle, and the shortest one. Returns whether there is one."""
    graph = imports(crate)
    circle, inside = shortest_circle(graph)
    name = crate.relative_to(WORKSPACE) if crate.is_relative_to(WORKSPACE) else crate
    print(f"{name}: {len(graph)} modules, " + (f"{inside} of them in circles; a shortest one:" if circle else "no circle"))
    for module, target in zip(circle, circle[1:]):
        print(f"  {module} imports {target} ({graph[module][target]})")
    return bool(circle)


def modules(uses):
    """Returns the modules of the uses with their numbers, for reading."""
    counts = collections.Counter(use.split("/")[0].removesuffix(".rs") for use, _ in uses)
    return ", ".join(f"{module} {count}" for module, count in counts.most_common()) or "none"


def main():
    if "--check" in sys.argv:
        crates = [argument for argument in sys.argv[1:] if argument != "--check"]
        sys.exit(any([report_circle((WORKSPACE / crate).resolve()) for crate in crates or ACYCLIC]))
    methods = measure()
    serving = exporting()
    fields = open_fields()
    least = 1 if "--all" in sys.argv else 20
    ranked = sorted(methods.items(), key=lambda entry: -entry[1].total())
    ranked = [(name, files) for name, files in ranked if files.total() >= least]
    if "--json" in sys.argv:
        types = [
            {"type": name, "methods": files.total(), "of_export": serving[name], "files": dict(files)}
            for name, files in ranked
        ]
        circle, _ = shortest_circle(imports(ROOT.parent))
        print(json.dumps({"types": types, "open_fields": fields, "circle": circle}, indent=1))
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
    print()
    report_circle(ROOT.parent)


main()
