#!/usr/bin/env python3
"""Runs the image of image.sh with Debian's podman and runc: the pod of packaging/kubernetes/sidecar, with iperf3 as its
program, whose command and preload library the image copies. No container has capabilities or a user with privileges.

    packaging/image_test.py --image FILE [--built target/debug] [-v]

Storage, networks and containers are in a directory of the test, and removed at the end.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, f"{ROOT}/interop")
import containers  # noqa: E402

RIGHTS = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only")


def check(podman, archive):
    """Loads the image, and returns its name."""
    # The last line is "Loaded image: NAME", or with "(s)".
    name = podman("load", "--input", archive).strip().splitlines()[-1].split(": ")[-1]
    described = json.loads(podman("image", "inspect", name))[0]
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    labels = described["Labels"]
    assert described["User"] == f"{containers.USER}:{containers.USER}", described["User"]
    assert labels["org.opencontainers.image.revision"] == revision, labels
    assert name.endswith(f":{labels['org.opencontainers.image.version']}"), (name, labels)
    version = podman("run", "--rm", *RIGHTS, "--network", "none", name, "--version")
    assert version.startswith(f"carrick {labels['org.opencontainers.image.version'].split('-')[0]}"), version
    return name


def sidecar(podman, image):
    """Runs the pod of the sidecar, without what Debian's podman 4.3 does not have."""
    rendered = subprocess.run([f"{ROOT}/packaging/kubernetes/render.sh", "sidecar"], check=True, stdout=subprocess.PIPE).stdout
    deployment = next(document for document in yaml.safe_load_all(rendered) if document["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    for container in template["spec"]["initContainers"] + template["spec"]["containers"]:
        container.pop("startupProbe", None)
        container.pop("resources", None)
    # A volume in memory belongs to root there.
    for volume in template["spec"]["volumes"]:
        volume["emptyDir"] = {}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sctp"} | template["metadata"], "spec": template["spec"]}
    containers.play(podman, pod, {"carrick": image})


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--image", required=True, help="archive of the image")
    top.add_argument("--built", default=f"{ROOT}/target/debug", help="directory with the command and the preload library")
    top.add_argument("-v", "--verbose", action="store_true", help="print the commands")
    options = top.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrick-image-") as place:
        podman = containers.Podman(place, options.verbose)
        try:
            image = check(podman, os.path.abspath(options.image))
            containers.image(podman, os.path.abspath(f"{options.built}/carrick"))
            sidecar(podman, image)
        finally:
            podman.remove()
            podman("system", "reset", "--force", check=False)
    print(f"image: {image} serves programs as a sidecar without capabilities")
    return 0


if __name__ == "__main__":
    sys.exit(main())
