//! Tables in the layout of `/proc/net/sctp`, for tools that read those of the kernel.
//!
//! Addresses of the kernel's objects are numbers of sockets and associations here. Columns that the daemon has
//! no value for are 0: HBKT, T1X, T2X, wmema, wmemq, `HB_ACT`, `MAX_PATH_RTX`; and
//! those that are always 0 on Linux: `REM_ADDR_RTX`, START. RTO and HBINT are in milliseconds. Counters that the daemon has
//! no value for are left out of `snmp`.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use carrick_daemon::{counters, list};
use serde_json::Value;

/// Table of `/proc/net/sctp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Table {
    /// Associations.
    Assocs,
    /// Endpoints: listening sockets.
    Eps,
    /// Paths of associations.
    Remaddr,
    /// Counters of the host (RFC 3873).
    Snmp,
}

const ASSOCS: &str = " ASSOC     SOCK   STY SST ST HBKT ASSOC-ID TX_QUEUE RX_QUEUE UID INODE LPORT RPORT LADDRS \
    <-> RADDRS HBINT INS OUTS MAXRT T1X T2X RTXC wmema wmemq sndbuf rcvbuf";
const EPS: &str = " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS";
const REMADDR: &str = "ADDR ASSOC_ID HB_ACT RTO MAX_PATH_RTX REM_ADDR_RTX START STATE";

/// States of sockets (`sctp_sock_state`).
const SOCKET_ESTABLISHED: u8 = 1;
const SOCKET_CLOSED: u8 = 7;
const SOCKET_LISTENING: u8 = 10;

/// Prints a table of the daemon on a control socket.
pub(super) fn print(table: Table, daemon: &Path, out: &mut impl Write) -> io::Result<()> {
    let header = match table {
        Table::Assocs => ASSOCS,
        Table::Eps => EPS,
        Table::Remaddr => REMADDR,
        Table::Snmp => return snmp(&counters(daemon)?, out),
    };
    // An empty table is the header alone, and without a daemon there is none.
    let mut lines = vec![header.to_owned()];
    let mut socket = Value::Null;
    list(daemon, |row| {
        if row["association"] == 0 {
            lines.extend((table == Table::Eps).then(|| endpoint(&row)).flatten());
            socket = row;
            return Ok(());
        }
        // The associations of a socket follow it; those of closed sockets have none.
        let own = (socket["socket"] == row["socket"]).then_some(&socket);
        match table {
            Table::Assocs => lines.push(association(&row, own)),
            Table::Remaddr => lines.extend(paths(&row)),
            Table::Eps | Table::Snmp => {}
        }
        Ok(())
    })?;
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Prints the counters: a name of 32 columns, a tabulator, and the value.
fn snmp(counters: &Value, out: &mut impl Write) -> io::Result<()> {
    let endpoints = |name: &str| number(&counters["endpoints"][name]);
    let associations = |name: &str| number(&counters["associations"][name]);
    let ordered =
        |all: &str, unordered: &str| associations(all).saturating_sub(associations(unordered));
    let active = endpoints("established").saturating_sub(endpoints("accepted"));
    for (name, value) in [
        ("CurrEstab", number(&counters["established"])),
        ("ActiveEstabs", active),
        ("PassiveEstabs", endpoints("accepted")),
        ("Aborteds", endpoints("aborted")),
        ("Shutdowns", endpoints("shut_down")),
        ("OutOfBlues", endpoints("out_of_the_blue")),
        ("ChecksumErrors", endpoints("bad_checksum")),
        (
            "OutOrderChunks",
            ordered("data_chunks_sent", "unordered_chunks_sent"),
        ),
        ("OutUnorderChunks", associations("unordered_chunks_sent")),
        (
            "InOrderChunks",
            ordered("data_chunks_received", "unordered_chunks_received"),
        ),
        ("InUnorderChunks", associations("unordered_chunks_received")),
        ("OutCtrlChunks", associations("control_chunks_sent")),
        ("InCtrlChunks", associations("control_chunks_received")),
        ("FragUsrMsgs", endpoints("messages_fragmented")),
        ("OutSCTPPacks", endpoints("packets_sent")),
        ("InSCTPPacks", endpoints("datagrams_received")),
        ("T3RtxExpireds", associations("t3_expirations")),
    ] {
        writeln!(out, "{:<32}\t{value}", format!("Sctp{name}"))?;
    }
    Ok(())
}

/// Returns the line of a listening socket; `None` for others.
fn endpoint(row: &Value) -> Option<String> {
    row["backlog"].as_u64()?;
    let socket = number(&row["socket"]);
    let style = style(row);
    let (user, inode) = (number(&row["user"]), number(&row["inode"]));
    let (port, addresses) = local(row, None);
    Some(format!(
        "{socket:08x} {socket:08x} {style:<3} {SOCKET_LISTENING:<3} {:<4} {port:<5} {user:>5} {inode:>5} {addresses}",
        0
    ))
}

/// Returns the line of an association, whose socket may be closed.
fn association(row: &Value, socket: Option<&Value>) -> String {
    let stats = &row["stats"];
    let state = match row["state"].as_str().unwrap_or_default() {
        "CookieWait" => 1,
        "CookieEchoed" => 2,
        "Established" => 3,
        "ShutdownPending" => 4,
        "ShutdownSent" => 5,
        "ShutdownReceived" => 6,
        "ShutdownAckSent" => 7,
        _ => 0,
    };
    let style = socket.map_or(0, style);
    let is_listening = socket.is_some_and(|socket| !socket["backlog"].is_null());
    let socket_state = match (is_listening, style, state) {
        (true, ..) => SOCKET_LISTENING,
        (false, 1, 3) => SOCKET_ESTABLISHED,
        _ => SOCKET_CLOSED,
    };
    let identifier = number(&row["association"]);
    let handle = socket.map_or(0, |socket| number(&socket["socket"]));
    let (sent, received) = (
        number(&stats["send_buffer_bytes"]),
        number(&stats["receive_buffer_bytes"]),
    );
    let (user, inode) = (number(&row["user"]), number(&row["inode"]));
    let primary = paths_of(row).find(|path| path["id"] == stats["primary"]);
    let (port, local) = local(row, primary);
    let peer: Option<SocketAddr> = row["peer"].as_str().and_then(|peer| peer.parse().ok());
    let peer_port = peer.map_or(0, |peer| peer.port());
    let mut remote = String::new();
    for path in paths_of(row) {
        let mark = if path["id"] == stats["primary"] {
            "*"
        } else {
            ""
        };
        remote += mark;
        remote += &address(&path["remote"]);
        remote += " ";
    }
    let (inbound, outbound) = (
        number(&stats["inbound_streams"]),
        number(&stats["outbound_streams"]),
    );
    let counted = |name: &str| number(&stats["counters"][name]);
    let setting = |name: &str| number(&row["settings"][name]);
    let (interval, max_retrans) = (setting("hb_interval_ms"), setting("max_retrans"));
    let (send_buffer, receive_buffer) = (setting("send_buffer"), setting("receive_buffer"));
    let retransmitted = counted("retransmissions");
    format!(
        "{identifier:08x} {handle:08x} {style:<3} {socket_state:<3} {state:<2} {:<4} {identifier:>4} {sent:>8} \
         {received:>8} {user:>7} {inode:>5} {port:<5} {peer_port:>5}  {local}<-> {remote}\t{:>8} {inbound:>5} \
         {outbound:>5} {:>4} {:>4} {:>4} {retransmitted:>8} {:>8} {:>8} {:>8} {:>8}",
        0, interval, max_retrans, 0, 0, 0, 0, send_buffer, receive_buffer
    )
}

/// Returns the lines of an association's paths.
fn paths(row: &Value) -> impl Iterator<Item = String> {
    let association = number(&row["association"]);
    paths_of(row).map(move |path| {
        let status = |name: &str| path["status"][name] == true;
        let state = match (
            status("confirmed"),
            status("active"),
            status("potentially_failed"),
        ) {
            (false, ..) => 3,
            (true, false, _) => 0,
            (true, true, true) => 1,
            (true, true, false) => 2,
        };
        let rto = super::milliseconds(&path["rto"]).unwrap_or(0.0);
        let remote = address(&path["remote"]);
        format!("{remote}  {association} 0 {rto:.0} 0 0 0 {state}")
    })
}

fn paths_of(row: &Value) -> impl Iterator<Item = &Value> {
    row["paths"].as_array().into_iter().flatten()
}

/// Returns the style of a socket (`sctp_socket_type`).
fn style(socket: &Value) -> u8 {
    u8::from(socket["style"] == "one-to-one")
}

/// Returns the local port, and the local addresses, of which that of the primary path is marked.
fn local(row: &Value, primary: Option<&Value>) -> (u16, String) {
    let mut port = 0;
    let mut text = String::new();
    for value in row["local"].as_array().into_iter().flatten() {
        let Some(Ok(local)) = value.as_str().map(str::parse::<SocketAddr>) else {
            continue;
        };
        port = local.port();
        let is_source = primary.is_some_and(|path| path["local"] == local.ip().to_string());
        text += if is_source { "*" } else { "" };
        text += &plain(local.ip());
        text += " ";
    }
    (port, text)
}

fn address(value: &Value) -> String {
    let address = value.as_str().and_then(|text| text.parse().ok());
    address.map(plain).unwrap_or_default()
}

/// Returns an address as the kernel prints it: IPv6 addresses are not shortened.
fn plain(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let groups = v6.segments().map(|group| format!("{group:04x}"));
            groups.join(":")
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn socket() -> Value {
        json!({
            "socket": 26, "association": 0, "user": 1000, "inode": 777, "style": "one-to-one",
            "backlog": 5, "local": ["192.0.2.1:5000", "[2001:db8::1]:5000"],
        })
    }

    fn established() -> Value {
        let path = |id: u8, remote: &str, local: &str, active: bool| {
            json!({
                "id": id, "remote": remote, "local": local,
                "rto": { "secs": 1, "nanos": 500_000_000 },
                "status": { "confirmed": true, "active": active, "potentially_failed": false },
            })
        };
        json!({
            "socket": 27, "association": 3, "user": 1000, "inode": 778, "state": "Established",
            "local": ["192.0.2.1:5000", "[2001:db8::1]:5000"], "peer": "192.0.2.9:6000",
            "stats": {
                "primary": 0, "send_buffer_bytes": 11, "receive_buffer_bytes": 22,
                "inbound_streams": 10, "outbound_streams": 12,
                "counters": { "retransmissions": 6 },
            },
            "settings": {
                "hb_interval_ms": 30_000, "max_retrans": 10, "send_buffer": 200_000, "receive_buffer": 100_000,
            },
            "paths": [
                path(0, "192.0.2.9", "192.0.2.1", true),
                path(1, "2001:db8::9", "2001:db8::1", false),
            ],
        })
    }

    /// Linux, net/sctp/proc.c: `sctp_eps_seq_show`
    #[test]
    fn an_endpoint_has_the_columns_of_linux() {
        let line = endpoint(&socket()).unwrap();
        let expected = "0000001a 0000001a 1   10  0    5000   1000   777 192.0.2.1 \
            2001:0db8:0000:0000:0000:0000:0000:0001 ";
        assert_eq!(line, expected);
        let mut connected = socket();
        connected["backlog"] = Value::Null;
        assert_eq!(endpoint(&connected), None);
    }

    /// Linux, net/sctp/proc.c: `sctp_assocs_seq_show`
    #[test]
    fn an_association_has_the_columns_of_linux() {
        let own = json!({ "socket": 27, "style": "one-to-one", "backlog": null });
        let line = association(&established(), Some(&own));
        let (fields, numbers) = line.split_once('\t').unwrap();
        let expected = "00000003 0000001b 1   1   3  0       3       11       22    1000   778 5000   6000  \
            *192.0.2.1 2001:0db8:0000:0000:0000:0000:0000:0001 <-> *192.0.2.9 \
            2001:0db8:0000:0000:0000:0000:0000:0009 ";
        assert_eq!(fields, expected);
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        assert_eq!(
            numbers,
            [
                "30000", "10", "12", "10", "0", "0", "6", "0", "0", "200000", "100000"
            ]
        );
        assert_eq!(ASSOCS.split_whitespace().count(), 13 + 3 + 11);
    }

    /// Linux, net/sctp/proc.c: `sctp_remaddr_seq_show`
    #[test]
    fn paths_have_the_columns_of_linux() {
        let row = established();
        let lines: Vec<String> = paths(&row).collect();
        let inactive = "2001:0db8:0000:0000:0000:0000:0000:0009  3 0 1500 0 0 0 0";
        assert_eq!(lines, ["192.0.2.9  3 0 1500 0 0 0 2", inactive]);
        assert_eq!(REMADDR.split(' ').count(), 8);
        assert_eq!(lines[0].split_whitespace().count(), 8);
    }

    /// RFC 3873, section 3.2
    #[test]
    fn counters_have_the_names_of_linux() {
        let counters = json!({
            "established": 2,
            "endpoints": { "established": 5, "accepted": 3, "packets_sent": 9 },
            "associations": { "data_chunks_sent": 8, "unordered_chunks_sent": 1 },
        });
        let mut out = Vec::new();
        snmp(&counters, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert_eq!(line.find('\t'), Some(32), "{line}");
            line[33..].parse::<u64>().unwrap()
        };
        assert_eq!(value("SctpCurrEstab "), 2);
        assert_eq!(value("SctpActiveEstabs "), 2);
        assert_eq!(value("SctpPassiveEstabs "), 3);
        assert_eq!(value("SctpOutOrderChunks "), 7);
        assert_eq!(value("SctpOutUnorderChunks "), 1);
        assert_eq!(value("SctpOutSCTPPacks "), 9);
    }
}
