#!/bin/sh
# Builds the preload library and libcarrick for musl, and runs the C checks of the sockets on them: programs that musl-gcc
# (Debian's musl-tools) has linked dynamically. Needs target/debug/carrick.
set -eu
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl
rustup target add "$target"
out=$PWD/target/musl
mkdir -p "$out"
# The libraries unwind with Rust's own library: that of gcc belongs to glibc where the system does.
unwind=$(rustc --print sysroot)/lib/rustlib/$target/lib/self-contained/libunwind.a
printf 'INPUT(%s)\n' "$unwind" >"$out/libgcc_s.so"
RUSTFLAGS="-C target-feature=-crt-static -L native=$out" CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc \
    cargo build --locked --target "$target" -p carrick-preload -p carrick-c
built=$PWD/target/$target/debug
CC=musl-gcc UNWIND=$unwind crates/sockets/c/link.sh "$built"

# compile OUT FILE OPTION...: the kernel's headers are those of the system.
compile() {
    program=$1
    shift
    musl-gcc -O1 -Wall -Werror -o "$program" "$@" -idirafter /usr/include -idirafter "/usr/include/$(uname -m)-linux-gnu"
}

checks=crates/cli/tests/command/programs/sockets.c
compile "$out/checks" "$checks"
run="target/debug/carrick run --udp-port 19899 --bind 127.0.0.1"
count=0
for name in $(sed -n 's/.*!strcmp(name, "\([a-z]*\)").*/\1/p' "$checks"); do
    case $name in
    # They need another process, user, environment or network, or end with the daemon; `names` is glibc's.
    crowd | executed | hoard | orphaned | orphans | privileged | selection | names) continue ;;
    addresses) bind="--bind 127.0.0.2 --bind ::1" ;;
    *) bind= ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    CARRICK_PRELOAD=$built/libcarrick_preload.so $run $bind -- "$out/checks" "$name" || {
        echo "musl: check $name failed" >&2
        exit 1
    }
    count=$((count + 1))
done

# The program of docs/sockets.md, without a preload library.
sed -n '/^```c$/,/^```$/p' docs/sockets.md | sed '/^```/d' >"$out/hello.c"
compile "$out/hello" "$out/hello.c" -Icrates/sockets/c/include "-L$built/lib" -lcarrick
printed=$($run -- env --unset=LD_PRELOAD LD_LIBRARY_PATH="$built/lib" "$out/hello")
if [ "$printed" != "hello on stream 3, PPID 60" ]; then
    echo "musl: libcarrick: $printed" >&2
    exit 1
fi
echo "$count checks and libcarrick run with musl"
