#!/usr/bin/env python3
"""Checks the rendered resources: the schemas of Kubernetes, the rights of containers, and the commands.

    packaging/kubernetes/check.py [--carrick target/debug/carrick]

The schemas are those of the oldest version that has sidecars and of a new one; kubernetes-validate of PyPI has them.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
VERSIONS = ("1.29", "1.37")
TOOLS = ROOT / "target/kubernetes-validate"
PACKAGE = "kubernetes-validate==1.37.0"
# Only the daemon of a node runs as root, without capabilities like all others.
ROOT_USER = {"daemonset"}


def validate(name, rendered):
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(rendered)
        file.flush()
        for version in VERSIONS:
            command = [sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", "-k", version, file.name]
            if subprocess.run(command, env={"PYTHONPATH": str(TOOLS)}).returncode != 0:
                sys.exit(f"kubernetes: {name} is not valid in version {version}")


def check_containers(name, resource, carrick):
    """Checks rights and commands of a workload; returns the number of commands."""
    spec = resource["spec"]["template"]["spec"]
    shared, commands = spec["securityContext"], 0
    for container in spec.get("initContainers", []) + spec["containers"]:
        own, place = container["securityContext"], f"{name}, container {container['name']}"
        assert own["capabilities"] == {"drop": ["ALL"]} and not own["allowPrivilegeEscalation"], place
        assert own["readOnlyRootFilesystem"] and shared["seccompProfile"]["type"] == "RuntimeDefault", place
        assert name in ROOT_USER or (shared["runAsNonRoot"] and shared["runAsUser"] > 0), place
        called = [container.get("command", ["/opt/carrick/carrick"]) + container.get("args", [])]
        called.append(container.get("startupProbe", {}).get("exec", {}).get("command", [""]))
        for words in called:
            if not words[0].endswith("/carrick"):
                continue
            options = words[1 : words.index("--")] if "--" in words else words[1:]
            done = subprocess.run([carrick, *options, "--help"], capture_output=True, text=True)
            assert done.returncode == 0, f"{place}: {done.stderr}"
            commands += 1
    return commands


def main():
    top = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    top.add_argument("--carrick", default=f"{ROOT}/target/debug/carrick", help="the command")
    options = top.parse_args()
    if not TOOLS.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", TOOLS, PACKAGE], check=True)
    commands = 0
    for file in sorted(FOLDER.glob("*/kustomization.yaml")):
        name = file.parent.name
        rendered = subprocess.run([FOLDER / "render.sh", name], check=True, stdout=subprocess.PIPE).stdout
        validate(name, rendered)
        for resource in yaml.safe_load_all(rendered):
            if "template" in resource["spec"]:
                commands += check_containers(name, resource, options.carrick)
    assert commands >= 8, commands
    print(f"kubernetes: all resources are valid in the versions {' and '.join(VERSIONS)}, and {commands} commands run")


if __name__ == "__main__":
    main()
