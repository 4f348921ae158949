#!/usr/bin/env python3
"""Generates docs/conformance.md: the sections of the RFCs, each with the tests and the packet scripts that cover it.

The source of a test is a doc line above its `#[test]`, one line each if there are several:

    /// RFC 9260, section 6.2.1
    /// RFC 5061, section 5.3, rule F13
    /// RFC 4960, appendix A
    /// draft-natarajan-tsvwg-sctp-nrsack, section 4

A test of an erratum has its number behind the section: `RFC 9260, section 3.3.3, erratum 7148`.
Text behind a colon is ignored. The source of a script under conformance/ is its first line, with the rule behind the colon:

    // RFC 9260, section 6.2: a SACK is delayed by no more than 200 ms.

With `--check` nothing is written; the exit status is 1 if the page
differs from what would be generated.
"""
import collections
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path("docs/conformance.md")
COMMAND = "python3 scripts/conformance.py"

TITLES = {
    "RFC 768": "User Datagram Protocol",
    "RFC 1122": "Requirements for Internet Hosts",
    "RFC 2003": "IP Encapsulation within IP",
    "RFC 2018": "TCP Selective Acknowledgment Options",
    "RFC 2104": "HMAC",
    "RFC 2202": "Test Cases for HMAC-MD5 and HMAC-SHA-1",
    "RFC 2960": "Stream Control Transmission Protocol (obsolete)",
    "RFC 3022": "Traditional IP Network Address Translator",
    "RFC 3024": "Reverse Tunneling for Mobile IP",
    "RFC 3042": "Enhancing TCP's Loss Recovery Using Limited Transmit",
    "RFC 3168": "Explicit Congestion Notification",
    "RFC 3261": "Session Initiation Protocol",
    "RFC 3264": "Offer/Answer Model with SDP",
    "RFC 3311": "SIP UPDATE Method",
    "RFC 3326": "Reason Header Field for SIP",
    "RFC 3758": "Partial Reliability Extension",
    "RFC 3873": "SCTP Management Information Base",
    "RFC 4015": "The Eifel Response Algorithm",
    "RFC 4165": "MTP2 User Peer-to-Peer Adaptation Layer (M2PA)",
    "RFC 4231": "Test Cases for HMAC-SHA-2",
    "RFC 4291": "IPv6 Addressing Architecture",
    "RFC 4540": "SIMCO",
    "RFC 3331": "MTP2 User Adaptation Layer (M2UA)",
    "RFC 3868": "Signalling Connection Control Part User Adaptation Layer (SUA)",
    "RFC 4233": "ISDN Q.921-User Adaptation Layer (IUA)",
    "RFC 4666": "MTP3 User Adaptation Layer (M3UA)",
    "RFC 4732": "Internet Denial-of-Service Considerations",
    "RFC 4820": "Padding Chunk and Parameter",
    "RFC 4895": "Authenticated Chunks",
    "RFC 4960": "Stream Control Transmission Protocol (obsolete)",
    "RFC 5061": "Dynamic Address Reconfiguration",
    "RFC 5062": "Security Attacks Found Against SCTP",
    "RFC 5189": "Middlebox Communication Protocol Semantics",
    "RFC 5681": "TCP Congestion Control",
    "RFC 5944": "IP Mobility Support for IPv4",
    "RFC 6083": "DTLS for SCTP",
    "RFC 6298": "Computing TCP's Retransmission Timer",
    "RFC 6347": "Datagram Transport Layer Security 1.2",
    "RFC 6356": "Coupled Congestion Control",
    "RFC 6458": "Sockets API Extensions for SCTP",
    "RFC 6525": "Stream Reconfiguration",
    "RFC 6582": "The NewReno Modification to TCP",
    "RFC 6675": "SACK-Based Loss Recovery for TCP",
    "RFC 6724": "Default Address Selection for IPv6",
    "RFC 6937": "Proportional Rate Reduction",
    "RFC 6951": "UDP Encapsulation of SCTP Packets",
    "RFC 7053": "SACK-IMMEDIATELY Extension",
    "RFC 7323": "TCP Extensions for High Performance",
    "RFC 7496": "Additional Policies for Partial Reliability",
    "RFC 7829": "SCTP-PF: Quick Failover",
    "RFC 8122": "Connection-Oriented Media Transport over TLS in SDP",
    "RFC 8200": "Internet Protocol, Version 6",
    "RFC 8260": "Stream Schedulers and User Message Interleaving",
    "RFC 8261": "DTLS Encapsulation of SCTP Packets",
    "RFC 8312": "CUBIC (obsolete)",
    "RFC 8899": "Packetization Layer Path MTU Discovery",
    "RFC 8985": "RACK-TLP Loss Detection",
    "RFC 9147": "Datagram Transport Layer Security 1.3",
    "RFC 9260": "Stream Control Transmission Protocol",
    "RFC 9293": "Transmission Control Protocol",
    "RFC 9406": "HyStart++",
    "RFC 9438": "CUBIC",
    "RFC 9653": "Zero Checksum for SCTP",
    "draft-cheng-iccrg-delivery-rate-estimation": "Delivery Rate Estimation",
    "draft-ietf-tsvwg-sctp-dtls-chunk": "DTLS Chunk for SCTP",
    "draft-natarajan-tsvwg-sctp-nrsack": "Non-Renegable Selective Acknowledgments",
}

# Verified errata of RFC 9260: the sections that they concern, and what they correct. An editorial one changes no rule and has no test.
ERRATA = {
    "7147": ("", "a quotation", "editorial"),
    "7148": ("3.3.3", "an INIT ACK with an a_rwnd below 1500 ends the set-up in COOKIE-WAIT, with an ABORT, and is discarded silently in other states, as one without streams; the text had it "
             "discarded with an ABORT and the state unchanged", "technical"),
    "7387": ("5.2.4.1", "in the example of a restart, the COOKIE ECHO is protected by T1-cookie, not by T1-init", "technical"),
    "7852": ("8.5", "the Verification Tag of a packet is validated before its chunks are processed or the state changes", "technical"),
    "8402": ("5.1.6", "T1-init is the timer of INIT, and T1-cookie that of COOKIE ECHO", "technical"),
}

# How words of test names are written in sentences; others are left as they are.
SPELLINGS = (
    "ACK ASCONF ASCONF-ACK AUTH CMT COOKIE-ACK COOKIE-ECHO CWR DF DTLS ECN ECNE ECT FORWARD-TSN HMAC HMACs HTNA I-DATA I-FORWARD-TSN "
    "ICMP INIT INIT-ACK IP IPv4 IPv6 MID MIDs MTU NAT NATs NR-SACK PAD PF PMDCS PPID PR-SCTP PRR RACK RE-CONFIG RFC RTCP "
    "RTO RTP RTT SACK SACKs SCTP SHUTDOWN-ACK SHUTDOWN-COMPLETE SID SIMCO SIP SSN SSNs TCP TLP TLS TSN TSNs UDP RTO.Max "
    "AS-ACTIVE AS-DOWN AS-INACTIVE AS-PENDING ASP ASPs AST BFM CRC32c DUPU FSN FSNs INVITE KiB Linux MB MIB NOAUTH NTFY Nagle PDR PEA PLC PTO SCON SGP SLS SYN TTL kB co-located half-open multi-homed "
    "non-renegable non-unicast COOKIE-WAIT COOKIE-ECHOED SHUTDOWN-ACK-SENT SHUTDOWN-RECEIVED SHUTDOWN-SENT Max.Burst Max.Init.Retransmits Path.Max.Retrans Association.Max.Retrans HB.Max.Burst"
).split()
SPELLED = {re.sub(r"[-. ]", "_", s.lower()): s for s in SPELLINGS} | {
    "acks": "ACKs", "cmsg_len": "CMSG_LEN", "cmsg_space": "CMSG_SPACE", "debians": "Debian's", "eof": "SCTP_EOF",
    "inits": "INITs", "invites": "INVITEs", "k": "K", "max_init_timeout": "max_init_timeout", "nr_blocks": "NR blocks",
    "nr_sacks": "NR-SACKs", "reinvite": "re-INVITE", "reinvites": "re-INVITEs", "sha1": "SHA-1", "t1_cookie": "T1-cookie",
    "t1_init": "T1-init", "t2": "T2", "t3": "T3", "t1": "T1", "t5_guard": "T5-guard",
}
# Abbreviations that are words as well: they are meant where they begin a name.
FIRST = {"are": "ARE", "bye": "BYE", "per": "PER", "red": "RED", "sa": "SA", "st": "ST"}
# Names of libraries, in lower case also where they begin a sentence.
LOWER_CASE = {"libcarrick", "libsctp", "smoltcp", "tshark"}

SOURCE = re.compile(
    r"(?P<document>RFC \d+|draft-[\w-]+)(?:, (?:section (?P<section>\d+(?:\.\d+)*)|appendix (?P<appendix>[A-Z](?:\.\d+)*))"
    r"(?:, rule (?P<rule>\w[\w ]*))?(?:, erratum (?P<erratum>\d+))?)?(?:[:.].*)?$"
)
TEST = re.compile(r"#\[(?:\w+::)?test\b")

Test = collections.namedtuple("Test", "path line name rule erratum")
Script = collections.namedtuple("Script", "path text")


def sources(lines, at):
    """Returns the sources in the doc lines and attributes above line `at`, in their order."""
    first = at
    while first > 0 and re.match(r"\s*(///|#\[)", lines[first - 1]):
        first -= 1
    for line in lines[first:at]:
        match = SOURCE.match(line.strip().removeprefix("///").strip())
        if match:
            yield match


def collect():
    """Returns the tests of each section: {document: {section: [test]}}, with a dotted key for appendices, too."""
    files = subprocess.run(["git", "ls-files", "crates/*.rs"], check=True, capture_output=True, text=True).stdout.split()
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(files):
        lines = pathlib.Path(path).read_text().splitlines()
        for at, line in enumerate(lines):
            if not TEST.match(line.strip()):
                continue
            name = next((m[1] for m in (re.search(r"\bfn (\w+)", after) for after in lines[at:at + 8]) if m), None)
            if name is None:
                continue
            for match in sources(lines, at):
                section = match["section"] or match["appendix"] or ""
                found[match["document"]][section].append(Test(path, at, name, match["rule"] or "", match["erratum"] or ""))
    return found


def collect_scripts():
    """Returns the scripts of each section: {document: {section: [script]}}."""
    files = subprocess.run(["git", "ls-files", "conformance/*.pkt"], check=True, capture_output=True, text=True).stdout.split()
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(files):
        with open(path) as script:
            title = script.readline().strip().removeprefix("//").strip()
        match = SOURCE.match(title)
        if not match or ": " not in title:
            sys.exit(f"{path}: the first line is not `// RFC N, section N: rule`")
        text = title.split(": ", 1)[1].rstrip(".")
        if match["rule"]:
            text += f" (rule {match['rule']})"
        text = text if text[:2].isupper() or text[1:2].isdigit() else text[0].upper() + text[1:]
        found[match["document"]][match["section"] or match["appendix"] or ""].append(Script(path, text))
    return found


def natural(text):
    """Sort key by which 6.10 follows 6.9, and appendices follow sections."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|[A-Za-z]+", text)]


def document_order(document):
    """RFC 9260 first, then the other RFCs by number, then drafts."""
    return (document != "RFC 9260", not document.startswith("RFC"), natural(document))


def sentence(name):
    """Returns the name of a test as a sentence."""
    words = name.split("_")
    out = []
    while words:
        count = next((n for n in (3, 2) if "_".join(words[:n]) in SPELLED), 1)
        word = "_".join(words[:count])
        out.append(SPELLED.get(word, word))
        words = words[count:]
    out[0] = FIRST.get(out[0], out[0])
    text = re.sub(r"\b(\d+) 000\b", r"\1,000", " ".join(out))
    text = re.sub(r"\b[b-z](?= bit\b)|\b(?<=action )[a-d]\b", lambda letter: letter[0].upper(), text)
    return text if out[0] in LOWER_CASE else text[0].upper() + text[1:]


def heading(document):
    title = TITLES.get(document)
    return f"{document}: {title}" if title else document


def anchor(document):
    """Returns the anchor of a document's heading, as GitHub and mdBook generate it."""
    return re.sub(r"[^\w -]", "", heading(document).lower()).replace(" ", "-")


def section_link(document, section):
    if not document.startswith("RFC"):
        return section
    page = f"https://www.rfc-editor.org/rfc/rfc{document.split()[1]}"
    if not section:
        return f"[all]({page})"
    kind = "section" if section[0].isdigit() else "appendix"
    label = section if kind == "section" else f"appendix {section}"
    return f"[{label}]({page}#{kind}-{section})"


def errata(found):
    """Returns the lines of the section about errata of RFC 9260."""
    tests = collections.defaultdict(dict)
    for section in found["RFC 9260"].values():
        for test in section:
            if test.erratum:
                tests[test.erratum][test.path, test.line] = f"[{sentence(test.name)}](../{test.path})"
    unknown = sorted(set(tests) - set(ERRATA))
    untested = sorted(n for n, (_, _, kind) in ERRATA.items() if kind == "technical" and n not in tests)
    if unknown or untested:
        sys.exit(f"errata of RFC 9260 without an entry: {unknown}, without a test: {untested}")
    out = ["", "### Errata", "", "Verified errata of RFC 9260 apply as its text does.", "", "| erratum | section | correction | tests |", "|---|---|---|---|"]
    for number, (section, text, kind) in ERRATA.items():
        link = f"[{number}](https://www.rfc-editor.org/errata/eid{number})"
        where = section_link("RFC 9260", section) if section else ""
        shown = "<br>".join(tests[number].values()) or f"none: {kind}"
        out.append(f"| {link} | {where} | {text} | {shown} |")
    return out


def page(found, scripts):
    documents = sorted(set(found) | set(scripts), key=document_order)
    tests = {(t.path, t.line) for sections in found.values() for all_tests in sections.values() for t in all_tests}
    sections = sum(len(set(found[d]) | set(scripts[d])) for d in documents)
    script_count = sum(len(s) for d in documents for s in scripts[d].values())
    out = [
        "# Conformance",
        "",
        f"{len(tests)} tests and {script_count} packet scripts cover {sections} sections of {len(documents)} documents.",
        "",
        f"This page is generated by `{COMMAND}` from the doc lines above the tests and the first lines of the [scripts](script.md). Deviations from the RFCs and choices where an RFC leaves one are",
        "in [deviations](deviations.md), features that no RFC describes in [features](features.md).",
        "",
        "| document | sections | tests | scripts |",
        "|---|---|---|---|",
    ]
    for document in documents:
        count = len({(t.path, t.line) for all_tests in found[document].values() for t in all_tests})
        shown = sum(len(s) for s in scripts[document].values()) or ""
        all_sections = set(found[document]) | set(scripts[document])
        out.append(f"| [{heading(document)}](#{anchor(document)}) | {len(all_sections)} | {count} | {shown} |")
    for document in documents:
        has_scripts = bool(scripts[document])
        head = ["| section | tests | scripts |", "|---|---|---|"] if has_scripts else ["| section | tests |", "|---|---|"]
        out += ["", f"## {heading(document)}", "", *head]
        for section in sorted(set(found[document]) | set(scripts[document]), key=natural):
            links = []
            for test in sorted(found[document][section], key=lambda t: (natural(t.rule), t.path, t.line)):
                rule = f" ({test.rule})" if test.rule else ""
                links.append(f"[{sentence(test.name)}](../{test.path}){rule}")
            row = f"| {section_link(document, section)} | {'<br>'.join(links)} |"
            if has_scripts:
                shown = [f"[{s.text}](../{s.path})" for s in scripts[document][section]]
                row += f" {'<br>'.join(shown)} |"
            out.append(row)
        if document == "RFC 9260":
            out += errata(found)
    return "\n".join(out) + "\n"


def main():
    text = page(collect(), collect_scripts())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        print(text.splitlines()[2])
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE} differs from the doc lines of the tests: run {COMMAND}")
        return 1
    print(f"{PAGE} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
