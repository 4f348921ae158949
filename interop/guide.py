#!/usr/bin/env python3
"""Runs the commands of pages of the guide as they stand: all blocks with the language sh, in order, in one shell.

    guide.py [--carrick PATH] [PAGE...]      needs root and the packages of install.sh --programs

The shell has a new network and a new list of network namespaces. A command that fails ends the page, and so does the limit of
time. Exit status 0: all pages ran; 1: not; 3: something is missing.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
# Programs that a page needs.
PAGES = {
    "docs/guide/diameter-sip.md": ["freeDiameterd", "kamailio", "sipsak", "openssl"],
    "docs/guide/proxy.md": ["freeDiameterd", "ncat", "openssl"],
    "docs/guide/5g.md": ["tshark"],
    "docs/guide/linkset.md": [],
    "docs/guide/nat.md": ["ncat", "nft"],
    "docs/guide/troubleshooting.md": ["ncat", "nft", "tshark"],
    "docs/guide/tuning.md": ["nft"],
}
LIMIT = 180  # seconds; the pages wait for what they describe

# A process namespace ends all processes with the shell; mounts and networks go with it.
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
# The command may be below /tmp, which the page gets empty.
PROLOGUE = f"""mkdir -p /run/netns
mount -t tmpfs none /run/netns
mount -t tmpfs none /mnt
mkdir /mnt/carrick
mount --bind "$CARRICK_FOLDER" /mnt/carrick
mount -t tmpfs none /tmp
{{ sleep {LIMIT}; tail -n 20 /tmp/*/*.log; kill -KILL $$; }} & disown
"""


def commands(page):
    """Returns the blocks of a page with the language sh."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return "".join(re.findall(r"^```sh\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL))


def run(page, carrick):
    """Runs a page; returns whether each command succeeded."""
    path = f"/mnt/carrick:/usr/local/sbin:/usr/sbin:/sbin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CARRICK_FOLDER": os.path.dirname(carrick)}
    with tempfile.TemporaryFile(mode="w+") as output:
        shell = subprocess.Popen(
            [*NAMESPACES, "bash", "-euvo", "pipefail", "-c", PROLOGUE + commands(page)],
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
        )
        try:
            status = shell.wait(LIMIT + 30)
        except subprocess.TimeoutExpired:
            status = f"no end within {LIMIT} s"
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        if status == 0:
            print(f"{page}: ok", flush=True)
            return True
        output.seek(0)
        print(f"{page}: {status}\n{output.read()[-6000:]}", file=sys.stderr)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrick", default=f"{ROOT}/target/debug/carrick", help="the command, with libcarrick_preload.so beside it")
    parser.add_argument("pages", nargs="*", default=list(PAGES), metavar="PAGE", help=f"default: {', '.join(PAGES)}")
    arguments = parser.parse_args()
    carrick = os.path.abspath(arguments.carrick)
    if os.geteuid() != 0 or not os.path.exists(carrick):
        print(f"guide: run this as root, with a built {carrick}", file=sys.stderr)
        return 3
    for page in arguments.pages:
        missing = [program for program in PAGES.get(page, []) if not shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin")]
        if missing:
            print(f"guide: {', '.join(missing)} is missing: run interop/install.sh --programs", file=sys.stderr)
            return 3
    return 0 if all([run(page, carrick) for page in arguments.pages]) else 1


if __name__ == "__main__":
    sys.exit(main())
