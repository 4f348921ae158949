#!/usr/bin/env python3
"""Tests of the programs of live experiments, between two namespaces with two paths (README.md, "The stacks of live
experiments").

    interop/stacks/selftest.py [-v]     as root; builds them first
"""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from network import Network, address, remove_stale, run  # noqa: E402

PROGRAMS = os.path.join(HERE, "../../target/stacks")
STACKS = ("linux-sctp", "usrsctp")
PORT = "5000"
# Seconds until a test whose programs do not end has failed; a guest boots in two.
TIME_LIMIT = 120
# A path has failed after two timeouts, and an association after eleven.
TIMERS = ("--rto-initial", "100", "--rto-min", "100", "--rto-max", "200", "--path-max-retrans", "1")

# Prints the switches of IPv4 in a namespace.
SWITCHES = ["grep", "-r", ".", "/proc/sys/net/ipv4/conf", "/proc/sys/net/ipv4/ip_forward"]


def problems(lines, count, streams):
    """Returns what is wrong with the lines of a receiver that was to receive `count` messages."""
    rows = [json.loads(line) for line in lines]
    numbers = [row.get("n") for row in rows]
    if numbers.count(None):
        return ["the association has ended early"]
    found = []
    if sorted(numbers) != list(range(count)):
        found.append(f"messages are missing or delivered twice: {sorted(set(range(count)).symmetric_difference(numbers))}")
    for stream in range(streams):
        of_stream = [number for number in numbers if number % streams == stream]
        if of_stream != sorted(of_stream):
            found.append(f"the messages of stream {1 + stream} are not in order")
    times = [row["t"] for row in rows]
    if times != sorted(times):
        found.append("the times of the messages decrease")
    return found


class Program:
    """Sender or receiver in a namespace, its lines read while it runs."""

    def __init__(self, network, side, stack, *arguments, local=None):
        local = ",".join(local or [address(side, path) for path in (0, 1)])
        role, *rest = map(str, arguments)
        command = [os.path.join(PROGRAMS, stack), role, "--local", local, "--port", PORT, *rest]
        self.lines, self.notes, self._arrived = [], "", queue.Queue()
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", network.namespace[side], *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_lines, self._read_notes)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self):
        for line in self.process.stdout:
            self.lines.append(line)
            self._arrived.put(line)

    def _read_notes(self):
        self.notes = self.process.stderr.read()

    def wait_for_lines(self, count):
        """Returns when the program has printed this number of lines more. Raises queue.Empty after TIME_LIMIT."""
        for _ in range(count):
            self._arrived.get(timeout=TIME_LIMIT)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Returns the exit status."""
        status = self.process.wait(TIME_LIMIT)
        for reader in self._readers:
            reader.join(TIME_LIMIT)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.terminate()
            self.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@contextlib.contextmanager
def programs(stacks, count, streams=1, size=250, interval_us=5000):
    """Starts the receiver and the sender; gives the network and both."""
    sending, receiving = stacks
    peer = ",".join(address("b", path) for path in (0, 1))
    with Network() as network:
        receiver = Program(network, "b", receiving, "receive", "--count", count, *TIMERS)
        with receiver, Program(
            network, "a", sending, "send", "--peer", peer, "--size", size, "--interval-us", interval_us, "--count", count,
            "--streams", streams, *TIMERS,
        ) as sender:
            yield network, sender, receiver


def wait_until(condition):
    """Returns when the condition is true. Raises TimeoutError after TIME_LIMIT."""
    deadline = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)


def processes(network):
    """Returns the processes in the namespace of side a."""
    return run("ip", "netns", "pids", network.namespace["a"]).split()


def names_of(pids):
    """Returns the names of those processes that still exist."""
    names = []
    for pid in pids:
        with contextlib.suppress(OSError):
            names.append(pathlib.Path("/proc", pid, "comm").read_text(encoding="ascii").strip())
    return names


def configuration(network):
    """Returns what a run changes in the namespaces."""
    commands = [["ls", "/sys/class/net"], ["ip", "-4", "route", "show", "table", "all"], ["ip", "rule"], SWITCHES]
    return [run("ip", "netns", "exec", network.namespace[side], *command) for side in "ab" for command in commands]


class Deliveries(unittest.TestCase):
    @contextlib.contextmanager
    def complete_delivery(self, stacks, count, streams=1, **options):
        """Gives the network and the receiver during a run in which all messages must be delivered."""
        with programs(stacks, count, streams, **options) as (network, sender, receiver):
            yield network, receiver
            self.assertEqual((receiver.wait(), sender.wait()), (0, 0), receiver.notes + sender.notes)
            self.assertEqual(problems(receiver.lines, count, streams), [], receiver.notes + sender.notes)

    def test_messages_arrive_in_order(self):
        for sending in STACKS:
            for receiving in STACKS:
                pair = sending, receiving
                with self.subTest(pair=pair), self.complete_delivery(pair, 200, streams=3):
                    pass

    def test_fragmented_messages_arrive_in_order(self):
        for stack in STACKS:
            with self.subTest(stack=stack), self.complete_delivery((stack, stack), 50, streams=2, size=65536):
                pass

    def test_data_leaves_a_path_that_is_cut(self):
        for stack in STACKS:
            with self.subTest(stack=stack), self.complete_delivery((stack, stack), 300) as (network, receiver):
                receiver.wait_for_lines(30)
                network.cut(0)
                receiver.wait_for_lines(270)
                self.assertGreater(network.counted("cut0"), 0)

    def test_linux_follows_the_addresses_of_its_host(self):
        first, second = address("b", 0), address("b", 1)
        with Network() as network:
            ip = ["ip", "netns", "exec", network.namespace["b"], "ip", "address"]
            run(*ip, "delete", f"{second}/24", "dev", "eth1")
            shared = "--count", 600, "--follow"
            receiver = Program(network, "b", "linux-sctp", "receive", *shared, local=[first])
            with receiver, Program(
                network, "a", "linux-sctp", "send", "--peer", first, "--size", 250, "--interval-us", 5000, "--streams", 1, *shared,
            ) as sender:
                receiver.wait_for_lines(20)
                run(*ip, "add", f"{second}/24", "dev", "eth1")
                receiver.wait_for_lines(200)
                run(*ip, "delete", f"{first}/24", "dev", "eth0")
                # Its packets are not delivered to the guest any more.
                local = ["ip", "netns", "exec", network.namespace["b"], "ip", "route", "show", "table", "local"]
                wait_until(lambda: f"{first} dev guest0" not in run(*local))
                self.assertEqual((receiver.wait(), sender.wait()), (0, 0), receiver.notes + sender.notes)
                self.assertEqual(problems(receiver.lines, 600, 1), [], receiver.notes + sender.notes)


class Ends(unittest.TestCase):
    def test_sigterm_of_the_sender_aborts(self):
        for stack in STACKS:
            with self.subTest(stack=stack), programs((stack, stack), 1000000) as (_, sender, receiver):
                receiver.wait_for_lines(20)
                sender.terminate()
                self.assertEqual((sender.wait(), receiver.wait()), (0, 0))
                self.assertEqual(receiver.lines[-1], '{"end": "abort"}\n')
                self.assertEqual(problems(receiver.lines[:-1], len(receiver.lines) - 1, 1), [])

    def test_sigterm_of_the_receiver_aborts(self):
        for stack in STACKS:
            with self.subTest(stack=stack), programs((stack, stack), 1000000) as (_, sender, receiver):
                receiver.wait_for_lines(20)
                receiver.terminate()
                self.assertEqual((sender.wait(), receiver.wait()), (1, 0))
                self.assertIn("the association has ended: abort\n", sender.notes)
                self.assertNotIn('"end"', receiver.lines[-1])

    def test_an_association_without_paths_is_lost(self):
        for stack in STACKS:
            with self.subTest(stack=stack), programs((stack, stack), 1000000) as (network, sender, receiver):
                receiver.wait_for_lines(20)
                network.cut(0)
                network.cut(1)
                self.assertEqual(sender.wait(), 1)
                self.assertIn("the association has ended: lost\n", sender.notes)

    def test_the_network_is_as_before(self):
        with Network() as network:
            before = configuration(network)
            with Program(network, "a", "linux-sctp", "receive", "--count", 1):
                wait_until(lambda: configuration(network) != before)
            self.assertEqual(configuration(network), before)

    def test_no_guest_outlives_its_program(self):
        with Network() as network, Program(network, "a", "linux-sctp", "receive", "--count", 1) as program:
            wait_until(lambda: "linux.uml" in names_of(processes(network)))
            program.process.kill()
            wait_until(lambda: not processes(network))


class CommandLines(unittest.TestCase):
    LOCAL = ("--local", "10.77.0.1", "--port", PORT, "--count", "1")
    WRONG = [
        [], ["listen"], ["receive"], ["receive", *LOCAL, "--count", "0"], ["receive", *LOCAL, "--nonsense"], ["send", *LOCAL],
        ["receive", *LOCAL, "--local", "fd77::1"],
        ["send", *LOCAL, "--peer", "10.77.0.2", "--size", "7", "--interval-us", "1", "--streams", "1"],
    ]

    def test_wrong_options_are_refused(self):
        for stack in STACKS:
            for arguments in self.WRONG:
                done = subprocess.run([os.path.join(PROGRAMS, stack), *arguments], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
                self.assertIn(stack, done.stderr)

    def test_the_version_is_that_of_the_stack(self):
        for stack, words in zip(STACKS, (r"^Linux \d", r"^usrsctp \d"), strict=True):
            done = subprocess.run([os.path.join(PROGRAMS, stack), "--version"], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, words)


class Checks(unittest.TestCase):
    """The checks of the messages find what is wrong."""

    @staticmethod
    def lines(*numbers):
        return [json.dumps({"n": number, "t": time}) for time, number in enumerate(numbers)]

    def test_complete_messages_pass(self):
        self.assertEqual(problems(self.lines(1, 0, 2, 3), 4, 2), [])

    def test_a_missing_message_is_found(self):
        self.assertIn("[1]", problems(self.lines(0, 2), 3, 1)[0])

    def test_a_duplicate_is_found(self):
        self.assertIn("twice", problems(self.lines(0, 1, 1), 2, 1)[0])

    def test_disorder_within_a_stream_is_found(self):
        self.assertIn("stream 2", problems(self.lines(0, 3, 1, 2), 4, 2)[0])

    def test_decreasing_times_are_found(self):
        self.assertIn("decrease", problems(['{"n": 0, "t": 2}', '{"n": 1, "t": 1}'], 2, 1)[0])

    def test_an_early_end_is_found(self):
        self.assertIn("early", problems([*self.lines(0), '{"end": "lost"}'], 1, 1)[0])


def interrupt(_number, _frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("selftest.py: network namespaces need root; run as root")
    subprocess.run([os.path.join(HERE, "build.sh")], check=True)
    signal.signal(signal.SIGTERM, interrupt)
    remove_stale()
    unittest.main()
