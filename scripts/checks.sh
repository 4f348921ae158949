# Shell functions that ./check and ./test.sh share: single checks with a log, a line and a time each.
# Sourced from the top of the checkout.

# Property tests draw the same cases in each run; another seed draws other cases.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
# Everything of the workspace with one set of features, so that each crate is compiled once.
workspace=(--workspace --features carrick/dtls,carrick/metrics,carrick/prometheus,carrick-cli/full --locked)
logs=target/test-logs
results=target/test-logs/results
mkdir -p "$logs"
: >"$results"
started=$SECONDS

# want NAME: whether this check was asked for.
want() {
  [ ${#wanted[@]} -eq 0 ] && return 0
  local w
  for w in "${wanted[@]}"; do [ "$w" = "$1" ] && return 0; done
  return 1
}

# with_cpu_time NAME COMMAND...: runs the command; the times of its processes go to a file.
with_cpu_time() {
  local name=$1 status
  shift
  "$@"
  status=$?
  # Not in a pipe: `times` there is about the pipe.
  times >"$logs/$name.cpu"
  return $status
}

# cpu_time NAME: the CPU time of a check in s.
cpu_time() {
  awk -F'[ms ]+' 'NR == 2 {printf "%d", 60 * $1 + $2 + 60 * $3 + $4 + 0.5}' "$logs/$1.cpu"
}

# check NAME COMMAND...: runs the command with its output in a log. Prints a line every 30 s, one
# with the time at the end, and after a failure the failed tests and the end of the log without passed tests.
check() {
  local name=$1 start=$SECONDS pid
  shift
  want "$name" || return 0
  with_cpu_time "$name" "$@" >"$logs/$name.log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if [ $(((SECONDS - start) % 30)) -eq 29 ]; then
      printf '  %s: %s s ... %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log" | tr '\r' '\n' | tail -n 1 | cut -c1-80)"
    fi
  done
  if wait "$pid"; then
    echo "passed $name $((SECONDS - start)) $(cpu_time "$name")" >>"$results"
    printf 'ok      %-12s %4s s  %s\n' "$name" $((SECONDS - start)) "$(summary "$logs/$name.log")"
    grep -a '^measured: ' "$logs/$name.log" | sed 's/^/        /'
  else
    echo "failed $name $((SECONDS - start)) $(cpu_time "$name")" >>"$results"
    printf 'FAILED  %-12s %4s s  log: %s\n%s\n%s\n' "$name" $((SECONDS - start)) "$logs/$name.log" \
      "$(culprits "$name")" "$(tail -n 60 "$logs/$name.log" | grep -avE '(\.\.\.|  ) ?ok( |$)' | sed 's/^/    /')"
    return 1
  fi
}

# The counts in a log's closing lines, if it has any.
summary() {
  awk '/^test result:/ {p += $4; f += $6; found = 1} END {if (found) printf "%d tests passed, %d failed", p, f}' "$1"
  grep -aE '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1
}

# The tests that failed by a check's log, a line each.
culprits() {
  grep -aE "^test .* FAILED$|^thread '.* panicked at |^(FAIL|error)" "$logs/$1.log" | sort -u | head -n 20 | sed "s/^/  $1: /"
}

# skip NAME REASON: records a check that can't run on this machine. In continuous integration, that is a failure.
skip() {
  want "$1" || return 0
  if [ -n "${CI:-}" ]; then
    echo "failed $1 0 0" >>"$results"
    printf 'FAILED  %-12s not run: %s\n' "$1" "$2"
  else
    echo "skipped $1 0 0" >>"$results"
    printf 'NOT RUN %-12s %s\n' "$1" "$2"
  fi
}

# need TOOL NAME COMMAND...: runs the check if the tool exists, and skips it otherwise.
need() {
  local tool=$1
  shift
  if command -v "$tool" >/dev/null; then check "$@"; else skip "$1" "$tool is missing: install it, or run as root on Debian"; fi
}

# Prints the failures and the counts. Returns the status of the run.
finish() {
  local passed failed skipped name
  passed=$(grep -c '^passed' "$results")
  failed=$(grep -c '^failed' "$results")
  skipped=$(grep -c '^skipped' "$results")
  echo "times (CPU): $(awk '{printf "%s%s %s s (%s)", (NR > 1 ? ", " : ""), $2, $3, $4; cpu += $4} END {printf "; CPU time %d s", cpu}' "$results"), all together $((SECONDS - started)) s"
  if [ "$failed" -gt 0 ]; then
    echo "failed: $(awk '/^failed/ {printf "%s ", $2}' "$results")"
    for name in $(awk '/^failed/ {print $2}' "$results"); do [ -f "$logs/$name.log" ] && culprits "$name"; done
  fi
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

all_lints() {
  cargo clippy "${workspace[@]}" --all-targets -- -D warnings && core_lints
}

# The core without std.
core_lints() {
  cargo clippy -p carrick-wire -p carrick-proto --no-default-features --locked -- -D warnings
}
