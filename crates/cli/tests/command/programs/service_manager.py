"""A service manager that restarts a daemon: service_manager.py NOTIFY PROGRAM ARGUMENT...

NOTIFY is the path of its notification socket. Lines on standard input are commands: "restart" restarts the service with
SIGUSR1, "kill" with SIGKILL, "interrupt N" with SIGUSR1 and, when it has sent N messages, with SIGKILL, "reload" sends SIGUSR2, after which a successor is the process of the service, and "list" prints the number of descriptors of each name that are held; the end of
the input ends the service with SIGTERM. What the service stores (FDSTORE) is passed to its next process, in another
order, as sd_listen_fds(3) describes. A line of JSON is printed when a process is ready, with the number of descriptors
passed to it, and one when all that was held for a restart is released.
"""

import array
import json
import os
import select
import signal
import socket
import subprocess
import sys

FIRST = 3


class Service:
    def __init__(self, path, command):
        self.command = command
        self.path = path
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(path)
        self.held = []
        self.passed = 0
        self.process = None
        self.main = None

    def start(self):
        held = [descriptor for _, descriptor in reversed(self.held)]
        names = ":".join(name for name, _ in reversed(self.held))
        self.passed = len(held)

        def prepare():
            # Above all target numbers first, since one may be the number of another.
            above = FIRST + len(held) + max(held, default=0)
            moved = [os.dup2(descriptor, above + n) for n, descriptor in enumerate(held)]
            for n, descriptor in enumerate(moved):
                os.dup2(descriptor, FIRST + n, inheritable=True)
            os.closerange(FIRST + len(held), above + len(held))

        shell = ["sh", "-c", 'LISTEN_PID=$$; export LISTEN_PID; exec "$@"', "sh"]
        variables = {"NOTIFY_SOCKET": self.path, "LISTEN_FDS": str(len(held)), "LISTEN_FDNAMES": names}
        self.process = subprocess.Popen(
            shell + self.command, env=os.environ | variables, preexec_fn=prepare, close_fds=False
        )
        self.main = os.pidfd_open(self.process.pid)

    def take(self, drops=False):
        """Processes a notification, or drops it."""
        space = socket.CMSG_SPACE(253 * 4)
        data, ancillary, _, _ = self.notifications.recvmsg(4096, space)
        descriptors = array.array("i")
        for _, _, value in ancillary:
            descriptors.frombytes(value[: len(value) // 4 * 4])
        fields = dict(line.split("=", 1) for line in data.decode().splitlines())
        if drops:
            fields = {}
        if fields.get("FDSTORE") == "1":
            for descriptor in descriptors:
                # As systemd, it ignores a file that it has under any name.
                if any(os.path.samestat(os.fstat(descriptor), os.fstat(held)) for _, held in self.held):
                    os.close(descriptor)
                else:
                    self.held.append((fields["FDNAME"], descriptor))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if fields.get("FDSTOREREMOVE") == "1":
            for name, descriptor in self.held:
                if name == fields["FDNAME"]:
                    os.close(descriptor)
            self.held = [(name, descriptor) for name, descriptor in self.held if name != fields["FDNAME"]]
        if fields.get("FDSTOREREMOVE") == "1" and fields["FDNAME"] == "s":
            print(json.dumps({"released": self.passed}), flush=True)
        if "MAINPID" in fields:
            self.process.wait()
            self.main = os.pidfd_open(int(fields["MAINPID"]))
        if fields.get("READY") == "1":
            print(json.dumps({"ready": self.process.pid, "passed": self.passed}), flush=True)

    def list(self):
        names = [name for name, _ in self.held]
        print(json.dumps({"held": {name: names.count(name) for name in names}}), flush=True)

    def stop(self, number):
        """Ends the process, and processes its notifications meanwhile. Returns its code."""
        signal.pidfd_send_signal(self.main, number)
        while not select.select([self.main], [], [], 0)[0] or select.select([self.notifications], [], [], 0)[0]:
            if select.select([self.notifications], [], [], 0.01)[0]:
                self.take()
        # That of a successor is unknown.
        return self.process.wait()


    def interrupt(self, count):
        """Kills the process when it has sent this number of messages for its restart."""
        signal.pidfd_send_signal(self.main, signal.SIGUSR1)
        for _ in range(count):
            select.select([self.notifications], [], [])
            self.take()
        self.process.kill()
        self.process.wait()
        # As if it had been killed before them.
        while select.select([self.notifications], [], [], 0)[0]:
            self.take(drops=True)


def main():
    service = Service(sys.argv[1], sys.argv[2:])
    service.start()
    while True:
        readable, _, _ = select.select([service.notifications, sys.stdin], [], [])
        if service.notifications in readable:
            service.take()
            continue
        command = sys.stdin.readline().strip()
        if not command:
            sys.exit(service.stop(signal.SIGTERM))
        elif command == "list":
            service.list()
        elif command == "reload":
            signal.pidfd_send_signal(service.main, signal.SIGUSR2)
        elif command.startswith("interrupt"):
            service.interrupt(int(command.split()[1]))
            service.start()
        elif service.stop(signal.SIGKILL if command == "kill" else signal.SIGUSR1) > 0:
            sys.exit(1)
        else:
            service.start()


main()
