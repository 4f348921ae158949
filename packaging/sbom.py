#!/usr/bin/env python3
"""Prints the software bill of materials of the packaged programs and libraries: CycloneDX 1.6 in JSON.

    packaging/sbom.py [--target x86_64-unknown-linux-gnu]

Components are the crates of other authors that are linked, with licence, source and checksum. Two runs on one commit give the
same bytes.
"""

import argparse
import json
import os
import subprocess
import time
import tomllib
import uuid

import licences


def checksums():
    """Returns the SHA-256 of each crate's archive, by name and version."""
    lock = tomllib.loads((licences.ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}


def component(package, checksum):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["license"]:
        # Older crates write a slash instead of OR.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ").replace("  ", " ")}]
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=licences.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--target", default="x86_64-unknown-linux-gnu")
    options = top.parse_args()
    metadata = licences.metadata_of(options.target)
    sums = checksums()
    own = next(package for package in metadata["packages"] if package["name"] == "carrick-cli")
    commit = git("rev-parse", "HEAD")
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    crates = licences.linked(metadata)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"{own['repository']}/{commit}/{options.target}")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "component": {
                "type": "application",
                "bom-ref": "carrick",
                "name": "carrick",
                "version": own["version"],
                "licenses": [{"expression": own["license"]}],
                "externalReferences": [{"type": "vcs", "url": own["repository"]}],
                "properties": [{"name": "carrick:commit", "value": commit}, {"name": "carrick:target", "value": options.target}],
            },
        },
        "components": [component(crate, sums.get((crate["name"], crate["version"]))) for crate in crates],
    }
    print(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main()
