#!/usr/bin/python3
"""PID 1 of the guest: boots user-mode Linux on the host's files and runs one program.

What to do comes in the environment variable CARRICK_GUEST (base64 of JSON), which the kernel hands over from
its command line. A line "stop" on the console becomes SIGTERM for the program, "signal NAME" that signal, and a line that begins with "ip" is run.
The last line is "EXIT status".
"""

import base64
import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
RB_POWER_OFF = 0x4321FEDC
SYS_FINIT_MODULE = 313  # x86_64
# Seconds that the kernel runs on after its program was killed, as that of a host does, which ends the associations.
AFTER_KILL = 5


def mount(kind, where):
    if LIBC.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {kind} on {where}")


def sysctl(name, value):
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(str(value))


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def raw_console():
    """Disables echo and changes of line ends: the console carries JSON lines."""
    attributes = termios.tcgetattr(0)
    attributes[0] = attributes[1] = attributes[3] = 0
    termios.tcsetattr(0, termios.TCSANOW, attributes)


def load_module(name):
    """Loads a module after its dependencies, by modules.dep (modprobe expects another directory layout)."""
    directory = f"/usr/lib/uml/modules/{os.uname().release}"
    with open(f"{directory}/modules.dep", encoding="ascii") as file:
        depends = dict(line.rstrip("\n").split(":") for line in file)
    path = next((path for path in depends if os.path.basename(path) == f"{name}.ko"), None)
    if path is None:
        return  # built in
    for module in [*reversed(depends[path].split()), path]:
        with open(f"{directory}/{module}", "rb") as file:
            # It may be loaded already.
            if LIBC.syscall(SYS_FINIT_MODULE, file.fileno(), b"", 0) != 0 and ctypes.get_errno() != errno.EEXIST:
                raise OSError(ctypes.get_errno(), f"loading {module}: {os.strerror(ctypes.get_errno())}")


def network(guest):
    # hmac before sctp, or socket() reports that there is no memory.
    for module in ("ipv6", "hmac", "sctp", *guest["modules"]):
        load_module(module)
    run("/sbin/ip", "link", "set", "lo", "up")
    for number, nic in enumerate(guest["nics"]):
        # No duplicate address detection: the addresses are unique and needed immediately.
        sysctl(f"ipv6/conf/eth{number}/accept_dad", 0)
        sysctl(f"ipv4/conf/eth{number}/rp_filter", 0)
        run("/sbin/ip", "link", "set", f"eth{number}", "up")
        for address in nic["addresses"]:
            run("/sbin/ip", "address", "add", address, "dev", f"eth{number}")
    for command in guest["commands"]:
        run(*command)
    for name in guest["extensions"]:
        sysctl(f"sctp/{name}", 1)
    sysctl("sctp/encap_port", guest["remote_encaps_port"])
    sysctl("sctp/udp_port", guest["encaps_port"])


def obey(child):
    """Carries out the lines of the console."""
    for line in sys.stdin:
        words = line.split()
        if words == ["stop"]:
            child.send_signal(signal.SIGTERM)
        elif words[:1] == ["signal"]:
            child.send_signal(signal.Signals[f"SIG{words[1]}"])
        elif words[:1] == ["ip"]:
            subprocess.run(words, check=False, stdin=subprocess.DEVNULL)


def main():
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    for kind, where in (("proc", "/proc"), ("sysfs", "/sys")):
        mount(kind, where)
    raw_console()
    guest = json.loads(base64.b64decode(os.environ.pop("CARRICK_GUEST")))
    socket.sethostname("guest")
    network(guest)
    child = subprocess.Popen(guest["program"], stdin=subprocess.DEVNULL)
    threading.Thread(target=obey, args=(child,), daemon=True).start()
    status = child.wait()
    if status == -signal.SIGKILL:
        time.sleep(AFTER_KILL)
    return status


if __name__ == "__main__":
    try:
        status = main()
    except Exception as problem:  # PID 1 must not end: the kernel would panic
        print(f"guest: {problem}")
        status = 3
    print(f"EXIT {status}", flush=True)
    LIBC.sync()
    LIBC.reboot(RB_POWER_OFF)
