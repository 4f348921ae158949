#!/usr/bin/python3
"""The peer program on the Linux kernel's SCTP: boots user-mode Linux for one run of kernel/peer.py.

Usage: kernel_peer.py --nic TAP=ADDR/LEN[,ADDR/LEN...] [--nic ...] listen|connect ... (see interop/README.md)
Each --nic is a tap device of this network namespace (made by the caller) and the guest's addresses on it.
"""

import argparse
import base64
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

from options import parser

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_CHILD_SUBREAPER = 36
KERNEL = "/usr/bin/linux.uml"
# See xstate.c: without it the guest does not start on some CPUs.
XSTATE = os.path.join(HERE, "../../target/interop/xstate.so")


def parse_nic(text):
    tap, _, addresses = text.partition("=")
    if not tap or not addresses:
        raise argparse.ArgumentTypeError(f"'{text}' is not TAP=ADDR/LEN[,ADDR/LEN...]")
    return {"tap": tap, "addresses": addresses.split(",")}


def hardware_address(nic):
    """Returns a MAC address derived from the IP address: one that changes between boots leaves stale ARP entries."""
    octets = nic["addresses"][0].partition("/")[0].split(".")
    return "02:00:" + ":".join(f"{int(octet):02x}" for octet in octets)


def command(nics, options, arguments, scratch):
    udp = options.transport == "udp"
    guest = {
        "nics": nics,
        "arguments": arguments,
        "encaps_port": options.encaps_port if udp else 0,
        "remote_encaps_port": options.remote_encaps_port if udp else 0,
    }
    packed = base64.b64encode(json.dumps(guest).encode()).decode()
    line = [
        KERNEL, "mem=256M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/init.py",
        "con0=fd:0,fd:1", "con=null", "quiet", "loglevel=1", f"uml_dir={scratch}", f"CARRICK_GUEST={packed}",
    ]
    return line + [f"eth{i}=tuntap,{nic['tap']},{hardware_address(nic)}" for i, nic in enumerate(nics)]


class Guest:
    """Running guest, with its console on a pair of pipes."""

    def __init__(self, line):
        self.process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "LD_PRELOAD": os.path.abspath(XSTATE)},
        )
        self.ended = False  # the `end` line was received
        self.status = None

    def stop(self, _number, _frame):
        """Stops the guest: before `end` the peer aborts and reports; after it the guest is killed."""
        if self.ended:
            self.kill()
            return
        try:
            self.process.stdin.write(b"stop\n")
            self.process.stdin.flush()
        except OSError:
            pass
        timer = threading.Timer(5, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def relay(self):
        """Forwards JSON lines to standard output, and all other lines to standard error."""
        for raw in self.process.stdout:
            text = raw.decode(errors="replace").strip()
            if text.startswith("{"):
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
                event = json.loads(text)
                if event["event"] == "end":
                    self.ended, self.status = True, 0 if event["ok"] else 1
            elif text.startswith("EXIT "):
                self.status = int(text[5:])
                break
            elif text:
                print(f"kernel-peer: {text}", file=sys.stderr, flush=True)
        self.kill()
        self.process.wait()
        while True:  # processes of the guest, which this process inherits when the guest ends
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def main():
    top = argparse.ArgumentParser(prog="kernel-peer", add_help=False)
    top.add_argument("--nic", type=parse_nic, action="append", default=[])
    ours, arguments = top.parse_known_args()
    options = parser("kernel-peer").parse_args(arguments)
    if not os.access(KERNEL, os.X_OK):
        print("kernel-peer: user-mode-linux is not installed; run interop/install.sh", file=sys.stderr)
        return 3
    if not os.path.exists(XSTATE):
        print("kernel-peer: target/interop/xstate.so is missing; run make -C interop", file=sys.stderr)
        return 3
    if not ours.nic:
        print("kernel-peer: the guest needs a --nic TAP=ADDR/LEN; interop/run.py makes the taps", file=sys.stderr)
        return 2
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="carrick-uml-") as scratch:
        guest = Guest(command(ours.nic, options, arguments, scratch))
        signal.signal(signal.SIGTERM, guest.stop)
        signal.signal(signal.SIGINT, guest.stop)
        guest.relay()
    if guest.status is None:
        print("kernel-peer: the guest ended without output; check that the taps exist and are not in use", file=sys.stderr)
        return 3
    return guest.status


if __name__ == "__main__":
    sys.exit(main())
