//! Answers of Linux to get and set of every option, in buffers of several lengths, as
//! `interop/sockets` has stored them.

use std::collections::BTreeMap;
use std::path::Path;

use carrick_sockets::linux::*;
use carrick_sockets::{Config, Errno, SocketId, Style};

use crate::world::*;

/// Options of the cases that begin with `sweep.`.
const OPTIONS: &[(&str, i32)] = &[
    ("SCTP_RTOINFO", SCTP_RTOINFO),
    ("SCTP_ASSOCINFO", SCTP_ASSOCINFO),
    ("SCTP_INITMSG", SCTP_INITMSG),
    ("SCTP_NODELAY", SCTP_NODELAY),
    ("SCTP_AUTOCLOSE", SCTP_AUTOCLOSE),
    ("SCTP_SET_PEER_PRIMARY_ADDR", SCTP_SET_PEER_PRIMARY_ADDR),
    ("SCTP_PRIMARY_ADDR", SCTP_PRIMARY_ADDR),
    ("SCTP_ADAPTATION_LAYER", SCTP_ADAPTATION_LAYER),
    ("SCTP_DISABLE_FRAGMENTS", SCTP_DISABLE_FRAGMENTS),
    ("SCTP_PEER_ADDR_PARAMS", SCTP_PEER_ADDR_PARAMS),
    ("SCTP_DEFAULT_SEND_PARAM", SCTP_DEFAULT_SEND_PARAM),
    ("SCTP_EVENTS", SCTP_EVENTS),
    ("SCTP_I_WANT_MAPPED_V4_ADDR", SCTP_I_WANT_MAPPED_V4_ADDR),
    ("SCTP_MAXSEG", SCTP_MAXSEG),
    ("SCTP_STATUS", SCTP_STATUS),
    ("SCTP_GET_PEER_ADDR_INFO", SCTP_GET_PEER_ADDR_INFO),
    ("SCTP_DELAYED_SACK", SCTP_DELAYED_SACK),
    ("SCTP_CONTEXT", SCTP_CONTEXT),
    ("SCTP_FRAGMENT_INTERLEAVE", SCTP_FRAGMENT_INTERLEAVE),
    ("SCTP_PARTIAL_DELIVERY_POINT", SCTP_PARTIAL_DELIVERY_POINT),
    ("SCTP_MAX_BURST", SCTP_MAX_BURST),
    ("SCTP_AUTH_CHUNK", SCTP_AUTH_CHUNK),
    ("SCTP_HMAC_IDENT", SCTP_HMAC_IDENT),
    ("SCTP_AUTH_KEY", SCTP_AUTH_KEY),
    ("SCTP_AUTH_ACTIVE_KEY", SCTP_AUTH_ACTIVE_KEY),
    ("SCTP_AUTH_DELETE_KEY", SCTP_AUTH_DELETE_KEY),
    ("SCTP_PEER_AUTH_CHUNKS", SCTP_PEER_AUTH_CHUNKS),
    ("SCTP_LOCAL_AUTH_CHUNKS", SCTP_LOCAL_AUTH_CHUNKS),
    ("SCTP_GET_ASSOC_NUMBER", SCTP_GET_ASSOC_NUMBER),
    ("SCTP_GET_ASSOC_ID_LIST", SCTP_GET_ASSOC_ID_LIST),
    ("SCTP_PEER_ADDR_THLDS", SCTP_PEER_ADDR_THLDS),
    ("SCTP_RECVRCVINFO", SCTP_RECVRCVINFO),
    ("SCTP_RECVNXTINFO", SCTP_RECVNXTINFO),
    ("SCTP_DEFAULT_SNDINFO", SCTP_DEFAULT_SNDINFO),
    ("SCTP_AUTH_DEACTIVATE_KEY", SCTP_AUTH_DEACTIVATE_KEY),
    ("SCTP_REUSE_PORT", SCTP_REUSE_PORT),
    ("SCTP_PEER_ADDR_THLDS_V2", SCTP_PEER_ADDR_THLDS_V2),
    ("SCTP_SOCKOPT_BINDX_ADD", SCTP_SOCKOPT_BINDX_ADD),
    ("SCTP_SOCKOPT_BINDX_REM", SCTP_SOCKOPT_BINDX_REM),
    ("SCTP_GET_PEER_ADDRS", SCTP_GET_PEER_ADDRS),
    ("SCTP_GET_LOCAL_ADDRS", SCTP_GET_LOCAL_ADDRS),
    ("SCTP_SOCKOPT_CONNECTX", SCTP_SOCKOPT_CONNECTX),
    ("SCTP_GET_ASSOC_STATS", SCTP_GET_ASSOC_STATS),
    ("SCTP_PR_SUPPORTED", SCTP_PR_SUPPORTED),
    ("SCTP_DEFAULT_PRINFO", SCTP_DEFAULT_PRINFO),
    ("SCTP_PR_ASSOC_STATUS", SCTP_PR_ASSOC_STATUS),
    ("SCTP_PR_STREAM_STATUS", SCTP_PR_STREAM_STATUS),
    ("SCTP_RECONFIG_SUPPORTED", SCTP_RECONFIG_SUPPORTED),
    ("SCTP_ENABLE_STREAM_RESET", SCTP_ENABLE_STREAM_RESET),
    ("SCTP_RESET_STREAMS", SCTP_RESET_STREAMS),
    ("SCTP_RESET_ASSOC", SCTP_RESET_ASSOC),
    ("SCTP_ADD_STREAMS", SCTP_ADD_STREAMS),
    ("SCTP_STREAM_SCHEDULER", SCTP_STREAM_SCHEDULER),
    ("SCTP_STREAM_SCHEDULER_VALUE", SCTP_STREAM_SCHEDULER_VALUE),
    ("SCTP_INTERLEAVING_SUPPORTED", SCTP_INTERLEAVING_SUPPORTED),
    ("SCTP_EVENT", SCTP_EVENT),
    ("SCTP_ASCONF_SUPPORTED", SCTP_ASCONF_SUPPORTED),
    ("SCTP_AUTH_SUPPORTED", SCTP_AUTH_SUPPORTED),
    ("SCTP_ECN_SUPPORTED", SCTP_ECN_SUPPORTED),
    (
        "SCTP_EXPOSE_POTENTIALLY_FAILED_STATE",
        SCTP_EXPOSE_POTENTIALLY_FAILED_STATE,
    ),
    ("SCTP_REMOTE_UDP_ENCAPS_PORT", SCTP_REMOTE_UDP_ENCAPS_PORT),
    ("SCTP_PLPMTUD_PROBE_INTERVAL", SCTP_PLPMTUD_PROBE_INTERVAL),
    ("unknown-99", 99),
    ("unknown-1000", 1000),
    ("unknown-negative", -1),
];

const UNKNOWN_ID: i32 = 0x0123_4567;
const LARGE: usize = 1024;

/// Answers that are not Linux's: beginning of the names of cases, option, answer.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    // Linux returns the length of the buffer.
    ("sweep.get-new", "SCTP_MAX_BURST", "8 bytes"),
    ("sweep.get-listening", "SCTP_MAX_BURST", "8 bytes"),
    ("sweep.get-connected", "SCTP_MAX_BURST", "8 bytes"),
    // Linux's length lacks the header, and the hosts have other addresses.
    ("sweep.get-new", "SCTP_GET_LOCAL_ADDRS", "8 bytes"),
    ("sweep.get-listening", "SCTP_GET_LOCAL_ADDRS", "40 bytes"),
    ("sweep.get-connected", "SCTP_GET_LOCAL_ADDRS", "40 bytes"),
    // SHA-256 and SHA-1; Linux has SHA-1 alone.
    ("sweep.get-new", "SCTP_HMAC_IDENT", "8 bytes"),
    ("sweep.get-listening", "SCTP_HMAC_IDENT", "8 bytes"),
    ("sweep.get-connected", "SCTP_HMAC_IDENT", "8 bytes"),
    ("sweep.get-unknown-id", "SCTP_HMAC_IDENT", "8 bytes"),
];

/// Hosts with the extensions that the guest has.
fn world() -> World {
    World::with(|config| {
        config.association = Config::default_association().with(|c| {
            c.extensions.authentication = true;
            c.extensions.dynamic_addresses = true;
        });
    })
}

/// Results of the steps of a case, as `0`, `EINVAL` or `16 bytes`.
fn answers(case: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/sockets/linux-6.1.txt");
    let text = std::fs::read_to_string(path).expect("the stored answers");
    let prefix = format!("{case}/");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
    lines
        .map(|line| {
            let (step, rest) = line.split_once(": ").expect("a step");
            let (_, result) = rest.rsplit_once(" = ").expect("a result");
            let result = result.strip_prefix("-1 ").unwrap_or(result);
            (step.to_owned(), result.to_owned())
        })
        .collect()
}

fn compare(case: &str, mut ask: impl FnMut(i32) -> Result<String, Errno>) -> Vec<String> {
    let expected = answers(case);
    let mut wrong = Vec::new();
    for (name, number) in OPTIONS {
        let Some(linux) = expected.get(*name) else {
            continue;
        };
        let listed = DIFFERENCES
            .iter()
            .find(|(cases, option, _)| case.starts_with(cases) && option == name);
        let wanted = listed.map_or(linux.as_str(), |(_, _, answer)| answer);
        let answer = ask(*number).unwrap_or_else(|error| error.name().to_owned());
        if answer != wanted {
            wrong.push(format!("{case} {name}: {answer}, Linux {linux}"));
        }
        if listed.is_some() && wanted == linux {
            wrong.push(format!("{case} {name}: listed, and the same as Linux"));
        }
    }
    wrong
}

fn compare_get(case: &str, w: &mut World, socket: SocketId, size: usize, id: i32) -> Vec<String> {
    let mut buffer = vec![0; LARGE];
    buffer[..4].copy_from_slice(&id.to_ne_bytes());
    buffer.truncate(size);
    compare(case, |option| {
        let value = w.get_bytes(A, socket, (IPPROTO_SCTP, option), &buffer)?;
        Ok(format!("{} bytes", value.len()))
    })
}

fn compare_set(case: &str, style: Style, size: usize, id: i32) -> Vec<String> {
    let mut value = vec![0; LARGE];
    value[..4].copy_from_slice(&id.to_ne_bytes());
    value.truncate(size);
    let mut w = world();
    compare(case, |option| {
        let socket = match style {
            Style::OneToOne => w.one_to_one(A),
            Style::OneToMany => w.one_to_many(A),
        };
        let done = w.set_bytes(A, socket, (IPPROTO_SCTP, option), &value)?;
        Ok(done.to_string())
    })
}

#[test]
fn options_are_read_as_from_linux() {
    let mut w = world();
    let one = w.one_to_one(A);
    let many = w.one_to_many(A);
    let listening = w.one_to_one(A);
    w.on(A, |s, _| s.listen(listening, 5)).unwrap();
    let mut wrong = compare_get("sweep.get-new", &mut w, one, LARGE, 0);
    wrong.extend(compare_get("sweep.get-new-many", &mut w, many, LARGE, 0));
    wrong.extend(compare_get(
        "sweep.get-listening",
        &mut w,
        listening,
        LARGE,
        0,
    ));
    let (connected, _) = w.pair();
    wrong.extend(compare_get(
        "sweep.get-connected",
        &mut w,
        connected,
        LARGE,
        0,
    ));
    wrong.extend(compare_get("sweep.get-short", &mut w, connected, 3, 0));
    wrong.extend(compare_get("sweep.get-four", &mut w, connected, 4, 0));
    let mut w = world();
    w.listener(Style::OneToMany, 5);
    let many = w.one_to_many(A);
    w.send_to(A, many, at(B, PORT), b"x").unwrap();
    w.run(ms(100));
    wrong.extend(compare_get(
        "sweep.get-unknown-id",
        &mut w,
        many,
        LARGE,
        UNKNOWN_ID,
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn options_are_set_as_on_linux() {
    let mut wrong = compare_set("sweep.set-empty", Style::OneToOne, 0, 0);
    for (case, size, id) in [
        ("sweep.set-short", 3, 0),
        ("sweep.set-four", 4, 0),
        ("sweep.set-long", LARGE, 0),
        ("sweep.set-unknown-id", LARGE, UNKNOWN_ID),
    ] {
        wrong.extend(compare_set(case, Style::OneToMany, size, id));
    }
    let mut w = world();
    let (connected, _) = w.pair();
    wrong.extend(compare("sweep.set-connected", |option| {
        let done = w.set_bytes(A, connected, (IPPROTO_SCTP, option), &[0; 8])?;
        Ok(done.to_string())
    }));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Bytes of a buffer that an option does not read have no effect on the answer, and need not leave a process.
#[test]
fn options_read_no_more_than_their_input() {
    let mut w = World::new();
    w.listener(Style::OneToMany, 5);
    let many = w.one_to_many(A);
    w.send_to(A, many, at(B, PORT), b"x").unwrap();
    w.run(ms(100));
    let ids = w.get_bytes(A, many, (IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST), &[0; 64]);
    let id: [u8; 4] = *ids.unwrap()[4..].first_chunk().unwrap();
    let address = write_address(at(B, PORT));
    // Identifiers and addresses at the offsets of all structs.
    let mut buffers = Vec::new();
    for noise in [0, 0xa5] {
        for (offset, value) in [
            (4, &address[..]),
            (8, &address),
            (12, &id),
            (28, &id),
            (4, &[1, 0]),
        ] {
            let mut buffer = [noise; 256];
            buffer[..4].copy_from_slice(&id);
            buffer[offset..offset + value.len()].copy_from_slice(value);
            buffers.push(buffer);
        }
    }
    for (name, number) in OPTIONS {
        let option = (IPPROTO_SCTP, *number);
        let input = OptionInput::of(option.0, option.1);
        for buffer in &buffers {
            let copy = input.copy(&buffer[..input.end()], buffer.len());
            let answers = [&buffer[..], &copy].map(|b| w.get_bytes(A, many, option, b));
            // Statistics have a new period with each call, and a struct repeats its address.
            let same = answers[0].as_ref().map(Vec::len) == answers[1].as_ref().map(Vec::len);
            assert!(same, "{name}: {answers:?}");
        }
    }
}

#[test]
fn only_the_input_of_an_option_is_copied() {
    let given = [0xa5; 64];
    let copied = |name| {
        let copy = OptionInput::of(IPPROTO_SCTP, name).copy(&given, 64);
        copy.iter().filter(|byte| **byte != 0).count()
    };
    assert_eq!(copied(SCTP_STATUS), 4);
    assert_eq!(copied(SCTP_NODELAY), 0);
    assert_eq!(copied(SCTP_GET_PEER_ADDR_INFO), 6, "without a family");
    assert_eq!(OptionInput::of(SOL_SOCKET, SO_LINGER).end(), 0);
}
