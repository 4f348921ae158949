#!/usr/bin/env python3
"""Checks the wings, the folders of `crates/`: a crate depends only on wings that the table in ARCHITECTURE.md lists for its own one.

    scripts/wings.py --check            fails on a dependency that the table lacks, on one that it has without need, on a crate that its
                                        wing's README lacks, and on a file or folder of the section "To change X, go to Y" that does not exist
    scripts/wings.py --packages WING    prints the names of the wing's crates, one a line

Dependencies of tests are not restricted. The table is the one whose header begins with `| wing |`; its third column has the names.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ROOT / "crates"


def packages():
    """Returns wing, folder, name and wings of the dependencies of each crate below `crates/`."""
    command = ["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    folders = {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in found}
    folders = {name: folder.relative_to(CRATES) for name, folder in folders.items() if folder.is_relative_to(CRATES)}
    for package in found:
        if package["name"] in folders:
            names = {item["name"] for item in package["dependencies"] if item["kind"] != "dev"} & folders.keys()
            folder = folders[package["name"]]
            yield folder.parts[0], folder, package["name"], {folders[name].parts[0] for name in names} - {folder.parts[0]}


def table():
    """Returns the wings that each wing may depend on, as ARCHITECTURE.md lists them."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("| wing |"))
    listed = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return listed
        wing, _, others = [cell.strip() for cell in line.split("|")[1:4]]
        listed[re.search(r"`([\w-]+)`", wing)[1]] = set(re.findall(r"`([\w-]+)`", others))
    return listed


def faults():
    """Returns a line for each difference between crates, table and READMEs."""
    listed, used = table(), {}
    for wing, folder, name, wings in packages():
        used.setdefault(wing, set()).update(wings)
        for other in sorted(wings - listed.get(wing, set())):
            yield f"{name} depends on {other}, which ARCHITECTURE.md does not list for {wing}"
        readme = CRATES / wing / "README.md"
        if len(folder.parts) > 1 and f"`{name}`" not in (readme.read_text() if readme.exists() else ""):
            yield f"{name} is missing in {readme.relative_to(ROOT)}"
    for wing in sorted(listed.keys() | used.keys()):
        if wing not in used or wing not in listed:
            yield f"{wing} is missing {'below crates/' if wing not in used else 'in the table of ARCHITECTURE.md'}"
        for other in sorted(listed.get(wing, set()) - used.get(wing, listed.get(wing, set()))):
            yield f"ARCHITECTURE.md lists {other} for {wing}, no crate of which depends on it"


def missing_places():
    """Returns a line for each file or folder that ARCHITECTURE.md sends its readers to and that does not exist."""
    listed = subprocess.run(["git", "ls-files", "crates", "experiments"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    files = ["/" + line for line in listed.stdout.split("\n")]
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## To change X, go to Y\n")[1].split("\n## ")[0]
    for place in re.findall(r"`([\w./-]+(?:\.rs|/))`", section):
        if not any("/" + place.rstrip("/") + ("" if place.endswith(".rs") else "/") in file + "\n" for file in files):
            yield f"ARCHITECTURE.md names {place}, which does not exist"


def main(arguments):
    if arguments == ["--check"]:
        found = [*faults(), *missing_places()]
        print("\n".join(found + [f"{len(found)} faults"]))
        return 1 if found else 0
    if len(arguments) == 2 and arguments[0] == "--packages":
        names = [name for wing, _, name, _ in packages() if wing == arguments[1]]
        print("\n".join(names))
        return 0 if names else 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
