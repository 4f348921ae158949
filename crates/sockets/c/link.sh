#!/bin/sh
# Links the C libraries from the archive that `cargo build -p carrick-c` made.
#
#   link.sh DIRECTORY    DIRECTORY has libcarrick_c.a, such as target/release; the libraries are in DIRECTORY/lib
#
# Cargo cannot do this, since the symbols have versions. CC is the C compiler (cc), UNWIND the library that unwinds (-lgcc_eh).
set -eu
here=$(dirname "$0")/link
archive=$1/libcarrick_c.a
mkdir -p "$1/lib"

# link NAME SONAME FILE...: only the symbols of NAME.map are visible, and only what they need is linked. A library that is in
# use is replaced, not overwritten.
link() {
    name=$1
    soname=$2
    shift 2
    "${CC:-cc}" -shared -o "$archive.$soname.$$" -Wl,-soname,"$soname" -Wl,--version-script="$here/$name.map" \
        -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,--no-undefined -Wl,--strip-debug "$@" \
        -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -static-libgcc "${UNWIND:--lgcc_eh}" -lpthread -ldl -lm -lc
    mv "$archive.$soname.$$" "$(dirname "$archive")/lib/$soname"
}

link libsctp libsctp.so.1 "$here/connectx.S"
link libcarrick libcarrick.so.0
ln -s libcarrick.so.0 "$archive.$$"
mv "$archive.$$" "$1/lib/libcarrick.so"
