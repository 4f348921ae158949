"""Opens, uses, forks and closes SCTP sockets in random order: churn.py SECONDS SEED.

50 processes with up to 20 sockets each. Each listens on a port, connects to ports of other processes, and ends as
programs do: by closing, by leaving its sockets open, or by SIGKILL. Fails if a call returns an error that the
end of another process does not explain.
"""

import errno
import os
import random
import signal
import socket
import sys
import time

PROCESSES = 50
SOCKETS = 20
FIRST_PORT = 20000
SCTP = 132
EXPECTED = {
    errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENOTCONN,
    errno.EINPROGRESS, errno.ECONNABORTED, errno.ESHUTDOWN, errno.EADDRINUSE, errno.EISCONN, errno.EALREADY,
}


class Worker:
    def __init__(self, number, dice):
        self.number = number
        self.dice = dice
        self.sockets = []
        self.counts = {}

    def open(self, kind):
        opened = socket.socket(socket.AF_INET, kind, SCTP)
        opened.settimeout(0.05)
        self.sockets.append(opened)
        return opened

    def random_peer(self):
        return ("127.0.0.1", FIRST_PORT + self.dice.randrange(PROCESSES))

    def listen(self):
        listener = self.open(socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", FIRST_PORT + self.number))
        listener.listen(5)

    def connect(self):
        opened = self.open(socket.SOCK_STREAM)
        # On a busy machine the peers' daemon needs time.
        opened.settimeout(2)
        opened.connect(self.random_peer())
        opened.settimeout(0.05)

    def send_to_many(self):
        self.open(socket.SOCK_SEQPACKET).sendto(self.message(), self.random_peer())

    def message(self):
        return bytes(self.dice.randrange(1, 10_000))

    def random_socket(self):
        return self.dice.choice(self.sockets) if self.sockets else self.open(socket.SOCK_STREAM)

    def accept(self):
        accepted, _ = self.random_socket().accept()
        accepted.settimeout(0.05)
        self.sockets.append(accepted)

    def send(self):
        self.random_socket().send(self.message())

    def receive(self):
        self.random_socket().recv(65536)

    def close(self):
        if self.sockets:
            self.sockets.pop(self.dice.randrange(len(self.sockets))).close()

    def fork(self):
        child = os.fork()
        if child == 0:
            try:
                self.random_socket().send(b"from a child")
            except OSError:
                pass
            # Without closing anything.
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)

    def step(self):
        actions = [self.listen, self.connect, self.send_to_many, self.accept, self.send, self.receive, self.close]
        action = self.fork if self.dice.random() < 0.02 else self.dice.choice(actions)
        if len(self.sockets) >= SOCKETS:
            action = self.close
        try:
            action()
            self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
        except OSError as error:
            # `accept` of a socket that does not listen, `listen` of a port in use and the like.
            if error.errno not in EXPECTED | {None, errno.EINVAL, errno.EOPNOTSUPP, errno.EDESTADDRREQ}:
                print(f"{action.__name__}: {error!r}", file=sys.stderr)
                os._exit(1)

    def run(self, end, report):
        while time.monotonic() < end:
            self.step()
        # One write, which is not mixed with those of other processes.
        os.write(report, (" ".join(self.counts) + "\n").encode())
        ending = self.dice.randrange(3)
        if ending == 0:
            for each in self.sockets:
                each.close()
        elif ending == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)


def main():
    end = time.monotonic() + float(sys.argv[1])
    reports, report = os.pipe()
    children = []
    for number in range(PROCESSES):
        child = os.fork()
        if child == 0:
            Worker(number, random.Random(int(sys.argv[2]) * PROCESSES + number)).run(end, report)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.close(report)
    with os.fdopen(reports) as lines:
        succeeded = set(lines.read().split())
    missing = {"listen", "connect", "send_to_many", "accept", "send", "receive", "close", "fork"} - succeeded
    if missing:
        print(f"no process succeeded in: {sorted(missing)}", file=sys.stderr)
    failed = [code for code in codes if code not in (0, signal.SIGKILL)]
    sys.exit(1 if failed or missing else 0)


main()
