#!/usr/bin/python3
"""The peer program on the Linux kernel's SCTP: boots user-mode Linux for one run of kernel/peer.py.

Usage: kernel_peer.py --nic TAP=ADDR/LEN[,ADDR/LEN...] [--nic ...] listen|connect ... (see interop/README.md)
       kernel_peer.py --nic ... --serve PORT UNREAD_PORT      servers/kernel.py in its place, in UDP and on plain IP
Each --nic is a tap device of this network namespace (made by the caller) and the guest's addresses on it.
"""

import argparse
import json
import os
import signal
import sys
import threading

from guest import HERE, Guest, Missing
from options import parser

# UDP port of servers, and the one that they send to.
UDP_PORT = 9899


def parse_nic(text):
    tap, _, addresses = text.partition("=")
    if not tap or not addresses:
        raise argparse.ArgumentTypeError(f"'{text}' is not TAP=ADDR/LEN[,ADDR/LEN...]")
    return {"tap": tap, "addresses": addresses.split(",")}


class PeerGuest(Guest):
    """Guest with the peer program."""

    ended = False  # the `end` line was received

    def on_signal(self, _number, _frame):
        """Stops the guest: before `end` the peer aborts and reports; after it the guest is killed."""
        if self.ended:
            self.kill()
            return
        self.stop()
        timer = threading.Timer(5, self.kill)
        timer.daemon = True
        timer.start()

    def relay(self):
        """Forwards JSON lines to standard output, and all other lines to standard error. Returns the exit status."""
        status = None
        for text in self.lines():
            if text.startswith("{"):
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
                event = json.loads(text)
                if event["event"] == "end":
                    self.ended, status = True, 0 if event["ok"] else 1
            else:
                print(f"kernel-peer: {text}", file=sys.stderr, flush=True)
        return status if self.status is None else self.status


def main():
    top = argparse.ArgumentParser(prog="kernel-peer", add_help=False)
    top.add_argument("--nic", type=parse_nic, action="append", default=[])
    top.add_argument("--serve", nargs=2)
    ours, arguments = top.parse_known_args()
    if ours.serve:
        program, ports = ["../servers/kernel.py", *ours.serve], (UDP_PORT, UDP_PORT)
    else:
        options = parser("kernel-peer").parse_args(arguments)
        program = ["peer.py", *arguments]
        ports = (options.encaps_port, options.remote_encaps_port) if options.transport == "udp" else (0, 0)
    if not ours.nic:
        print("kernel-peer: the guest needs a --nic TAP=ADDR/LEN; interop/run.py makes the taps", file=sys.stderr)
        return 2
    try:
        guest = PeerGuest([sys.executable, "-B", os.path.join(HERE, program[0]), *program[1:]], ours.nic, ports)
    except Missing as problem:
        print(f"kernel-peer: {problem}", file=sys.stderr)
        return 3
    signal.signal(signal.SIGTERM, guest.on_signal)
    signal.signal(signal.SIGINT, guest.on_signal)
    status = guest.relay()
    if status is None:
        print("kernel-peer: the guest ended without output; check that the taps exist and are not in use", file=sys.stderr)
        return 3
    return status


if __name__ == "__main__":
    sys.exit(main())
