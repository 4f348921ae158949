#!/usr/bin/env bash
# Proves that crate `carrick-sockets` of the working tree behaves as that of a commit: both get the same random calls,
# packets and times, and every result, packet, change of readiness, notification and export byte has to be equal. In
# half of the sequences the sockets of both are exported and imported in the middle, each by its own crate.
#
#   scripts/twin.sh [COMMIT] [SEQUENCES] [FIRST] [THREADS]
#         COMMIT: default where the branch left main; SEQUENCES: default 1000; FIRST: the first seed, default 0;
#         THREADS: default one a core
#
# The bytes of exports are compared if both crates have the same layout (LAYOUT in tests/it/handover.rs), else only what
# the sockets do after their import. The crate of the commit is written to target/twin/sockets as package
# `carrick-sockets-twin`, with the dependencies of the working tree. A difference is printed with its seed:
# `scripts/twin.sh COMMIT 1 SEED` repeats it, and compares the exports after each input instead of after every 16th.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-$(git merge-base main HEAD)}
source=crates/sockets/sockets twin=target/twin/sockets driver=crates/sockets/twin
rm -rf "$twin"
mkdir -p "$twin"
git archive "$commit" "$source" | tar -x -C "$twin" --strip-components=3
layout() {
  grep -h "^const LAYOUT" "$1/tests/it/handover.rs"
}
compared=bytes
if [ "$(layout "$twin")" != "$(layout "$source")" ]; then
  compared=imports
  echo "twin: the layouts of exports differ: their bytes are not compared" >&2
fi
# Its tests would need further dependencies.
rm -rf "$twin/tests"
sed -i -e 's/^name = "carrick-sockets"$/name = "carrick-sockets-twin"/' -e '/^\[dev-dependencies\]/,/^$/d' "$twin/Cargo.toml"
# The versions of the workspace. No file may remain in the folder, which commits without the driver do not exclude.
trap 'rm -f "$driver/Cargo.lock"' EXIT
cp Cargo.lock "$driver/Cargo.lock"
features=
grep -q "pub fn usage" -r "$twin/src" || features=old_face
cargo build --release --offline --quiet --features "$features" --target-dir target --manifest-path "$driver/Cargo.toml"
target/release/carrick-twin "${2:-1000}" "${3:-0}" "${4:-$(nproc)}" "$compared"
