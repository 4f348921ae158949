#!/bin/sh
# Checks the dependencies against deny.toml: licences, versions, sources, and advisories if their database can be fetched.
#
#   scripts/deny.sh
#
# cargo-deny is built into target/tools unless it is installed.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
if ! command -v cargo-deny >/dev/null; then
    PATH=$PWD/target/tools/bin:$PATH
    command -v cargo-deny >/dev/null || cargo install --quiet --locked --root target/tools "cargo-deny@$version"
fi
cargo deny --offline check --hide-inclusion-graph licenses bans sources
if cargo deny fetch db 2>/dev/null; then
    cargo deny --offline check advisories
else
    echo "deny: the advisories were not checked: their database cannot be fetched"
fi
