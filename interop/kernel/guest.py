"""User-mode Linux with SCTP: boots a guest for one program and relays its output."""

import base64
import ctypes
import json
import os
import signal
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_CHILD_SUBREAPER = 36
# Switches of the kernel's SCTP, most of which are off by default.
EXTENSIONS = ("addip_enable", "addip_noauth_enable", "auth_enable", "reconf_enable", "prsctp_enable", "intl_enable", "ecn_enable")
KERNEL = "/usr/bin/linux.uml"
# The guest has processes on the host that outlive its kernel. In a PID namespace they end with it, and it ends with
# the process that has started it, also if that was killed.
OWN_PROCESSES = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork", "--kill-child", "--")
# See xstate.c: without it the guest does not start on some CPUs.
XSTATE = os.path.join(HERE, "../../target/interop/xstate.so")


class Missing(Exception):
    """Something that a guest needs is not there; the text is the remedy."""


def hardware_address(nic):
    """Returns the MAC address of a device, derived from the IP address if it has none: one that changes between boots
    leaves stale ARP entries.
    """
    if "mac" in nic:
        return nic["mac"]
    octets = nic["addresses"][0].partition("/")[0].split(".")
    return "02:00:" + ":".join(f"{int(octet):02x}" for octet in octets)


class Guest:
    """Running guest, with its console on a pair of pipes.

    `nics` are tap devices with addresses. `modules` are loaded, and `commands` run, before the program starts. With
    `encaps_ports` (local, remote) SCTP is carried in UDP. `extensions` of SCTP are enabled; all others have the kernel's
    defaults.
    """

    def __init__(self, program, nics=(), encaps_ports=(0, 0), modules=(), commands=(), extensions=EXTENSIONS):
        if not os.access(KERNEL, os.X_OK):
            raise Missing("user-mode-linux is not installed; run interop/install.sh")
        if not os.path.exists(XSTATE):
            raise Missing("target/interop/xstate.so is missing; run make -C interop")
        # Processes of the guest become children of this one when the guest ends.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        guest = {
            "nics": list(nics), "program": list(program), "encaps_port": encaps_ports[0],
            "remote_encaps_port": encaps_ports[1], "modules": list(modules), "commands": list(commands),
            "extensions": list(extensions),
        }
        packed = base64.b64encode(json.dumps(guest).encode()).decode()
        self.status = None  # of the program
        self._scratch = tempfile.TemporaryDirectory(prefix="carrick-uml-")
        line = [
            *OWN_PROCESSES, KERNEL, "mem=256M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/init.py",
            "con0=fd:0,fd:1", "con=null", "quiet", "loglevel=1", f"uml_dir={self._scratch.name}", f"CARRICK_GUEST={packed}",
            *(f"eth{i}=tuntap,{nic['tap']},{hardware_address(nic)}" for i, nic in enumerate(nics)),
        ]
        self.process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "LD_PRELOAD": os.path.abspath(XSTATE)},
        )

    def stop(self):
        """Asks the program to end."""
        self.write_line("stop")

    def configure(self, commands):
        """Runs commands of `ip` in the guest, which reads them from a file: the console is for short lines."""
        with tempfile.NamedTemporaryFile("w", dir=self._scratch.name, delete=False) as batch:
            batch.writelines(f"{command}\n" for command in commands)
        self.write_line(f"ip -batch {batch.name}")

    def write_line(self, line):
        """Passes a line to the console of the guest (see init.py)."""
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except OSError:
            pass

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def lines(self):
        """Yields the lines of the program's output, and ends the guest after the last one."""
        try:
            for raw in self.process.stdout:
                text = raw.decode(errors="replace").strip()
                if text.startswith("EXIT "):
                    self.status = int(text[5:])
                    break
                if text:
                    yield text
        finally:
            self.kill()
            self.process.wait()
            while True:  # processes of the guest
                try:
                    os.waitpid(-1, 0)
                except ChildProcessError:
                    break
            self._scratch.cleanup()
