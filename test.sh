#!/usr/bin/env bash
# All tests. As root on Debian it installs what the tests against other stacks and in network
# namespaces need; where it can't, it says which checks did not run, and fails if CI is set.
#
#   ./test.sh             everything
#   ./test.sh NAME...     only these checks (see the list at the end)
#
# CARRICK_WORLD_SEEDS (2000) random worlds, CARRICK_FUZZ_SECONDS (60) for each fuzz target.
set -u
cd "$(dirname "$0")"
# Property tests draw the same cases in each run; another seed looks elsewhere.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
logs=target/test-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0 failures=() culprits=()
wanted=("$@")

want() {
  [ ${#wanted[@]} -eq 0 ] && return 0
  local w
  for w in "${wanted[@]}"; do [ "$w" = "$1" ] && return 0; done
  return 1
}

# check NAME COMMAND...: runs the command with its output in a log, shows a line while it runs and
# one at the end, and the end of the log if it failed.
check() {
  local name=$1 start=$SECONDS pid
  shift
  want "$name" || return 0
  "$@" >"$logs/$name.log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if [ $(((SECONDS - start) % 30)) -eq 29 ]; then
      printf '  %s: %s s ... %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log" | tr '\r' '\n' | tail -n 1 | cut -c1-80)"
    fi
  done
  if wait "$pid"; then
    passed=$((passed + 1))
    printf 'ok      %-12s %4s s  %s\n' "$name" $((SECONDS - start)) "$(summary "$logs/$name.log")"
    # What tests have to tell beside that they passed.
    grep -a '^measured: ' "$logs/$name.log" | sed 's/^/        /'
  else
    failed=$((failed + 1))
    failures+=("$name")
    culprits+=("$(culprits "$name")")
    printf 'FAILED  %-12s %4s s  log: %s\n' "$name" $((SECONDS - start)) "$logs/$name.log"
    tail -n 60 "$logs/$name.log" | sed 's/^/    /'
  fi
}

# The counts in a log's closing lines, if it has any.
summary() {
  awk '/^test result:/ {p += $4; f += $6; found = 1} END {if (found) printf "%d tests passed, %d failed", p, f}' "$1"
  grep -E '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1
}

# The tests that failed by a check's log, a line each, and where they gave up.
culprits() {
  grep -aE "^test .* FAILED$|^thread '.* panicked at |^(FAIL|error)" "$logs/$1.log" | sort -u | head -n 20 | sed "s/^/  $1: /"
}

# skip NAME REASON: a check that can't run here.
skip() {
  want "$1" || return 0
  if [ -n "${CI:-}" ]; then
    failed=$((failed + 1))
    failures+=("$1")
    printf 'FAILED  %-12s not run: %s\n' "$1" "$2"
  else
    skipped=$((skipped + 1))
    printf 'NOT RUN %-12s %s\n' "$1" "$2"
  fi
}

lints() {
  cargo clippy --workspace --all-targets --locked -- -D warnings &&
    cargo clippy -p carrick --features dtls --all-targets --locked -- -D warnings &&
    cargo clippy -p carrick-wire -p carrick-proto --no-default-features --locked -- -D warnings
}

docs() {
  RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
}

unit() {
  cargo test --workspace --locked --no-fail-fast -- --skip every_message_arrives_once &&
    cargo test -p carrick --features dtls --locked --test dtls
}

world() {
  CARRICK_WORLD_SEEDS=${CARRICK_WORLD_SEEDS:-2000} cargo test -p carrick-lab --release --locked --test world
}

reproduce() {
  local out
  out=$(mktemp -d) || return 1
  cargo run --release --locked -- reproduce --out "$out" &&
    python3 scripts/check_report.py "$out"
  local status=$?
  rm -rf "$out"
  return $status
}

# One fuzz target for a while, on the corpus that is kept. Without a nightly toolchain, the stable
# one is told to take the compiler flags that cargo-fuzz needs.
fuzz() {
  command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked || return 1
  local toolchain=()
  if cargo +nightly --version >/dev/null 2>&1; then toolchain=(+nightly); else export RUSTC_BOOTSTRAP=1; fi
  local work=target/fuzz-corpus/$1
  mkdir -p "$work"
  cargo "${toolchain[@]}" fuzz run "$1" "$work" "fuzz/corpus/$1" -- \
    -max_total_time="${CARRICK_FUZZ_SECONDS:-60}" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
}

interop() {
  cargo build --release --locked -p carrick --example peer &&
    python3 interop/run.py --carrick target/release/examples/peer
}

# Each part runs, also where one before it failed.
namespaces() {
  local part status=0
  for part in "carrick --test namespaces" "carrick-livenet --test live" "carrick-live --test live" \
    "carrick-cli --test command live" "carrick-cli --test command simco" \
    "carrick-nftables --test filter" "carrick-cli --test middlebox"; do
    # shellcheck disable=SC2086 # words of a command
    cargo test --release --locked -p $part -- --ignored --test-threads 1 --show-output || status=1
  done
  return $status
}

# need TOOL NAME COMMAND...: the check if the tool is there.
need() {
  local tool=$1
  shift
  if command -v "$tool" >/dev/null; then check "$@"; else skip "$1" "$tool is missing: install it, or run as root on Debian"; fi
}

raw_ip() {
  cargo test -p carrick --locked --test sockets plain_ip
}

echo "carrick: tests on $(nproc) cores, logs in $logs"
# Whatever the checks need is there before the first one runs.
installed=
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
  no_peers="needs Linux on x86-64"
elif [ "$(id -u)" -ne 0 ]; then
  no_peers="needs root for network namespaces, raw sockets and packages: run as root"
elif ! interop/install.sh >"$logs/install.log" 2>&1; then
  no_peers="packages could not be installed, see $logs/install.log"
else
  installed=yes
fi
check format cargo fmt --all --check
need python3 links python3 scripts/check_links.py
check lints lints
check docs docs
check unit unit
check world world
need python3 reproduce reproduce
need c++ fuzz-parser fuzz packet_parser
need c++ fuzz-pair fuzz two_endpoints
need c++ fuzz-layer fuzz lower_layer
need c++ fuzz-simco fuzz simco_messages
need c++ fuzz-simco-session fuzz simco_session
if [ -n "$installed" ]; then
  check raw-ip raw_ip
  check namespaces namespaces
  check interop interop
else
  skip raw-ip "$no_peers"
  skip namespaces "$no_peers"
  skip interop "$no_peers"
fi

# Once more at the end: the log of a long run is often cut at its beginning.
if [ ${#failures[@]} -gt 0 ]; then
  echo "failed: ${failures[*]}"
  printf '%s\n' "${culprits[@]}"
fi
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
