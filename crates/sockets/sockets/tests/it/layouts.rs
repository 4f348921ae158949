//! Numbers, sizes and offsets against stored ones, and against the header of the system.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use carrick_sockets::linux::*;

/// Sizes of `linux/sctp.h` on 64-bit systems.
const SIZES: [(&str, usize); 17] = [
    ("struct sctp_initmsg", 8),
    ("struct sctp_sndrcvinfo", 32),
    ("struct sctp_sndinfo", 16),
    ("struct sctp_rcvinfo", 28),
    ("struct sctp_assoc_change", 20),
    ("struct sctp_paddr_change", 148),
    ("struct sctp_send_failed_event", 32),
    ("struct sctp_rtoinfo", 16),
    ("struct sctp_assocparams", 20),
    ("struct sctp_prim", 132),
    ("struct sctp_setpeerprim", 132),
    ("struct sctp_paddrparams", 156),
    ("struct sctp_paddrinfo", 152),
    ("struct sctp_paddrthlds_v2", 144),
    ("struct sctp_udpencaps", 144),
    ("struct sctp_default_prinfo", 12),
    ("struct sctp_assoc_stats", 256),
];

#[test]
fn structs_have_the_sizes_of_linux() {
    for (name, size) in SIZES {
        let found = LAYOUTS.iter().find(|(c_name, ..)| *c_name == name);
        assert_eq!(found.map(|(_, size, _)| *size), Some(size), "{name}");
    }
    assert_eq!(Status::SIZE + PaddrInfo::SIZE, STATUS);
    assert_eq!((STATUS, PADDRPARAMS_OLD), (176, 152));
}

#[test]
fn fields_are_read_where_they_are_written() {
    let params = PaddrParams {
        assoc_id: 3,
        address: Storage(Some("[fd00::1]:7".parse().unwrap())),
        path_max_rxt: 0x0102,
        path_mtu: 1400,
        flags: SPP_HB_ENABLE as u32,
        dscp: 9,
        ..PaddrParams::default()
    };
    let bytes = params.encode();
    assert_eq!(bytes.len(), PaddrParams::SIZE);
    assert_eq!(bytes[138..142], 1400_u32.to_ne_bytes());
    assert_eq!(PaddrParams::decode(&bytes), Ok(params));
    assert!(PaddrParams::decode(&bytes[1..]).is_err());
    assert!(PaddrParams::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn addresses_survive_their_encoding() {
    let addresses = ["192.0.2.1:5000", "[fe80::1%7]:9", "[::ffff:192.0.2.1]:1"];
    let addresses = addresses.map(|text| text.parse().unwrap());
    let packed = addresses.map(write_address).concat();
    assert_eq!(packed.len(), SOCKADDR_IN + 2 * SOCKADDR_IN6);
    assert_eq!(read_addresses(&packed), Ok(addresses.to_vec()));
    for len in 0..packed.len() {
        let whole = [SOCKADDR_IN, SOCKADDR_IN + SOCKADDR_IN6].contains(&len);
        assert_eq!(read_addresses(&packed[..len]).is_ok(), whole, "{len}");
    }
}

/// Returns a C program that prints every number with its name.
fn program() -> String {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/socket.h>\n\
         #include <sys/time.h>\n#include <netinet/in.h>\n#include <linux/sctp.h>\n\
         int main(void) {\n",
    );
    for (name, _) in SCTP_CONSTANTS.iter().chain(SOCKET_CONSTANTS) {
        writeln!(source, "printf(\"{name} %d\\n\", (int)({name}));").unwrap();
    }
    for (name, _, fields) in LAYOUTS {
        writeln!(source, "printf(\"{name} %d\\n\", (int)sizeof({name}));").unwrap();
        for (field, ..) in *fields {
            let (at, size) = (
                format!("offsetof({name}, {field})"),
                format!("sizeof((({name} *)0)->{field})"),
            );
            writeln!(
                source,
                "printf(\"{name}.{field} %d %d\\n\", (int){at}, (int){size});"
            )
            .unwrap();
        }
    }
    source + "return 0; }\n"
}

/// Returns the lines that the program has to print.
fn expected() -> String {
    let mut lines = String::new();
    for (name, value) in SCTP_CONSTANTS.iter().chain(SOCKET_CONSTANTS) {
        writeln!(lines, "{name} {value}").unwrap();
    }
    for (name, size, fields) in LAYOUTS {
        let size = if *name == "struct sctp_status" {
            STATUS
        } else {
            *size
        };
        writeln!(lines, "{name} {size}").unwrap();
        for (field, offset, size) in *fields {
            writeln!(lines, "{name}.{field} {offset} {size}").unwrap();
        }
    }
    lines
}

/// `linux/sctp.h` of package linux-libc-dev, if there is one and a C compiler.
#[test]
fn constants_match_linux() {
    let has_header = Path::new("/usr/include/linux/sctp.h").exists();
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !has_header || !has_compiler || cfg!(not(target_pointer_width = "64")) {
        eprintln!("not compared: linux/sctp.h, a C compiler or a 64-bit system is missing");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("numbers.c"), folder.join("numbers"));
    std::fs::write(&source, program()).unwrap();
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output();
    let compiled = compiled.unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let printed = Command::new(&binary).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    for (found, wanted) in printed.lines().zip(expected().lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(printed.lines().count(), expected().lines().count());
}
