#!/bin/sh
# Builds the peer programs of `carrick bench` and `interop/run.py --matrix` into target/peers, from packages of the registries: Rust with the versions of
# Cargo.lock, Go with those of go.sum, usrsctp of Debian. Leaves out what the tools of this host cannot build, and lists
# it at the end.
#
#   interop/peers/build.sh [NAME...]     all, or these of: rust pion usrsctp
set -eu

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
out=$root/target/peers
work=$root/target/peers-build
mkdir -p "$out" "$work"
missing=""
[ $# -gt 0 ] || set -- rust pion usrsctp

# The sources with dcsctp as the registry has it, except that a packet is formatted for the log only if it is logged.
rust() {
    command -v cargo >/dev/null || { missing="$missing rust(cargo)"; return; }
    rm -rf "$work/rust/src" "$work/rust/dcsctp" "$work/peer"
    mkdir -p "$work/rust"
    cp -R src Cargo.toml Cargo.lock "$work/rust"
    cp -R ../peer "$work"
    cargo fetch --locked
    source=$(cargo metadata --locked --format-version 1 |
        python3 -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "dcsctp"))')
    cp -R "$(dirname "$source")" "$work/rust/dcsctp"
    log=$work/rust/dcsctp/src/lib.rs
    sed -i '/pub fn log_packet(/a\        if !log::log_enabled!(log::Level::Info) { return; }' "$log"
    grep -q log_enabled "$log"
    printf '\n[patch.crates-io]\ndcsctp = { path = "dcsctp" }\n' >>"$work/rust/Cargo.toml"
    (cd "$work/rust" && cargo build --release --target-dir "$work/target")
    for name in src/bin/*.rs; do
        name=$(basename "$name" .rs)
        cp "$work/target/release/$name" "$out/$name"
    done
}

pion() {
    command -v go >/dev/null || { missing="$missing pion(go)"; return; }
    (cd pion && go build -o "$out/pion" .)
}

usrsctp() {
    [ -e /usr/include/usrsctp.h ] || { missing="$missing usrsctp(libusrsctp-dev)"; return; }
    version=$(dpkg-query -W -f '${Version}' libusrsctp-dev 2>/dev/null || echo of unknown version)
    ${CC:-cc} -O2 -Wall -Wextra -DVERSION="\"$version\"" -o "$out/usrsctp" usrsctp.c -lusrsctp -lpthread
}

for name in "$@"; do
    case $name in
    rust | pion | usrsctp) $name ;;
    *)
        echo "peers: no $name: the names are rust, pion and usrsctp" >&2
        exit 2
        ;;
    esac
done
[ -z "$missing" ] || echo "peers: not built, what is in brackets is not installed:$missing" >&2
