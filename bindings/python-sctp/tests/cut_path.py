"""Runs both examples in two network namespaces that two links connect, and takes one of the links down and up.

To be run in a new network namespace; prints the lines of both programs.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def namespace(process: "subprocess.Popen[bytes]") -> str:
    return os.readlink(f"/proc/{process.pid}/ns/net")


def main() -> int:
    holder = subprocess.Popen(["unshare", "--net", "sleep", "120"])
    try:
        while namespace(holder) == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        other = ["nsenter", "--net", "--target", str(holder.pid)]
        for link in "12":
            ip("link", "add", f"near{link}", "type", "veth", "peer", "name", f"far{link}", "netns", str(holder.pid))
            ip("address", "add", f"10.0.{link}.1/24", "dev", f"near{link}")
            ip("link", "set", f"near{link}", "up")
            subprocess.run([*other, "ip", "address", "add", f"10.0.{link}.2/24", "dev", f"far{link}"], check=True)
            subprocess.run([*other, "ip", "link", "set", f"far{link}", "up"], check=True)
        receive = [*other, sys.executable, str(EXAMPLES / "receive.py")]
        receiver = subprocess.Popen(receive, stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        print(receiver.stdout.readline(), end="", flush=True)
        survive = [sys.executable, str(EXAMPLES / "survive.py"), "10.0.1.2,10.0.2.2"]
        sender = subprocess.Popen(survive, stdout=subprocess.PIPE, text=True)
        assert sender.stdout is not None
        time.sleep(1)
        subprocess.run([*other, "ip", "link", "set", "far1", "down"], check=True)
        for line in sender.stdout:
            print(line, end="", flush=True)
            if "is inactive" in line:
                subprocess.run([*other, "ip", "link", "set", "far1", "up"], check=True)
        failed = sender.wait(60) or receiver.wait(60)
        print(receiver.stdout.read(), end="")
        return failed
    finally:
        holder.kill()
        holder.wait()


sys.exit(main())
