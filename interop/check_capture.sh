#!/bin/sh
# Fails if tshark finds an error in the SCTP packets of a capture: a malformed packet, a bad CRC32c, an expert
# item of severity error, or a datagram on an encapsulation port that is not SCTP.
#
# Usage: check_capture.sh [--dtls] FILE [UDP-PORT...]      (default port: 9899)
#
# With --dtls the packets are in records of DTLS (RFC 8261), whose content is encrypted: the records are checked.
#
# No error is tolerated: offloads are disabled where packets are captured, so that each has its checksum and its size
# on the link.
set -eu

protocol=sctp
if [ "${1:-}" = --dtls ]; then
    protocol=dtls
    shift
fi
file=${1:?usage: check_capture.sh [--dtls] FILE [UDP-PORT...]}
shift
[ $# -gt 0 ] || set -- 9899

decode="" not_sctp=""
for port in "$@"; do
    decode="$decode -d udp.port==$port,$protocol"
    not_sctp="$not_sctp || (udp.port == $port && !$protocol)"
done

report=$(mktemp)
trap 'rm -f "$report"' EXIT

# PPIDs in the tests are message numbers, by which tshark must not dissect the payload (3 would be M3UA).
look() {
    # shellcheck disable=SC2086 # a list of options
    tshark -n -r "$file" $decode -o sctp.checksum:"CRC 32c" -o sctp.ulp_dissection:FALSE -o sctp.reassembly:FALSE \
        -o sctp.tsn_analysis:FALSE -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE "$@" 2>"$report.err" || {
        sed 's/^/check_capture: /' "$report.err" >&2
        rm -f "$report.err"
        exit 2
    }
    rm -f "$report.err"
}

look -Y "$protocol && !icmp && !icmpv6" -T fields -e frame.number >"$report"
packets=$(wc -l <"$report")
if [ "$packets" -eq 0 ]; then
    echo "check_capture: $file has no packet of $protocol; was the right interface captured?" >&2
    exit 1
fi

wrong="_ws.malformed || sctp.checksum.status == 0 || ($protocol && _ws.expert.severity == 0x00800000) || (udp && udp.checksum.status == 0)"
look -Y "($wrong$not_sctp) && !icmp && !icmpv6" -T fields -e frame.number -e _ws.col.Info -e _ws.expert.message >"$report"
if [ -s "$report" ]; then
    echo "check_capture: $file: $(wc -l <"$report") of $packets packets of $protocol have errors; frames:" >&2
    head -n 20 "$report" >&2
    exit 1
fi
echo "check_capture: $file: $packets packets of $protocol without errors"
