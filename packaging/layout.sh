#!/bin/sh
# Copies built files below DESTDIR/PREFIX, as `./install` does.
#
#   DESTDIR=ROOT layout.sh --prefix PREFIX --built DIRECTORY    DIRECTORY has carrick, libcarrick_preload.so, libcarrick_c.a
#                                                              and lib/, as target/release
set -eu
cd "$(dirname "$0")/.."
prefix=$2
built=$4
root=${DESTDIR:-}$prefix
lib=$root/lib
install -D -t "$root/bin" "$built/carrick"
install -D -m 644 -t "$lib/carrick" "$built/libcarrick_preload.so" "$built/lib/libsctp.so.1"
install -D -m 644 -t "$lib" "$built/lib/libcarrick.so.0"
ln -s libcarrick.so.0 "$lib/libcarrick.so"
install -D -m 644 "$built/libcarrick_c.a" "$lib/libcarrick.a"
install -D -m 644 -t "$root/include" crates/sockets/c/include/carrick.h
mkdir -p "$lib/pkgconfig" "$lib/systemd/system"
cat >"$lib/pkgconfig/carrick.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: carrick
Description: SCTP sockets in user space
Version: $(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
Libs: -L\${libdir} -lcarrick
Libs.private: -lgcc_eh -lpthread -ldl -lm
Cflags: -I\${includedir}
END
for unit in docs/examples/carrick-*.service docs/examples/carrick-*.socket; do
    sed "s|/usr/local/bin/|$prefix/bin/|" "$unit" >"$lib/systemd/system/${unit##*/}"
done
"$root/bin/carrick" man "$root/share/man/man1"
completions() {
    mkdir -p "$root/share/$(dirname "$2")"
    "$root/bin/carrick" completions "$1" >"$root/share/$2"
}
completions bash bash-completion/completions/carrick
completions zsh zsh/site-functions/_carrick
completions fish fish/vendor_completions.d/carrick.fish
