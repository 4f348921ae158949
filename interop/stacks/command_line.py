"""Command line of the programs of live experiments (README.md, "The stacks of live experiments")."""

import argparse
import ipaddress


def _addresses(text):
    try:
        return [str(ipaddress.IPv4Address(part)) for part in text.split(",")]
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{problem}; IPv4 addresses are needed") from None


def _number(low, high):
    def parse(text):
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low} to {high}")
        return int(text)

    return parse


def parse(program, version, arguments=None):
    """Returns the options of a sender or a receiver. `version` is the answer to --version."""
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=version)
    roles = parser.add_subparsers(dest="role", required=True)
    for role in ("send", "receive"):
        sub = roles.add_parser(role, allow_abbrev=False)
        sub.add_argument("--local", type=_addresses, required=True)
        sub.add_argument("--port", type=_number(1, 65535), required=True)
        sub.add_argument("--count", type=_number(1, 2**32), required=True)
        if program == "linux-sctp":
            sub.add_argument("--follow", action="store_true")
        sub.add_argument("--path-max-retrans", type=_number(0, 65535))
        sub.add_argument("--pf-max-retrans", type=_number(0, 65535))
        for bound in ("min", "max", "initial"):
            sub.add_argument(f"--rto-{bound}", type=_number(1, 2**31), metavar="MS")
        if role == "send":
            sub.add_argument("--peer", type=_addresses, required=True)
            sub.add_argument("--size", type=_number(8, 65536), required=True, metavar="BYTES")
            sub.add_argument("--interval-us", type=_number(0, 2**32), required=True)
            sub.add_argument("--streams", type=_number(1, 65534), required=True)
    return parser.parse_args(arguments)
