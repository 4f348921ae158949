"""Scenarios of extensions: data arrives, and the programs and the capture show that the extension was used."""

from network import address

MEGA = 1_000_000
DATA, AUTH, ECNE, CWR, I_DATA = 0, 15, 12, 13, 64
ASCONF_ACK, RE_CONFIG, PAD, FORWARD_TSN, ASCONF, I_FORWARD_TSN = 128, 130, 132, 192, 193, 194
TYPE = "sctp.chunk_type"
TIMERS = ["--rto-initial", "300", "--rto-min", "100", "--rto-max", "1000"]
# The shutdown guard timer of usrsctp is five times RTO.Max: all accepted data has to arrive until then, also on a busy machine.
LONG_GUARD = [*TIMERS[:-1], "6000"]
# No break of a few seconds makes the only path unreachable.
BREAK_TIMERS = ["--rto-initial", "500", "--rto-min", "500", "--rto-max", "1000", "--path-max-retrans", "9"]
KEYS = ["--keys", "1:one-secret,2:another-secret"]
ROLES = {"near": "far", "far": "near"}


# Checks of the output of the programs

def did(which, *operations):
    """Checks that the operations were requested, and none was refused."""
    def check(run):
        events = run[which].seen("did")
        bad = [e for e in events if e["result"] != "asked"]
        if bad:
            return f"{which} could not {bad}"
        missing = set(operations) - {e["operation"] for e in events}
        return f"{which} never did {sorted(missing)}" if missing else None

    return check


def reported(which, event, count=1, **fields):
    """Checks that the program reported the event at least `count` times."""
    def check(run):
        if len(run[which].seen(event, **fields)) >= count:
            return None
        return f"{which} did not report {event} {fields} {count} times, but {run[which].seen(event)}"

    return check


def in_force(name):
    """Checks that both stacks report the extension as in force; usrsctp has no such report."""
    def check(run):
        for which, peer in run.items():
            ups = peer.seen("up")
            known = peer.end.get("facts", {}).get("extensions") or (ups[0].get("extensions") if ups else None)
            if known is not None and name not in known:
                return f"{which} has not {name} in force, but {known}"
        return None

    return check


def counted(which, name, least=1):
    """Checks that a counter of carrick has at least this value."""
    def check(run):
        facts = run[which].end.get("facts")
        if facts and facts[name] < least:
            return f"{which} reports {name} = {facts[name]}, not {least} or more"
        return None

    return check


def counted_at_most(which, name, most=0):
    def check(run):
        facts = run[which].end.get("facts")
        if facts and facts[name] > most:
            return f"{which} reports {name} = {facts[name]}, not {most} or less"
        return None

    return check


def some_missing(sender, receiver):
    """Checks that some messages were abandoned and some received: how many depends on the speed of the machine."""
    def check(run):
        sent, got = (run[which].end[what]["messages"] for which, what in ((sender, "sent"), (receiver, "received")))
        return None if 0 < got < sent else f"{got} of {sent} messages arrived: some, but not all, are expected"

    return check


# Checks of the capture

def kinds(packet):
    return [int(kind) for kind in packet[TYPE]]


def sent_by(side, kind, least=1):
    """Checks that the side sent chunks of this type."""
    def check(capture):
        count = sum(kinds(packet).count(kind) for packet in capture.packets(TYPE) if packet["side"] == side)
        return None if count >= least else f"{side} sent {count} chunks of type {kind}, not {least}"

    return check


def never_sent(kind):
    def check(capture):
        count = sum(kind in kinds(packet) for packet in capture.packets(TYPE))
        return f"{count} packets have a chunk of type {kind}" if count else None

    return check


def authenticated(*wanted):
    """Checks that all chunks of these types follow an AUTH chunk, and that both sides sent some."""
    def check(capture):
        bare, seen = 0, set()
        for packet in capture.packets(TYPE):
            types = kinds(packet)
            for kind in wanted:
                if kind in types:
                    seen.add((packet["side"], kind))
                    bare += AUTH not in types[: types.index(kind)]
        if bare:
            return f"{bare} packets have chunks of {wanted} without AUTH before them"
        return None if len({side for side, _ in seen}) == 2 else f"only {seen} were sent"

    return check


def values(field, side, *wanted):
    """Checks that the field had exactly these values in AUTH chunks of the side. (INIT lists algorithms, too.)"""
    def check(capture):
        packets = [packet for packet in capture.packets(TYPE, field) if packet["side"] == side and AUTH in kinds(packet)]
        found = {value for packet in packets for value in packet[field]}
        found = {str(int(value, 0)) for value in found}
        return None if found == {str(value) for value in wanted} else f"{side} sent {field} {sorted(found)}, not {wanted}"

    return check


def data_moved(side):
    """Checks that data of the side moved from path 0 to path 1."""
    def check(capture):
        paths = [packet["path"] for packet in capture.packets(TYPE) if packet["side"] == side and DATA in kinds(packet)]
        if paths[:1] != [0] or set(paths[-5:]) != {1}:
            return f"{side} sent its first data on path {paths[:1]} and its last on {paths[-5:]}"
        return None

    return check


def source_moved(side, old, new):
    """Checks that data of the side was first sent from one address and at the end from the other."""
    def check(capture):
        sources = [packet["from"] for packet in capture.packets(TYPE) if packet["side"] == side and DATA in kinds(packet)]
        if sources[:1] != [old] or set(sources[-5:]) != {new}:
            return f"{side} sent its first data from {sources[:1]} and its last from {sources[-5:]}"
        return None

    return check


def interleaved(side):
    """Checks that a fragment of another stream was sent within a message."""
    def check(capture):
        fields = ("sctp.data_sid", "sctp.data_b_bit", "sctp.data_e_bit")
        unfinished, between = set(), 0
        for packet in capture.packets(*fields):
            if packet["side"] != side:
                continue
            for stream, begins, ends in zip(*(packet[name] for name in fields)):
                between += bool(unfinished - {stream})
                if ends in ("1", "True"):
                    unfinished.discard(stream)
                elif begins in ("1", "True"):
                    unfinished.add(stream)
        return None if between else f"{side} finished each message before it began another"

    return check


# Scenarios

class Extensions:
    """Scenarios of one pair, without those that a peer does not support, see README.md."""

    def __init__(self, make):
        self.make = make

    def add(self, name, near, far, checks, wire, transport="udp", **more):
        return self.make.add(name, transport, more.pop("near_listens", False), near, far, checks, wire_checks=wire, **more)

    def stack(self, which):
        return self.make.near if which == "near" else self.make.far

    def both(self, sender, source, sink):
        return (source, sink) if sender == "near" else (sink, source)

    def partial(self, sender, rule, offered="partial", forward=FORWARD_TSN, ender=None, **more):
        """Messages are abandoned, and FORWARD-TSN is sent: lost messages with a limit of retransmissions, messages
        of a break longer than their lifetime with a limit of the lifetime. The sender shuts down, or Carrick as `ender` when
        nothing has arrived for a while."""
        from scenarios import ended, fine
        receiver = ROLES[sender]
        timed = rule.startswith("timed")
        faults = {"cut_path": 0, "restored_after": 3.0} if timed else {"loss": 2.0}
        # Linux ends the association at the tenth timeout, see "Faults of the peers": less data takes one or two.
        size = 6 * MEGA if timed else 0.6 * MEGA if self.stack(sender) == "kernel" else 3 * MEGA
        common = ["--extensions", offered, "--streams", 8, "--unordered", 5, *(BREAK_TIMERS if timed else LONG_GUARD)]
        source = ["--mode", "source", "--bytes", int(size), "--sizes", "8-4000", "--rate", MEGA if timed else 3 * MEGA,
                  "--reliability", rule, *common]
        sink = ["--mode", "sink", "--gaps", "--progress", MEGA if timed else 0, *common]
        if ender == receiver:
            sink += ["--expect", 1, "--idle", 8000 if timed else 3000, "--end", "shutdown"]
        else:
            source += ["--end", "shutdown"]
        checks = [fine, ended(ender or sender, "shutdown", "self"), in_force("partial"), some_missing(sender, receiver),
                  counted(sender, "abandoned"), counted(sender, "forward_tsns_sent"), counted(receiver, "forward_tsns_received")]
        return self.add(f"{'interleaved-' if forward == I_FORWARD_TSN else ''}partial-{rule.partition(':')[0]}-from-{sender}",
                 *self.both(sender, source, sink), checks, [sent_by(sender, forward)], limit=40, **faults, **more)

    def nothing_abandoned(self, sender):
        """Messages may be abandoned or interleaved, but not both: a peer without I-FORWARD-TSN receives all of them."""
        from scenarios import arrived, ended, fine
        receiver = ROLES[sender]
        common = ["--extensions", "partial,interleaving", "--streams", 8, *TIMERS]
        source = ["--mode", "source", "--bytes", 3 * MEGA, "--sizes", "1-1300", "--unordered", 5, "--rate", 3 * MEGA,
                  "--reliability", "retransmissions:0", "--end", "shutdown", *common]
        sink = ["--mode", "sink", *common]
        checks = [fine, ended(sender, "shutdown", "self"), arrived(sender, receiver), in_force("interleaving"), counted_at_most(sender, "abandoned")]
        self.add(f"interleaved-none-abandoned-from-{sender}", *self.both(sender, source, sink), checks,
                 [sent_by(sender, I_DATA, 100), never_sent(FORWARD_TSN), never_sent(I_FORWARD_TSN)],
                 near_listens=sender == "far", loss=2.0, limit=40)

    def authentication(self, algorithm, identifier, **more):
        """DATA is accepted only authenticated in both directions, with a key change during the transfer."""
        from scenarios import arrived, ended, fine
        common = ["--extensions", "authentication", "--authenticate", DATA, "--hmac", algorithm, *KEYS, "--streams", 4]
        size = 2 * MEGA
        source = ["--mode", "source", "--bytes", size, "--sizes", "1-20000", "--expect", size, "--end", "shutdown", "--do", f"use-key=2@{MEGA}", *common]
        echo = ["--mode", "echo", "--do", f"use-key=2@{2 * MEGA}", *common]
        checks = [fine, ended("near", "shutdown", "self"), arrived("near", "far"), arrived("far", "near"), in_force("authentication"),
                  did("near", "use-key=2"), did("far", "use-key=2"), counted_at_most("near", "forged_packets"),
                  counted_at_most("near", "unknown_keys"), counted_at_most("near", "unauthenticated_chunks")]
        wire = [authenticated(DATA)]
        wire += [values("sctp.shared_key_id", side, 1, 2) for side in ROLES]
        wire += [hmac_used(identifier)]
        self.add(f"authenticated-{algorithm}", source, echo, checks, wire, **more)

    def addresses(self, mover, transport, **more):
        """The side moves from path 0 to path 1, and the transfer continues."""
        from scenarios import arrived, fine
        other = ROLES[mover]
        side = "a" if mover == "near" else "b"
        old, new = address(side, 0), address(side, 1)
        size = 6 * MEGA
        common = ["--extensions", "authentication,addresses", "--streams", 4, *TIMERS]
        steps = [f"add-address={new}@{MEGA}", f"set-primary={new}@{2 * MEGA}", f"delete-address={old}@{3 * MEGA}"]
        moves = [word for step in steps for word in ("--do", step)]
        source = ["--mode", "source", "--bytes", size, "--sizes", "1-20000", "--rate", 3 * MEGA, "--expect", size, *common]
        arguments = {mover: [*source, *moves], other: [*source, "--end", "shutdown"]}
        checks = [fine, arrived("near", "far"), arrived("far", "near"), in_force("addresses"), did(mover, *(s.partition("@")[0] for s in steps)),
                  reported(other, "path", addr=new, state="added"), reported(other, "path", addr=old, state="removed")]
        wire = [sent_by(mover, ASCONF, 3), sent_by(other, ASCONF_ACK, 3), asconf_authenticated(mover), source_moved(mover, old, new), data_moved(other)]
        self.add(f"addresses-of-{mover}", arguments["near"], arguments["far"], checks, wire, transport=transport,
                 paths_of={mover: (0,), other: (0, 1)}, limit=40, **more)

    def streams(self, requester, association=True, sizes="1-3000"):
        """Streams are reset in both directions and added, then all numbers are reset, while echoes of these sizes continue."""
        from scenarios import arrived, fine
        other = ROLES[requester]
        size = 3 * MEGA
        common = ["--extensions", "reconfiguration", "--streams", 4, *TIMERS]
        steps = [f"reset-out@{MEGA}", f"reset-in@{2 * MEGA}", f"add-streams=2/2@{3 * MEGA}"]
        if association:
            steps.append(f"reset-association@{4 * MEGA}")
        source = ["--mode", "source", "--bytes", size, "--sizes", sizes, "--rate", 2 * MEGA, "--expect", size, "--end", "shutdown", *common]
        echo = ["--mode", "echo", *common]
        asked = [word for step in steps for word in ("--do", step)]
        arguments = {"near": source, "far": echo}
        arguments[requester] = [*arguments[requester], *asked]
        checks = [fine, arrived("near", "far"), arrived("far", "near"), in_force("reconfiguration"), did(requester, *(s.partition("@")[0] for s in steps)),
                  reported(requester, "streams-reset", direction="outgoing", success=True), reported(requester, "streams-added", success=True),
                  reported(other, "streams-reset", direction="incoming", success=True), reported(other, "streams-added")]
        if association:
            checks += [reported(requester, "association-reset", success=True), reported(other, "association-reset")]
        self.add(f"streams-{requester}-requests", arguments["near"], arguments["far"], checks, [sent_by(side, RE_CONFIG, len(steps)) for side in ROLES], limit=40)

    def numbers(self):
        """All numbers are reset while only the requesting side has data to send."""
        from scenarios import arrived, fine
        common = ["--extensions", "reconfiguration", "--streams", 4, *TIMERS]
        source = ["--mode", "source", "--bytes", 3 * MEGA, "--sizes", "1-3000", "--rate", 3 * MEGA, "--end", "shutdown",
                  "--do", f"reset-association@{MEGA}", *common]
        checks = [fine, arrived("near", "far"), in_force("reconfiguration"), did("near", "reset-association"),
                  reported("near", "association-reset", success=True), reported("far", "association-reset")]
        self.add("numbers-near-requests", source, ["--mode", "sink", *common], checks, [sent_by(side, RE_CONFIG) for side in ROLES], limit=40)

    def interleaving(self, sender, fragments=True, ender=None, **more):
        """Interleaved large messages of several streams, or only unfragmented ones in I-DATA. The sender shuts down, or `ender`."""
        from scenarios import arrived, ended, fine
        receiver = ROLES[sender]
        common = ["--extensions", "interleaving", "--streams", 6, "--unordered", 4, "--scheduler", "rr"]
        source = ["--mode", "source", "--bytes", 8 * MEGA, "--sizes", "1,20000,9000,7,15000" if fragments else "1-1300",
                  *common]
        sink = ["--mode", "sink", "--expect", 8 * MEGA, *common]
        (sink if ender == receiver else source).extend(["--end", "shutdown"])
        checks = [fine, ended(ender or sender, "shutdown", "self"), arrived(sender, receiver), in_force("interleaving")]
        wire = [sent_by(sender, I_DATA, 100), never_sent(DATA), *([interleaved(sender)] if fragments else [])]
        name = f"{'interleaved' if fragments else 'whole-in-i-data'}-from-{sender}"
        return self.add(name, *self.both(sender, source, sink), checks, wire, loss=0.5, limit=40, **more)

    def ecn(self, sender, transport, **more):
        """Routers mark packets; the receiver sends ECNE, the sender reduces its rate."""
        from scenarios import arrived, ended, fine
        receiver = ROLES[sender]
        common = ["--extensions", "ecn", "--streams", 4]
        source = ["--mode", "source", "--bytes", 4 * MEGA, "--sizes", "1-20000", "--rate", 4 * MEGA, "--end", "shutdown", *common]
        sink = ["--mode", "sink", *common]
        checks = [fine, ended(sender, "shutdown", "self"), arrived(sender, receiver), in_force("ecn"),
                  counted(sender, "mark_reductions"), counted(receiver, "marks_received")]
        self.add(f"marks-from-{sender}", *self.both(sender, source, sink), checks, [sent_by(receiver, ECNE), sent_by(sender, CWR)],
                 transport=transport, marks=2.0, limit=40, **more)

    def search(self, transport, **more):
        """carrick probes the path MTU with HEARTBEAT and PAD; the peer skips PAD and sends HEARTBEAT ACK."""
        from scenarios import arrived, ended, fine
        source = ["--mode", "source", "--bytes", 2 * MEGA, "--sizes", "1-20000", "--rate", MEGA, "--end", "shutdown", "--search-mtu"]
        checks = [fine, ended("near", "shutdown", "self"), arrived("near", "far"), counted("near", "probes_answered", 2), mtu_found(1500)]
        self.add("path-mtu-search", source, ["--mode", "sink"], checks, [sent_by("near", PAD, 2), never_sent_by("far", 6)], transport=transport, **more)


def never_sent_by(side, kind):
    def check(capture):
        count = sum(kind in kinds(packet) for packet in capture.packets(TYPE) if packet["side"] == side)
        return f"{side} sent {count} chunks of type {kind}" if count else None

    return check


def mtu_found(most):
    """Checks that the discovered path MTU is near the link's MTU, and not above."""
    def check(run):
        mtus = run["near"].end["facts"]["mtus"]
        return None if all(most - 64 <= mtu <= most for mtu in mtus) else f"near found MTUs {mtus}, not {most}"

    return check


def hmac_used(identifier):
    return lambda capture: values("sctp.hmac_id", "near", identifier)(capture) or values("sctp.hmac_id", "far", identifier)(capture)


def asconf_authenticated(mover):
    """Checks that ASCONF of the moving side and ASCONF-ACK of the other side are authenticated."""
    def check(capture):
        bare = 0
        for packet in capture.packets(TYPE):
            types = kinds(packet)
            kind = ASCONF if packet["side"] == mover else ASCONF_ACK
            if kind in types:
                bare += AUTH not in types[: types.index(kind)]
        return f"{bare} ASCONF or ASCONF-ACK are without AUTH" if bare else None

    return check


def add_all(make):
    """Adds the scenarios of the extensions that both stacks of the pair support, see "Faults of the peers" in README.md."""
    them, stacks = Extensions(make), {make.near, make.far}
    kernel, usrsctp = "kernel" in stacks, "usrsctp" in stacks
    for sender in ROLES:
        them.partial(sender, "retransmissions:0")
        # The clock of a guest is slow on a busy machine: messages may outlive the break.
        them.partial(sender, "timed:300", quick=sender == "near" or not kernel)
        if kernel:
            them.nothing_abandoned(sender)
        else:
            for rule, quick in (("retransmissions:0", True), ("timed:300", False)):
                them.partial(sender, rule, offered="partial,interleaving", forward=I_FORWARD_TSN, quick=quick)
        them.interleaving(sender, fragments=not kernel)
    for algorithm, identifier in (("sha256", 3), ("sha1", 1)):
        if not (usrsctp and algorithm == "sha256"):
            them.authentication(algorithm, identifier, quick=usrsctp or algorithm == "sha256")
    for mover in ROLES:
        for transport in ("udp", "ip"):
            if not (usrsctp and mover == "far" and transport == "udp"):
                them.addresses(mover, transport, quick=transport == "ip")
    for requester in ROLES:
        them.streams(requester, association=not usrsctp, sizes="1-1400" if usrsctp else "1-3000")
    if usrsctp:
        them.numbers()
    for sender in ROLES:
        for transport in ("udp", "ip"):
            if not usrsctp or (sender, transport) == ("near", "ip"):
                them.ecn(sender, transport, quick=transport == "ip")
    if make.near == "carrick":
        for transport in ("udp", "ip"):
            them.search(transport, quick=transport == "udp")
