"""Command line of the peer program, as interop/README.md defines it."""

import argparse
import ipaddress
import json
import time

STARTED = time.monotonic()
MAX_MESSAGE = 16 << 20
EXTENSIONS = ["partial", "authentication", "addresses", "reconfiguration", "interleaving", "ecn"]
OPERATIONS = ["add-address", "delete-address", "set-primary", "reset-out", "reset-in", "reset-association", "add-streams", "use-key"]


class Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line and exits with status 2."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; the options are in interop/README.md\n")


def _number(low, high):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is not between {low} and {high}")
        return value

    return parse


def _addresses(text):
    try:
        return [str(ipaddress.ip_address(part)) for part in text.split(",")]
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def parse_sizes(text):
    """Parses `A`, `A-B` or `A,B,C` to (kind, numbers)."""
    try:
        if "-" in text:
            low, high = (int(part) for part in text.split("-"))
            numbers, kind = [low, high], "range"
        else:
            numbers, kind = [int(part) for part in text.split(",")], "list"
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not A, A-B or A,B,C") from None
    if min(numbers) < 1 or max(numbers) > MAX_MESSAGE or (kind == "range" and numbers[0] > numbers[1]):
        raise argparse.ArgumentTypeError(f"sizes must be between 1 and {MAX_MESSAGE}, the smaller first")
    return kind, numbers


def _rule(text):
    kind, _, value = text.partition(":")
    if text == "full":
        return None
    if kind not in ("timed", "retransmissions") or not value.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not full, timed:MS or retransmissions:N")
    return kind, int(value)


def _keys(text):
    pairs = [part.partition(":") for part in text.split(",")]
    if not all(number.isdigit() for number, _, _ in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' is not ID:SECRET,...")
    return [(int(number), secret.encode()) for number, _, secret in pairs]


def _operation(text):
    """Parses `NAME[=VALUE]@BYTES` to (name, value, bytes, text before the @)."""
    whole, _, after = text.rpartition("@")
    name, _, value = whole.partition("=")
    if name not in OPERATIONS or not after.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not OPERATION@BYTES")
    return name, value, int(after), whole


def _extensions(common):
    """Adds the options of extensions."""
    names = _list_of(EXTENSIONS + ["none"])
    common.add_argument("--extensions", type=names)
    common.add_argument("--reliability", type=_rule)
    common.add_argument("--gaps", action="store_true")
    common.add_argument("--authenticate", type=lambda text: [int(part) for part in text.split(",")], default=[])
    common.add_argument("--keys", type=_keys, default=[])
    common.add_argument("--hmac", choices=["sha1", "sha256"], default="sha256")
    common.add_argument("--scheduler", choices=["fcfs", "rr"], default="fcfs")
    common.add_argument("--do", type=_operation, action="append", default=[])


def _list_of(known):
    def parse(text):
        names = text.split(",")
        if not set(known).issuperset(names):
            raise argparse.ArgumentTypeError(f"'{text}' is not a list of {', '.join(known)}")
        return names

    return parse


def parser(prog):
    """Returns the parser of the command line."""
    port = _number(1, 65535)
    millis = _number(1, 3_600_000)
    count = _number(0, (1 << 64) - 1)
    common = Parser(add_help=False)
    common.add_argument("--local", type=_addresses, default=[])
    common.add_argument("--local-port", type=port, default=0)
    common.add_argument("--transport", choices=["udp", "ip"], default="udp")
    common.add_argument("--encaps-port", type=port, default=9899)
    common.add_argument("--remote-encaps-port", type=port, default=9899)
    common.add_argument("--mode", choices=["echo", "sink", "source"], default="echo")
    common.add_argument("--bytes", type=count, default=0)
    common.add_argument("--sizes", type=parse_sizes, default=("list", [1024]))
    common.add_argument("--streams", type=port, default=1)
    common.add_argument("--rate", type=count, default=0)
    common.add_argument("--hold", type=count, default=0)
    common.add_argument("--unordered", type=count, default=0)
    common.add_argument("--seed", type=count, default=1)
    common.add_argument("--expect", type=count, default=0)
    common.add_argument("--end", choices=["shutdown", "abort", "wait"], default="wait")
    common.add_argument("--progress", type=count, default=0)
    for name in ("--rto-initial", "--rto-min", "--rto-max", "--heartbeat"):
        common.add_argument(name, type=millis)
    for name in ("--path-max-retrans", "--assoc-max-retrans"):
        common.add_argument(name, type=_number(1, 255))
    common.add_argument("--nodelay", action="store_true")
    _extensions(common)
    common.add_argument("--linger", type=_number(0, 3600), default=0)
    common.add_argument("--time-limit", type=_number(1, 86400), default=60)
    top = Parser(prog=prog)
    roles = top.add_subparsers(dest="role", required=True, parser_class=Parser)
    listen = roles.add_parser("listen", parents=[common])
    connect = roles.add_parser("connect", parents=[common])
    connect.add_argument("addresses", type=_addresses)
    for role in (listen, connect):
        role.add_argument("port", type=port)
    return top


def emit(event, **fields):
    """Prints one JSON line."""
    ms = int((time.monotonic() - STARTED) * 1000)
    print(json.dumps({"event": event, "ms": ms, **fields}), flush=True)
