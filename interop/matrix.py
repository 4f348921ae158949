"""The matrix of docs/interop.md: the same procedures against every stack, with a verdict and the evidence of each failure."""

import datetime
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from extensions import ROLES, Extensions, did, in_force, reported, sent_by
from programs import HERE, WEBRTC_BUILT, WEBRTC_STACKS
from scenarios import LAN_TIMERS, Maker, arrived, ended, fine

MEGA = 1_000_000
# Port of WebRTC, which most of its stacks cannot change; and "WebRTC Binary", the PPID that all of them send.
WEBRTC_PORT = 5000
WEBRTC_PPID = ["--ppid", 53]
RE_CONFIG = 130
STACKS = ("kernel", "usrsctp", *WEBRTC_STACKS)
TITLES = {"kernel": "Linux", "pion": "pion/sctp"}
LOSS_LIMIT = 60
END = ["--end", "shutdown"]
FROM_CARRICK, FROM_PEER = "ip.src == 10.77.0.1", "ip.src == 10.77.0.2"


# Procedures. Each builder makes the scenario of one row; the peer connects, except where a row has another role.

def transfer(sender, size, sizes, more=()):
    """Options of the side that sends and of the side that receives."""
    common = ["--streams", 8, "--unordered", 4, *more]
    source = ["--mode", "source", "--bytes", size, "--sizes", sizes, *common]
    return source, ["--mode", "sink", *common]


def ending(sender, source, sink, size):
    """Adds the shutdown by Carrick, by which all procedures but the shutdown of the peer end, when everything was sent or has arrived."""
    return ([*source, *END], sink) if sender == "near" else (source, [*sink, "--expect", size, *END])


def ended_by_carrick():
    return [ended("near", "shutdown", "self"), ended("far", "shutdown", "peer")]


def echo(near_listens, near_sends):
    def build(make, transport):
        name = f"echo-{'near' if near_sends else 'far'}-sends"
        return make.echo(transport, near_listens, near_sends, name, ender="near")

    return build


def shut_down(by):
    """A side shuts down as soon as its stack has accepted all messages, of which most are not acknowledged then."""
    def build(make, transport):
        other = ROLES[by]
        source, sink = transfer(by, MEGA, "8-20000")
        checks = [fine, ended(by, "shutdown", "self"), ended(other, "shutdown", "peer"), arrived(by, other)]
        return make.add(f"shutdown-by-{by}", transport, True, *both(by, [*source, *END], sink), checks)

    return build


def both(sender, source, sink):
    return (source, sink) if sender == "near" else (sink, source)


def abort(by):
    return lambda make, transport: make.abort(transport, True, by == "near")


def restart(of):
    """One side is killed and started again at the same address and ports, while the other keeps its association."""
    def build(make, transport):
        size = MEGA // 10
        common = ["--mode", "source", "--sizes", 1000, "--streams", 2, "--expect", size]
        first = [*common, "--bytes", 2 * size, "--hold", size, "--progress", size]
        second = [*common, "--bytes", size, *(END if of == "near" else [])]
        # Both times the size arrives.
        echo = ["--mode", "echo", "--streams", 2, *(["--expect", 2 * size, *END] if of == "far" else [])]
        checks = [fine, *ended_by_carrick()]
        checks += [reported("near", "restart")] if of == "far" else []
        scenario = make.add(f"restart-of-{of}", transport, of == "far", *both(of, first, echo), checks, restarted=of)
        arguments = scenario.near_arguments if of == "near" else scenario.far_arguments
        scenario.arguments_after_restart = [*arguments[: len(arguments) - len(first)], *second]
        return scenario

    return build


def loss(sender):
    def build(make, transport):
        source, sink = transfer(sender, 4 * MEGA, "8-60000", LAN_TIMERS)
        checks = [fine, *ended_by_carrick(), arrived(sender, ROLES[sender])]
        arguments = both(sender, *ending(sender, source, sink, 4 * MEGA))
        return make.add(f"loss-from-{sender}", transport, True, *arguments, checks, loss=2.0, limit=LOSS_LIMIT)

    return build


def reset(by, listed=True):
    """A side resets its outgoing streams and then uses them again; Carrick lists them, or with an empty list resets all. Carrick also
    resets the other direction after a reset by the peer, as RFC 8831 section 6.7 requires of data channels before a stream is used again."""
    def build(make, transport):
        source, sink = transfer(by, MEGA, "8-3000", ["--extensions", "reconfiguration"])
        names = {"near": "reset-out=8" if listed else "reset-out", "far": "reset-out"}
        operation = {which: ["--do", f"{name}@{MEGA // 2}"] for which, name in names.items()}
        checks = [fine, *ended_by_carrick(), arrived(by, ROLES[by]), did(by, names[by])]
        checks += [reported(by, "streams-reset", direction="outgoing", success=True)]
        checks += [reported("near", "streams-reset", direction="incoming")] if by == "far" else []
        answer = operation["near"] if by == "far" else []
        source, sink = [*source, "--rate", 2 * MEGA, *operation[by]], [*sink, *answer]
        arguments = both(by, *ending(by, source, sink, MEGA))
        name = f"reset-by-{by}" if listed else "reset-of-all-by-near"
        return make.add(name, transport, True, *arguments, checks, wire_checks=[sent_by(side, RE_CONFIG) for side in ROLES])

    return build


def partial(sender, rule):
    return lambda make, transport: Extensions(make).partial(sender, rule, transport=transport, near_listens=True, ender="near")


def interleaved(sender):
    return lambda make, transport: Extensions(make).interleaving(sender, transport=transport, near_listens=True, ender="near")


def zero_checksum(make, transport):
    size = MEGA
    common = ["--extensions", "zero-checksum", "--streams", 4]
    source = ["--mode", "source", "--bytes", size, "--sizes", "8-20000", "--expect", size, *END, *common]
    checks = [fine, arrived("near", "far"), arrived("far", "near"), in_force("zero-checksum"), zero_checksums_seen]
    return make.add("zero-checksum", transport, True, source, ["--mode", "echo", *common], checks)


def zero_checksums_seen(run):
    counts = run["far"].end.get("zero_checksums", {})
    return None if counts.get("sent") and counts.get("received") else f"far counted packets with a checksum of zero: {counts}"


ROWS = {
    "near-connects-near-sends": ("Carrick connects; it sends messages of 1 B to 1 MiB, ordered and unordered, and the peer returns them", echo(False, True)),
    "near-connects-far-sends": ("Carrick connects; the peer sends them, and Carrick returns them", echo(False, False)),
    "far-connects-near-sends": ("The peer connects; Carrick sends them, and the peer returns them", echo(True, True)),
    "far-connects-far-sends": ("The peer connects; it sends them, and Carrick returns them", echo(True, False)),
    "loss-from-near": ("2 % loss, Carrick sends 4 MB", loss("near")),
    "loss-from-far": ("2 % loss, the peer sends 4 MB", loss("far")),
    "shutdown-by-near": ("Shutdown by Carrick with data outstanding", shut_down("near")),
    "shutdown-by-far": ("Shutdown by the peer with data outstanding", shut_down("far")),
    "abort-by-near": ("Abort by Carrick", abort("near")),
    "abort-by-far": ("Abort by the peer", abort("far")),
    "restart-of-near": ("Restart of Carrick, which connects", restart("near")),
    "restart-of-far": ("Restart of the peer", restart("far")),
    "reset-by-near": ("Stream reset by Carrick, then the same streams", reset("near")),
    "reset-of-all-by-near": ("Reset of all streams by Carrick, with an empty list", reset("near", listed=False)),
    "reset-by-far": ("Stream reset by the peer, then the same streams", reset("far")),
    "retransmissions-from-near": ("Partial reliability: Carrick limits retransmissions", partial("near", "retransmissions:0")),
    "retransmissions-from-far": ("Partial reliability: the peer limits retransmissions", partial("far", "retransmissions:0")),
    "lifetime-from-near": ("Partial reliability: Carrick limits the lifetime", partial("near", "timed:300")),
    "lifetime-from-far": ("Partial reliability: the peer limits the lifetime", partial("far", "timed:300")),
    "interleaved-from-near": ("Interleaving, Carrick sends", interleaved("near")),
    "interleaved-from-far": ("Interleaving, the peer sends", interleaved("far")),
    "zero-checksum": ("Zero checksum in both directions", zero_checksum),
}


@dataclass
class Cell:
    """One procedure with one stack over one transport."""

    row: str
    stack: str
    transport: str
    scenario: object = None
    # Why there is no scenario.
    missing: str = ""


def lacks(row, stack, transport):
    """Returns why a procedure does not exist for a column, whatever the stack does."""
    if row == "zero-checksum" and transport == "udp":
        return "RFC 9653 has no method of error detection for UDP"
    if row.startswith("restart") and transport == "dtls":
        return "a new process has no DTLS session, and a session of these stacks does not accept the handshake of another"
    return ""


def cells():
    """Returns all cells, by row and column."""
    made = []
    for stack in STACKS:
        webrtc = stack in WEBRTC_STACKS
        for transport in ("udp", "dtls") if webrtc else ("udp",):
            make = Maker("carrick", stack, WEBRTC_PORT, WEBRTC_PPID if webrtc else [])
            for row, (_, build) in ROWS.items():
                missing = lacks(row, stack, transport)
                made.append(Cell(row, stack, transport, None if missing else build(make, transport), missing))
    return made


# Verdicts

@dataclass(frozen=True)
class Fault:
    """Why a cell fails. Over UDP a display filter finds a frame of the capture (`evidence`), or none (`absent`); over DTLS,
    whose content is encrypted, an expression finds the output of a program or of a check (`output`)."""

    whose: str
    section: str
    text: str
    evidence: str = ""
    absent: str = ""
    output: str = ""
    # Not in every run.
    sometimes: bool = False


NO_INIT_ACK = Fault(
    "The peer", "RFC 9260, section 3.2.1",
    "pion/sctp, rtc-sctp and webrtc-sctp do not know the parameter Supported Address Types (12) of section 3.3.2.1, which the INIT of Carrick has "
    "over UDP, and discard the INIT because of it. A receiver that does not recognize a parameter of type 00xx ignores the rest of the parameters, "
    "and answers. Over DTLS the INIT of Carrick has no such parameter.",
    evidence=f"sctp.chunk_type == 1 && sctp.parameter_type == 0x000c && {FROM_CARRICK}", absent="sctp.chunk_type == 2")
RESET_OF_NONE = Fault(
    "The peer", "RFC 6525, section 4.1",
    "pion/sctp, rtc-sctp and webrtc-sctp reset no stream on an Outgoing SSN Reset Request without stream numbers, and respond \"Success - Performed\". "
    "If no streams are listed, all streams are to be reset; the messages that follow with SSN 0 are not delivered.",
    evidence=f"sctp.parameter_type == 0x000d && sctp.parameter_length == 16 && {FROM_CARRICK}",
    output="stream [0-9]: index [0-9]+ never arrived, [0-9]+ did")
QUEUE_DISCARDED = Fault(
    "The peer", "RFC 9260, section 11.1.3",
    "dcsctp sends SHUTDOWN when all DATA in flight is acknowledged, and discards the messages of its send queue. Locally queued user data is to be delivered.",
    evidence=f"sctp.chunk_type == 7 && {FROM_PEER}", output="far sent {[^}]*}, near received {[^}]*}")
SHUTDOWN_TSN = Fault(
    "The peer", "RFC 9260, section 3.3.8",
    "The Cumulative TSN Ack of a SHUTDOWN of rtc-sctp and webrtc-sctp is a TSN of their own data, and not the last one received from Carrick, which aborts "
    "the association if it is beyond what Carrick sent, and else does not regard its data as acknowledged.",
    evidence=f"sctp.chunk_type == 7 && {FROM_PEER}", output="far ended with [a-z]+ by [a-z]+, not shutdown by self")
LIFETIME_QUEUED = Fault(
    "The peer", "RFC 3758, section 4.1, rules TR3 and TR4",
    "pion/sctp sends all messages that were queued during the outage, after their lifetime of 300 ms, and no FORWARD-TSN. The lifetime has to "
    "be evaluated before a TSN is assigned and before each transmission.",
    absent="sctp.chunk_type == 192", output="near reports forward_tsns_received = 0, not 1 or more")
FSN_SENT = Fault(
    "The peer", "RFC 8260, section 2.1",
    "The second fragment of a message in I-DATA of Linux has FSN 0, as the first one has, where it has to be 1. Carrick aborts the association.",
    evidence=f"sctp.data_fsn == 0 && {FROM_PEER}")
FSN_EXPECTED = Fault(
    "The peer", "RFC 8260, section 2.1",
    "Linux does not reassemble messages whose second fragment in I-DATA has FSN 1.", evidence=f"sctp.data_fsn == 1 && {FROM_CARRICK}")

FORWARD_TSN_UNANSWERED = Fault(
    "The peer", "RFC 3758, section 3.6",
    "webrtc-sctp sends no SACK for packets with FORWARD TSN, until Carrick ends the association.",
    evidence=f"sctp.chunk_type == 192 && {FROM_CARRICK}", output="near ended with [a-z]+ by self, not shutdown by self", sometimes=True)
SENDING_STOPS = Fault(
    "The peer", "RFC 9260, section 6.1",
    "webrtc-sctp at times stops sending while a message of 1 MiB waits in its queue, though all sent data is acknowledged and the window is open.",
    evidence=f"sctp.chunk_type == 6 && {FROM_CARRICK}", output="near ended with timeout by self", sometimes=True)
REFLECTED_TAG = Fault(
    "The peer", "RFC 9260, section 8.5.1, rule C",
    "rtc-sctp finds the association of a packet by the Verification Tag alone, and discards a SHUTDOWN COMPLETE with the T bit, whose tag is that of the "
    "other direction. If the first SHUTDOWN COMPLETE is lost, it repeats its SHUTDOWN ACK until its retransmissions end.",
    evidence=f"sctp.shutdown_complete_t_bit == 1 && {FROM_CARRICK}", output="far is not ok: .*'ended': 'timeout'", sometimes=True)
HEARTBEAT_EMPTY = Fault(
    "The peer", "RFC 9260, section 3.3.5",
    "The HEARTBEAT with which pion/sctp measures the round-trip time when no data is in flight has no Heartbeat Information, which is mandatory: its "
    "function that writes chunks takes the header of a HEARTBEAT only. No cell fails because of it alone.",
    evidence=f"sctp.chunk_type == 4 && sctp.chunk_length == 4 && {FROM_PEER}", sometimes=True)

# Cells that fail, by row and column; several rows may have the same fault.
FAULTS = {
    **{(row, stack, "udp"): NO_INIT_ACK for row in ("near-connects-near-sends", "near-connects-far-sends", "restart-of-near")
       for stack in ("pion", "rtc-sctp", "webrtc-sctp")},
    **{("reset-of-all-by-near", stack, transport): RESET_OF_NONE for stack in ("pion", "rtc-sctp", "webrtc-sctp") for transport in ("udp", "dtls")},
    **{("shutdown-by-far", "dcsctp", transport): QUEUE_DISCARDED for transport in ("udp", "dtls")},
    **{("shutdown-by-far", stack, transport): SHUTDOWN_TSN for stack in ("rtc-sctp", "webrtc-sctp") for transport in ("udp", "dtls")},
    **{("lifetime-from-far", "pion", transport): LIFETIME_QUEUED for transport in ("udp", "dtls")},
    ("interleaved-from-near", "kernel", "udp"): FSN_EXPECTED,
    ("interleaved-from-far", "kernel", "udp"): FSN_SENT,
    **{(row, "webrtc-sctp", transport): FORWARD_TSN_UNANSWERED for row in ("retransmissions-from-near", "lifetime-from-near")
       for transport in ("udp", "dtls")},
    **{place: SENDING_STOPS for place in (("far-connects-near-sends", "webrtc-sctp", "udp"), ("far-connects-near-sends", "webrtc-sctp", "dtls"),
                                          ("near-connects-near-sends", "webrtc-sctp", "dtls"))},
    **{(row, "rtc-sctp", transport): REFLECTED_TAG for row in ("loss-from-near", "loss-from-far", "retransmissions-from-near", "retransmissions-from-far")
       for transport in ("udp", "dtls")},
}
# Malformed packets that a stack sends in any procedure. A cell whose capture has no other error does not fail because of them.
MALFORMED = {"pion": HEARTBEAT_EMPTY}


def columns():
    return [(stack, transport) for stack in STACKS for transport in (("udp", "dtls") if stack in WEBRTC_STACKS else ("udp",))]


def fault_of(cell):
    return FAULTS.get((cell.row, cell.stack, cell.transport))


def frames(filter, directory):
    """Returns the numbers of the frames of a capture that match a display filter."""
    words = ["tshark", "-n", "-r", f"{directory}/capture.pcapng", "-d", "udp.port==9899,sctp", "-o", "sctp.ulp_dissection:FALSE",
             "-o", "sctp.reassembly:FALSE", "-Y", filter, "-T", "fields", "-e", "frame.number"]
    return subprocess.run(words, capture_output=True, text=True).stdout.split()


def evidence_in(cell, result):
    """Returns what in a failed run shows the fault of its cell, or None."""
    fault, directory = fault_of(cell), result["files"]
    if cell.transport == "udp":
        found, against = frames(fault.evidence or "sctp", directory), fault.absent and frames(fault.absent, directory)
        return None if not found or against else f"frame {found[0]}" if fault.evidence else f"no frame with {fault.absent}"
    texts = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".log"):
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    found = re.search(fault.output, "\n".join([*result["reasons"], *texts])) if fault.output else None
    return f"output '{found[0]}'" if found else None


def is_passed(cell, result):
    """Returns whether a scenario passed, but for malformed packets that its stack is known to send."""
    reasons = result.get("reasons", [])
    if result.get("passed") or cell.stack not in MALFORMED or not reasons:
        return bool(result.get("passed"))
    if not all(reason.startswith("check_capture: ") for reason in reasons):
        return False
    errors = {number for reason in reasons for number in re.findall(r"^\s*(\d+)\t", reason, re.MULTILINE)}
    return bool(errors) and errors <= set(frames(MALFORMED[cell.stack].evidence, result["files"]))


def verdict(cell, result):
    """Returns the text of the cell, and the reason why it does not count, if there is one."""
    fault = fault_of(cell)
    if cell.missing:
        return "not supported", None
    if "unsupported" in result:
        return "not supported", None
    passed = is_passed(cell, result)
    if passed and fault and fault.sometimes:
        return f"fails at times [{number_of(fault)}](#faults)", None
    if passed:
        return "passed", "it passes, but matrix.py lists a fault" if fault else None
    if not fault:
        return "failed", "matrix.py has no fault for it: " + "; ".join(result["reasons"])
    frame = evidence_in(cell, result)
    if not frame:
        return "failed", f"the evidence of the fault is missing ({evidence_of(fault)}): " + "; ".join(result["reasons"])
    result["fault"] = frame
    return f"{'fails at times' if fault.sometimes else 'failed'} [{number_of(fault)}](#faults)", None


def evidence_of(fault):
    capture = [f"a frame with `{fault.evidence}`"] if fault.evidence else []
    capture += [f"no frame with `{fault.absent}`"] if fault.absent else []
    output = [f"over DTLS, `{fault.output}` in the output of the programs or of the checks"] if fault.output else []
    return "; ".join([" and ".join(capture) + " in the capture", *output])


def distinct_faults():
    return list(dict.fromkeys([*FAULTS.values(), *MALFORMED.values()]))


def number_of(fault):
    return distinct_faults().index(fault) + 1


# The page

def versions():
    """Returns the version of each stack, as its program or package states it."""
    def package(name):
        return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True).stdout

    modules = sorted(os.listdir("/usr/lib/uml/modules"))
    with open(os.path.join(HERE, "../Cargo.toml"), encoding="utf-8") as manifest:
        carrick = re.search(r'^version = "(.*)"', manifest.read(), re.MULTILINE)[1]
    found = {"carrick": carrick, "kernel": f"Linux {modules[-1]}, user-mode Linux of Debian", "usrsctp": f"usrsctp {package('libusrsctp-dev')} of Debian"}
    for stack in WEBRTC_STACKS:
        about = subprocess.run([os.path.join(WEBRTC_BUILT, stack), "about"], capture_output=True, text=True).stdout
        found[stack] = json.loads(about)["about"]
    return found


def page(texts, found):
    """Returns the page; `texts` has the text of each cell by row and column."""
    head = [f"{TITLES.get(stack, stack)}, {transport.upper()}" for stack, transport in columns()]
    lines = [
        "# Interoperability with other stacks", "",
        "<!-- Written by interop/run.py --matrix; edit interop/matrix.py. -->", "",
        "Carrick against other implementations of SCTP, each in a separate network namespace or guest. Every cell is one scenario of",
        "[interop/](../interop/README.md): both programs check every message, and tshark checks every packet.", "",
        "- **passed**: all messages arrived complete, once, and in order where they are ordered; the association ended as requested.",
        "- **failed**: with the number of the [fault](#faults), which names the side at fault.",
        "- **fails at times**: a fault that is not in every run.",
        "- **not supported**: the stack does not list the extension in its INIT, or has no function for the procedure ([reasons](#not-supported)).", "",
        "| Procedure | " + " | ".join(head) + " |", "|---|" + "---|" * len(head),
    ]
    for row, (title, _) in ROWS.items():
        lines.append(f"| {title} | " + " | ".join(texts[row, *column] for column in columns()) + " |")
    lines += ["", "## Stacks", "", f"Run on {datetime.date.today().isoformat()}.", "", "| Stack | Version |", "|---|---|"]
    lines += [f"| {TITLES.get(stack, stack) if stack != 'carrick' else 'Carrick'} | {found[stack]} |" for stack in ("carrick", *STACKS)]
    lines += ["", *NOTES, "", "## Faults", ""]
    for fault in distinct_faults():
        lines.append(f"{number_of(fault)}. **{fault.whose}** ({fault.section}). {fault.text}")
        lines.append(f"   Evidence: {evidence_of(fault)}.")
    lines += ["", "## Not supported", "", *UNSUPPORTED_NOTES, ""]
    return "\n".join(lines)


NOTES = [
    "The stacks of WebRTC run in programs of [interop/peers](../interop/peers/README.md) with a socket and, for DTLS, pion/dtls or crate `rtc-dtls`, with",
    "DTLS 1.2. Their DTLS sessions have the profiles of SRTP that programs of WebRTC configure, because the ClientHello of Carrick has use_srtp",
    "([DTLS](decisions/dtls.md)). Linux and usrsctp are tested over UDP here, and over IP in the other scenarios of [interop/](../interop/README.md).",
    "dcsctp is the crate of the registry with one line inserted, which formats packets for a log only if there is one.",
]
UNSUPPORTED_NOTES = [
    "- Restart over DTLS: a new process has no DTLS session, and a session of these stacks does not accept the handshake of another one",
    "  (RFC 6347 section 4.2.8).",
    "- Zero checksum over UDP: RFC 9653 has no method of error detection for UDP. Over DTLS rtc-sctp and webrtc-sctp do not have the parameter in",
    "  their INIT.",
    "- Interleaving: rtc-sctp and webrtc-sctp do not list I-DATA in the Supported Extensions of their INIT.",
    "- Abort by webrtc-sctp: the crate has no function that sends an ABORT.",
]


def stored(file):
    """Returns the cells of a page."""
    found = {}
    titles = {title: row for row, (title, _) in ROWS.items()}
    with open(file, encoding="utf-8") as text:
        for line in text:
            first, *rest = [part.strip() for part in line.strip().strip("|").split(" | ")]
            if first in titles and len(rest) == len(columns()):
                found |= {(titles[first], *column): value for column, value in zip(columns(), rest)}
    return found


def all_places():
    return [(row, *column) for row in ROWS for column in columns()]


def missing_programs():
    """Returns the programs of build.sh that are not there."""
    return [stack for stack in WEBRTC_STACKS if not os.access(os.path.join(WEBRTC_BUILT, stack), os.X_OK)]


def conclude(options, results):
    """Prints what does not count, and writes the page, or compares it with the results. Returns the exit status."""
    texts, problems = {}, []
    for cell in cells():
        result = results.get(cell.scenario.name) if cell.scenario else {}
        if result is None:
            continue
        place = cell.row, cell.stack, cell.transport
        text, problem = verdict(cell, result)
        name = cell.scenario.name if cell.scenario else ""
        if problem:
            problems.append(f"{name}: {problem}")
            continue
        texts[place] = text
        if "fault" in result:
            print(f"{name}: fault {number_of(fault_of(cell))}, {result['fault']}; files in {result['files']}")
    known = stored(options.matrix) if os.path.exists(options.matrix) else {}
    if options.check:
        problems += [f"{place}: {text}, but {options.matrix} has {known.get(place)}" for place, text in texts.items() if known.get(place) != text]
    else:
        # Cells that were not run, or do not count, stay.
        texts = {place: texts.get(place) or known.get(place, "not run") for place in all_places()}
        with open(options.matrix, "w", encoding="utf-8") as file:
            file.write(page(texts, versions()))
    print("\n".join(problems) or f"{len(texts)} cells, no unexplained failure", file=sys.stderr if options.json else sys.stdout)
    return 1 if problems else 0
