//! Peer program of crate `dcsctp`.

fn main() -> std::process::ExitCode {
    carrick_peers::dcsctp()
}
