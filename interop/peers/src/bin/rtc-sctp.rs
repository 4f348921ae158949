//! Peer program of crate `rtc-sctp`.

fn main() -> std::process::ExitCode {
    carrick_peers::rtc_sctp()
}
