//! Peer program of crate `webrtc-sctp`.

fn main() -> std::process::ExitCode {
    carrick_peers::webrtc_sctp()
}
