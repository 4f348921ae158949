#!/usr/bin/env bash
# Replays the corpora of fuzz targets, then fuzzes each for a while.
#
#   fuzz/run.sh SECONDS [TARGET...]     all targets if none is named
#
# A failing input is written to fuzz/artifacts/TARGET/. New inputs are kept in
# target/fuzz-corpus/TARGET for the next run. The targets are built with the flags that cargo-fuzz
# uses, so that neither that tool nor a nightly toolchain is needed. With CARRICK_FUZZ_SANITIZER=address
# they are built with AddressSanitizer and optimised, which takes twice as long: for unsafe code of dependencies.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
triple=x86_64-unknown-linux-gnu
export RUSTC_BOOTSTRAP=1
# These flags are for rustc alone.
unset RUSTC_WORKSPACE_WRAPPER
sanitizer=${CARRICK_FUZZ_SANITIZER:-}
[ -n "$sanitizer" ] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares ${sanitizer:+-Zsanitizer=$sanitizer} --cfg fuzzing \
-Ccodegen-units=16 -Cdebug-assertions"
cargo build --manifest-path fuzz/Cargo.toml --release --locked --target $triple
[ $# -gt 0 ] || set -- packet_parser two_endpoints lower_layer import m2pa m3ua sigtran_layers scripts simco_messages simco_session
passed=0 failed=0
# Two targets side by side: each uses one core.
fuzz_one() {
  local work=target/fuzz-corpus/$1
  mkdir -p "$work" "fuzz/artifacts/$1"
  "fuzz/target/$triple/release/$1" "$work" "fuzz/corpus/$1" -artifact_prefix="fuzz/artifacts/$1/" \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 >"target/fuzz-corpus/$1.log" 2>&1
}
mkdir -p target/fuzz-corpus
while [ $# -gt 0 ]; do
  pair=("$1" ${2:+"$2"})
  shift ${#pair[@]}
  pids=()
  for target in "${pair[@]}"; do
    fuzz_one "$target" &
    pids+=($!)
  done
  for i in "${!pair[@]}"; do
    target=${pair[i]}
    if wait "${pids[i]}"; then
      passed=$((passed + 1))
      echo "$target: $(grep -a 'stat::number_of_executed_units' "target/fuzz-corpus/$target.log" | grep -o '[0-9]*$') inputs"
    else
      failed=$((failed + 1))
      tail -n 40 "target/fuzz-corpus/$target.log"
      echo "FAIL $target: see target/fuzz-corpus/$target.log and fuzz/artifacts/$target"
    fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
