#!/usr/bin/env bash
# Runs the unit and integration tests several times, every second time with all cores kept busy: what
# fails under load is a defect of the program or of the test.
#
#   scripts/repeat.sh ROUNDS [ARGUMENT...]   arguments for `cargo test`, such as `-p carrick-proto`;
#                                            without any, everything of the workspace
#
# Prints a line for each round, and the names of the tests that failed with the rounds they failed in.
# Logs in target/test-logs/repeat-ROUND.log.
set -u
cd "$(dirname "$0")/.."
usage() {
  echo "repeat: $1; usage: scripts/repeat.sh ROUNDS [ARGUMENT...]" >&2
  exit 2
}
[ $# -ge 1 ] || usage "the number of rounds is missing"
rounds=$1
shift
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage "'$rounds' is not a number of rounds"
if [ $# -eq 0 ]; then
  # Tests use the preload library and the C libraries too.
  set -- --workspace --features carrick/dtls,carrick/metrics,carrick/prometheus,carrick-cli/full
  cargo build --locked "$@" --lib --bins --tests --examples || exit 1
  export CARRICK_LIBRARIES_BUILT=1
fi
logs=target/test-logs
mkdir -p "$logs"
load=()

# Keeps every core busy with a process that this script ends.
start_load() {
  local core
  for ((core = 0; core < $(nproc); core++)); do
    (while :; do :; done) &
    load+=($!)
  done
}

stop_load() {
  [ ${#load[@]} -eq 0 ] || { kill "${load[@]}" && wait "${load[@]}"; } 2>/dev/null
  load=()
}
trap stop_load EXIT
trap 'exit 130' INT TERM HUP

# Nothing is compiled beside the load.
cargo test --locked "$@" --no-run || exit 1
failures=$logs/repeat-failures
: >"$failures"
failed=0
for ((round = 1; round <= rounds; round++)); do
  log=$logs/repeat-$round.log
  start=$SECONDS
  beside="idle"
  if [ $((round % 2)) -eq 0 ]; then
    beside="busy"
    start_load
  fi
  # More threads than cores, since many tests wait for timers.
  RUST_TEST_THREADS=$((2 * $(nproc))) cargo test --locked "$@" --no-fail-fast -- \
    --skip messages_arrive_once_and_associations_end >"$log" 2>&1 </dev/null
  status=$?
  stop_load
  result=ok
  if [ $status -ne 0 ]; then
    result=FAILED
    failed=$((failed + 1))
    {
      grep -aE '^test .* FAILED$' "$log" | sed -E 's/^test (.*) \.\.\. FAILED$/\1/' | sort -u
      # A build or a process that ended without a test's name.
      grep -qaE '^test .* FAILED$' "$log" || echo "no test: see $log"
    } | sed "s/\$/ (round $round, $beside)/" >>"$failures"
  fi
  echo "round $round of $rounds: $result, cores $beside, $((SECONDS - start)) s, log: $log"
done
sort "$failures"
echo "$((rounds - failed)) passed, $failed failed"
[ $failed -eq 0 ]
