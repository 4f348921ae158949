#!/usr/bin/env python3
"""Runs the example pod and compose files of docs/examples/container with Debian's runtimes, podman and runc.

    interop/containers.py [--carrick target/dist/carrick] [-v]

The image has the command, the preload library and iperf3 of this host; the Dockerfile, which builds in a container and needs a
registry, is not used. What Debian's podman 4.3 does not have is changed in the files: sidecars (restartPolicy of init
containers, which Kubernetes has since 1.29) become containers, and empty volumes, which everyone may write to in Kubernetes, have the owner of their directories in the image. Storage, networks and containers are in a directory of their own, and removed at the end.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
EXAMPLES = f"{ROOT}/docs/examples/container"
IMAGE = "localhost/carrick-iperf3"
USER = 65534
DONE = "iperf Done."


class Podman:
    """Podman with its own storage below a directory."""

    def __init__(self, place, verbose):
        self.place, self.verbose = place, verbose
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with open(f"{place}/containers.conf", "w", encoding="utf-8") as file:
            file.write(
                f'[containers]\ndefault_ulimits = ["nofile={soft}:{hard}", "nproc=4096:4096"]\n'
                '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n[network]\nnetwork_backend = "netavark"\n'
            )
        self.environment = os.environ | {"CONTAINERS_CONF": f"{place}/containers.conf"}
        self.options = ["--root", f"{place}/storage", "--runroot", f"{place}/run", "--tmpdir", f"{place}/tmp", "--storage-driver", "vfs",
                        "--runtime", "runc", "--network-config-dir", f"{place}/networks"]

    def __call__(self, *arguments, check=True, program=None, **options):
        command = [*(program or ["podman", *self.options]), *arguments]
        if self.verbose:
            print("+", " ".join(command), file=sys.stderr)
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180, **options)
        output = done.stdout.decode(errors="replace")
        if check and done.returncode != 0:
            sys.exit(f"containers: {' '.join(command)}: {output.strip()}")
        return output

    def repeat_until(self, words, *arguments):
        """Repeats a command until its output has these words."""
        for _ in range(60):
            output = self(*arguments, check=False)
            if words in output:
                return
            time.sleep(0.5)
        sys.exit(f"containers: {' '.join(arguments)}: no {words!r}: {output.strip()}")

    def remove(self):
        self("pod", "rm", "--all", "--force", check=False)
        self("rm", "--all", "--force", check=False)


def image(podman, carrick):
    """Imports an image with the command, the preload library and iperf3 with their shared libraries."""
    root = f"{podman.place}/image"
    for path in ("opt/carrick", "usr/bin", "tmp", "carrick", "run/carrick"):
        os.makedirs(f"{root}/{path}")
    os.chmod(f"{root}/tmp", 0o1777)
    for path in ("carrick", "run/carrick"):
        os.chown(f"{root}/{path}", USER, USER)
    ours = [shutil.copy2(path, f"{root}/opt/carrick/") for path in (carrick, f"{os.path.dirname(carrick)}/libcarrick_preload.so")]
    subprocess.run(["strip", *ours], check=True)
    programs = [shutil.copy2(shutil.which(name), f"{root}/usr/bin/") for name in ("iperf3", "cp")]
    libraries = set()
    for path in ours + programs:
        libraries |= set(re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout))
    for path in libraries:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy2(os.path.realpath(path), root + path)
    subprocess.run(["tar", "-C", root, "-cf", f"{podman.place}/image.tar", "."], check=True)
    changes = ("ENV PATH=/usr/bin", f"USER {USER}:{USER}", 'ENTRYPOINT ["/opt/carrick/carrick", "run", "--"]', 'CMD ["iperf3", "-s"]')
    podman("import", *(word for change in changes for word in ("--change", change)), f"{podman.place}/image.tar", IMAGE)


def pod(podman):
    """Runs pod.yaml."""
    with open(f"{EXAMPLES}/pod.yaml", encoding="utf-8") as file:
        described = next(yaml.safe_load_all(file))
    described["spec"]["volumes"].append({"name": "tmp", "emptyDir": {}})
    described["spec"]["containers"][-1]["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"})
    play(podman, described, {})


def play(podman, described, images):
    """Runs a pod with iperf3 as the program, and a client in the program's container. Each image has its replacement in
    `images`; others are the image with iperf3."""
    spec = described["spec"]
    sidecars = [container for container in spec["initContainers"] if container.pop("restartPolicy", None) == "Always"]
    assert sidecars, "the pod has no sidecar"
    spec["initContainers"] = [container for container in spec["initContainers"] if container not in sidecars]
    program = spec["containers"][-1]
    command = program["command"]
    arguments = program.setdefault("args", [command.pop()])
    arguments[:] = ["iperf3", "-s"]
    spec["containers"] = sidecars + spec["containers"]
    # Podman restarts init containers, too, unless this is set, and removes them while they end unless they are kept.
    spec["restartPolicy"] = "OnFailure"
    described["metadata"].setdefault("annotations", {})["io.podman.annotations.init.container.type"] = "always"
    for container in spec["initContainers"] + spec["containers"]:
        container |= {"image": images.get(container["image"], IMAGE), "imagePullPolicy": "Never"}
    with open(f"{podman.place}/pod.yaml", "w", encoding="utf-8") as file:
        yaml.safe_dump(described, file)
    podman("play", "kube", f"{podman.place}/pod.yaml")
    name = described["metadata"]["name"]
    podman.repeat_until("serving /run/carrick/socket", "logs", f"{name}-daemon")
    # The program starts again until the daemon, which started beside it, serves.
    podman.repeat_until(DONE, "exec", f"{name}-program", *command, "iperf3", "--sctp", "-c", "127.0.0.1", "-t", "1")
    podman.remove()


def compose(podman):
    """Runs compose.yaml: a server, and a client that reaches it by its name."""
    with open(f"{EXAMPLES}/compose.yaml", encoding="utf-8") as file:
        described = yaml.safe_load(file)
    for service in described["services"].values():
        del service["build"]
        service["image"] = IMAGE
    folder = f"{podman.place}/example"
    os.mkdir(folder)
    with open(f"{folder}/compose.yaml", "w", encoding="utf-8") as file:
        yaml.safe_dump(described, file)
    # It puts options behind the subcommand, where podman has none of storage.
    wrapper = f"{podman.place}/podman"
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shutil.which("podman")} {" ".join(podman.options)} "$@"\n')
    os.chmod(wrapper, 0o755)
    program = ["podman-compose", "--podman-path", wrapper]
    podman("up", "--detach", program=program, cwd=folder)
    podman.repeat_until(DONE, "logs", "example_client_1")
    podman("down", program=program, cwd=folder)


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--carrick", default=f"{ROOT}/target/dist/carrick", help="the command, with libcarrick_preload.so beside it")
    top.add_argument("-v", "--verbose", action="store_true", help="print the commands")
    options = top.parse_args()
    missing = [name for name in ("podman", "runc", "podman-compose", "iperf3") if shutil.which(name) is None]
    if missing:
        sys.exit(f"containers: no {', '.join(missing)}: run interop/install.sh --containers")
    with tempfile.TemporaryDirectory(prefix="carrick-containers-") as place:
        podman = Podman(place, options.verbose)
        try:
            image(podman, os.path.abspath(options.carrick))
            for example in (pod, compose):
                example(podman)
                print(f"{example.__name__}: an association of iperf3, all data received", flush=True)
        finally:
            podman.remove()
            podman("system", "reset", "--force", check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
