#!/usr/bin/env bash
# Proves that crate `carrick-sockets` of the working tree behaves as that of a commit: both get the same random calls,
# packets and times, and every result, packet, change of readiness, notification and export byte has to be equal.
#
#   scripts/twin.sh [COMMIT] [SEQUENCES] [FIRST]   COMMIT: default where the branch left main; SEQUENCES: default 1000;
#                                                  FIRST: the first seed, default 0
#
# The crate of the commit is written to target/twin/sockets as package `carrick-sockets-twin`, with the dependencies of
# the working tree. A difference is printed with its seed: `scripts/twin.sh COMMIT 1 SEED` repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-$(git merge-base main HEAD)}
source=crates/sockets/sockets twin=target/twin/sockets driver=crates/sockets/twin
rm -rf "$twin"
mkdir -p "$twin"
git archive "$commit" "$source" | tar -x -C "$twin" --strip-components=3
# Its tests would need further dependencies.
rm -rf "$twin/tests"
sed -i -e 's/^name = "carrick-sockets"$/name = "carrick-sockets-twin"/' -e '/^\[dev-dependencies\]/,/^$/d' "$twin/Cargo.toml"
# The versions of the workspace. No file may remain in the folder, which commits without the driver do not exclude.
trap 'rm -f "$driver/Cargo.lock"' EXIT
cp Cargo.lock "$driver/Cargo.lock"
features=
grep -q "pub fn usage" -r "$twin/src" || features=old_face
cargo run --offline --quiet --features "$features" --target-dir target --manifest-path "$driver/Cargo.toml" -- "${2:-1000}" "${3:-0}"
