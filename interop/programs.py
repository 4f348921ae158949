"""Peer programs as processes: started on a side of the network, their JSON lines read while they run."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.join(HERE, "../target/interop")
# Stacks of WebRTC, built by peers/build.sh.
WEBRTC_STACKS = ("pion", "dcsctp", "rtc-sctp", "webrtc-sctp")
WEBRTC_BUILT = os.path.join(HERE, "../target/peers")
# Exit status of a program that lacks what an option requests.
UNSUPPORTED = 4


class PeerFailed(Exception):
    """A peer program failed; the text has its name and the reason."""


class Unsupported(Exception):
    """A stack does not support the scenario; the text has the reason of its program."""


class Stacks:
    """Paths of the programs of the stacks."""

    def __init__(self, carrick=None):
        self.paths = {
            "kernel": [sys.executable, "-B", os.path.join(HERE, "kernel/kernel_peer.py")],
            "usrsctp": [os.path.abspath(os.path.join(BUILT, "usrsctp-peer"))],
        }
        for name in WEBRTC_STACKS:
            self.paths[name] = [os.path.abspath(os.path.join(WEBRTC_BUILT, name))]
        if carrick:
            self.paths["carrick"] = [os.path.abspath(carrick)]

    def command(self, stack, network, side, arguments):
        nics = [word for nic in network.nics(side) for word in ("--nic", nic)] if stack == "kernel" else []
        where = ["ip", "netns", "exec", network.namespace[side]]
        return [*where, *self.paths[stack], *nics, *map(str, arguments)]


def descendants(pid):
    """Returns the processes that this one has begun, and those that they have."""
    try:
        children = [int(child) for task in os.listdir(f"/proc/{pid}/task")
                    for child in open(f"/proc/{pid}/task/{task}/children", encoding="ascii").read().split()]
    except OSError:
        return []
    return [found for child in children for found in (*descendants(child), child)]


class Peer:
    """One running peer program."""

    def __init__(self, name, command, log):
        self.name, self.command = name, command
        self.events, self.end, self.status = [], None, None
        self.log_path = log
        self.log = open(log, "w", encoding="utf-8")
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        self._lines = queue.Queue()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                self._lines.put({"event": "nonsense", "line": line})
        self._lines.put(None)

    def next_event(self, timeout):
        """Returns the next event, or None after the timeout. Raises if the program has ended without `end`."""
        try:
            event = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        if event is None:
            self._lines.put(None)
            if self.end is None:
                if self.process.wait() == UNSUPPORTED:
                    raise Unsupported(self._last_log_line().partition("not supported: ")[2])
                raise PeerFailed(f"{self.name} exited with status {self.process.returncode} without 'end'")
            return None
        self.log.write(json.dumps(event) + "\n")
        self.log.flush()
        if event["event"] == "nonsense":
            raise PeerFailed(f"{self.name} printed a line that is not JSON: {event['line'].strip()}")
        self.events.append(event)
        if event["event"] == "end":
            self.end = event
        return event

    def _last_log_line(self):
        with open(self.log_path, encoding="utf-8") as log:
            return log.read().strip().rpartition("\n")[2]

    def kill(self):
        """Ends the program and its descendants, such as those of a guest, without their clean-up."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self._reader.join(2)
        self.log.close()

    def seen(self, name, **fields):
        """Returns the events of this name with these fields."""
        return [e for e in self.events if e["event"] == name and all(e.get(k) == v for k, v in fields.items())]

    def stop(self):
        """Ends the program if it still runs, and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(8)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._reader.join(2)
        self.log.close()
        self.status = self.process.returncode
        return self.status


class Capture:
    """dumpcap on side a's ports of both paths, before loss in one direction and after it in the other."""

    def __init__(self, network, file, over_dtls=False):
        self.file, self.over_dtls = file, over_dtls
        self.log = open(file + ".log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            # Room for a whole transfer in front of the file: a busy machine writes it later.
            ["ip", "netns", "exec", network.middle, "dumpcap", "-q", "-i", "a0", "-i", "a1", "-B", "64",
             "-N", "200000", "-C", "268435456", "-w", file],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while self._size() == 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise PeerFailed(f"dumpcap does not capture; see {file}.log")
            time.sleep(0.02)

    def _size(self):
        """Returns the size of the file, 0 before dumpcap has made it."""
        return os.path.getsize(self.file) if os.path.exists(self.file) else 0

    def stop(self):
        """Ends the capture; what is still in its buffer is written."""
        if self.process.poll() is None:
            # Until the file has not grown for a while.
            size, deadline = -1, time.monotonic() + 10
            while size != (size := self._size()) and time.monotonic() < deadline:
                time.sleep(0.3)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def packets(self, *fields):
        """Values of these fields of tshark in the packets with SCTP, each a list; the side that sent it as `side`."""
        names = ["ip.src", "ipv6.src", "frame.interface_id", *fields]
        ways = ["-d", "udp.port==9899,sctp", "-o", "sctp.ulp_dissection:FALSE", "-o", "sctp.reassembly:FALSE", "-o", "sctp.relative_tsns:FALSE"]
        command = ["tshark", "-n", "-r", self.file, *ways, "-Y", "sctp && !icmp", "-T", "fields", *(word for name in names for word in ("-e", name))]
        found = []
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            v4, v6, interface, *values = line.split("\t")
            side = "near" if (v4 or v6).endswith("1") else "far"
            found.append({"side": side, "from": v4 or v6, "path": int(interface), **{name: value.split(",") if value else [] for name, value in zip(fields, values)}})
        return found

    def verdict(self):
        """None if tshark finds nothing wrong, or what it finds."""
        words = [os.path.join(HERE, "check_capture.sh"), *(["--dtls"] if self.over_dtls else []), self.file]
        done = subprocess.run(words, capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr.strip()
