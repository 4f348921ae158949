#!/usr/bin/env python3
"""Runs the image of image.sh with Debian's podman and runc: the daemon, without capabilities and as a user without
privileges, and beside it the containers of a server and a client with the files that the image copies.

    packaging/image_test.py --image FILE [--built target/debug] [-v]

Storage, networks and containers are in a directory of the test, and removed at the end.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, f"{ROOT}/interop")
import containers  # noqa: E402

RIGHTS = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only")
CONTROL = ("--volume", "control:/run/carrick")
COMMAND = ("--volume", "command:/carrick")


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


def serve(podman, image):
    """Runs the daemon, and iperf3 with a command and a library from the image."""
    podman("pod", "create", "--name", "sctp")
    podman("run", "--rm", *RIGHTS, *COMMAND, "--network", "none", "--entrypoint", "/opt/carrick/copy", image, "/carrick")
    podman("run", "--detach", "--pod", "sctp", "--name", "daemon", *RIGHTS, *CONTROL, image)
    podman.repeat_until("serving /run/carrick/socket", "logs", "daemon")
    run = ("/carrick", "run", "--daemon", "/run/carrick/socket", "--", "iperf3")
    program = ("run", "--pod", "sctp", *RIGHTS, "--read-only-tmpfs=false", "--tmpfs", "/tmp", *CONTROL, *COMMAND, "--entrypoint", f"{run[0]}/carrick")
    podman(*program, "--detach", "--name", "server", containers.IMAGE, *run[1:], "-s", "-1")
    # The client may start before the server listens.
    podman.repeat_until(containers.DONE, *program, "--rm", containers.IMAGE, *run[1:], "--sctp", "-c", "127.0.0.1", "-t", "1")


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
            serve(podman, image)
        finally:
            podman.remove()
            podman("system", "reset", "--force", check=False)
    print(f"image: {image} serves two containers without capabilities")
    return 0


if __name__ == "__main__":
    sys.exit(main())
