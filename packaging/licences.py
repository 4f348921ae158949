#!/usr/bin/env python3
"""Prints the crates of other authors that the packaged programs and libraries contain, with their licences.

    packaging/licences.py [--target x86_64-unknown-linux-gnu]

First a line for each crate; then each text of a licence or notice once, with the crates that have it.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = ("carrick-cli", "carrick-preload", "carrick-c")
TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def metadata_of(target):
    """Returns what cargo knows of all packages for a target, with all features of the command."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", "carrick-cli/full",
               "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def linked(metadata):
    """Returns the packages of other authors that the packaged crates need, without those of builds and tests."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    wanted = [identifier for identifier, package in packages.items() if package["name"] in PACKAGED]
    seen = set(wanted)
    while wanted:
        for dependency in nodes[wanted.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen and not is_macro(packages[dependency["pkg"]]):
                seen.add(dependency["pkg"])
                wanted.append(dependency["pkg"])
    others = [packages[identifier] for identifier in seen if packages[identifier]["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package):
    """Yields the texts of a package's licences."""
    folder = Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and TEXT.match(path.name):
            yield path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip()


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--target", default="x86_64-unknown-linux-gnu")
    options = top.parse_args()
    crates, holders = linked(metadata_of(options.target)), {}
    print("Crates of other authors in the programs and libraries, besides Rust's own libraries (MIT or Apache-2.0):\n")
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        print(f"{name}: {crate['license'] or 'see below'}")
        for text in texts(crate):
            holders.setdefault(text, []).append(name)
    for text, names in holders.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")


if __name__ == "__main__":
    main()
