#!/usr/bin/env python3
"""Runs stream.py on the SCTP of a Linux kernel: boots user-mode Linux on tap devices of this network namespace.

    guest_stream.py BATCH TAP=ADDR/LEN[,ADDR/LEN] [TAP=...] -- ARGUMENT...        arguments of stream.py

BATCH is a file with commands of `ip` that the guest runs before. Lines of standard input are commands for the guest: "ip ...", or "signal NAME" for the program.
"""

import os
import signal
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kernel"))

from guest import Guest, Missing  # noqa: E402


def main():
    at = sys.argv.index("--")
    batch, *nics = sys.argv[1:at]
    devices = [{"tap": tap, "addresses": addresses.split(",")} for tap, _, addresses in (nic.partition("=") for nic in nics)]
    program = [sys.executable, "-B", os.path.join(HERE, "stream.py"), *sys.argv[at + 1 :]]
    # The kernel's defaults: no extension is switched on.
    guest = Guest(program, devices, commands=[["ip", "-batch", batch]], extensions=())
    signal.signal(signal.SIGTERM, lambda *_: guest.kill())

    def relay():
        for line in sys.stdin:
            guest.write_line(line.strip())

    threading.Thread(target=relay, daemon=True).start()
    for line in guest.lines():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as problem:
        print(f"guest: {problem}", file=sys.stderr)
        sys.exit(3)
