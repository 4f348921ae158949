#!/bin/sh
# The part of test.sh in separate namespaces: installs the packages in a Debian root, uses and removes them.
#
#   root.sh ROOT WORK VERSION    ROOT is the unpacked system, which stays as it is; WORK has packages/ and hello.c
set -eu
lower=$1
work=$2
version=$3
root=$work/root
ip link set lo up
mkdir -p "$work/upper" "$work/overlay" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/overlay" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp "$work"/packages/*.deb "$root/tmp/"

fail() {
    echo "packages: $*" >&2
    exit 1
}
within() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
# as USER COMMAND...: runs a command without privileges.
as() {
    user=$1
    shift
    within setpriv --reuid "$user" --regid "$(within id -g "$user")" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
}
# expect TEXT COMMAND...: the command prints this text.
expect() {
    text=$1
    shift
    printed=$("$@")
    [ "$printed" = "$text" ] || fail "$*: \"$printed\" instead of \"$text\""
}
# files: everything in the root but what package managers write about each run.
files() {
    (cd "$root" && find . -xdev | grep -vxE '\./var/(log/(apt/.*|dpkg\.log|alternatives\.log)|cache/(apt/.*|ldconfig/.*)|lib/(dpkg/(.*-old|lock.*|triggers/.*)|apt/.*))' | LC_ALL=C sort)
}
install_all() {
    within sh -c 'apt-get install -y -qq --no-install-recommends /tmp/*.deb' >"$work/apt.log" 2>&1 || {
        cat "$work/apt.log" >&2
        fail "installation failed"
    }
}
# compile OUT OPTION...: compiles a program against the files of the root.
compile() {
    program=$1
    shift
    gcc -Wall -Werror --sysroot="$root" -o "$root/tmp/$program" "$@"
}
flags() {
    PKG_CONFIG_LIBDIR="$(dirname "$(find "$root/usr/lib" -name carrick.pc)")" PKG_CONFIG_SYSROOT_DIR=$root pkg-config "$@" carrick
}

files >"$work/before"
install_all
within carrick --version | grep -q "^carrick $version" || fail "another version: $(within carrick --version)"
for file in man/man1/carrick.1.gz man/man1/carrick-run.1.gz bash-completion/completions/carrick zsh/site-functions/_carrick fish/vendor_completions.d/carrick.fish; do
    [ -s "$root/usr/share/$file" ] || fail "no $file"
done

# Units: without errors, and only the control socket is enabled, also after a removal without a purge.
units="carrick-daemon.service carrick-daemon.socket carrick-stp.service carrick-simco.service"
enabled() {
    (cd "$root/etc/systemd/system" && find . -name 'carrick-*' | sort | tr '\n' ' ')
}
# shellcheck disable=SC2086 # a list of words
printed=$(within systemd-analyze verify $units 2>&1) || true
[ -z "$printed" ] || fail "$printed"
# What the units leave open, from 0 to 100; CAP_NET_ADMIN is most of the last one.
within systemd-analyze security --offline=true --threshold=17 carrick-daemon.service >/dev/null
within systemd-analyze security --offline=true --threshold=16 carrick-stp.service >/dev/null
within systemd-analyze security --offline=true --threshold=19 carrick-simco.service >/dev/null
[ "$(enabled)" = "./sockets.target.wants/carrick-daemon.socket " ] || fail "enabled units: $(enabled)"
within apt-get remove -y -qq carrick >/dev/null 2>&1
install_all
[ "$(enabled)" = "./sockets.target.wants/carrick-daemon.socket " ] || fail "enabled units, installed again: $(enabled)"

# Configurations, read by those who run the services. A change of the user outlasts an upgrade.
as daemon carrick stp --config /etc/carrick/stp.toml --check >/dev/null
within sed -i 's/^#\(\[\[agents\]\]\|name = "pbx"\|key-file\)/\1/' /etc/carrick/simco.toml
within sh -c 'umask 027; printf %064d 1 >/etc/carrick/keys/pbx.key; chgrp carrick /etc/carrick/keys/pbx.key'
install_all
within install -d -o carrick -m 700 /var/lib/carrick /var/log/carrick
as carrick carrick simco middlebox --config /etc/carrick/simco.toml --check >/dev/null
if as daemon carrick simco middlebox --config /etc/carrick/simco.toml --check 2>/dev/null; then fail "every user can read simco.toml"; fi

# The daemon of the packaged configuration, without privileges, and programs on it.
within install -d -o daemon /run/carrick
# shellcheck disable=SC2016 # the process id of the inner shell
as daemon sh -c 'echo $$ >/tmp/pid; exec carrick daemon --config /etc/carrick/daemon.toml --socket /run/carrick/socket' 2>"$work/daemon.log" &
daemon=$!
for _ in $(seq 100); do
    grep -q serving "$work/daemon.log" && break
    sleep 0.1
done
within chmod 666 /run/carrick/socket
as daemon carrick cat --listen 5000 --recv-only >"$work/received" 2>/dev/null &
receiver=$!
for _ in $(seq 50); do
    echo hello | as daemon carrick cat 127.0.0.1 5000 2>/dev/null && break
    sleep 0.1
done
wait "$receiver"
expect hello cat "$work/received"

# A program of libsctp, unchanged and on the library of the package; one of libcarrick, also linked with its archive.
text="hello on stream 3, PPID 60"
sed 's/carrick_//g; s|<carrick.h>|<netinet/sctp.h>|' "$work/hello.c" >"$work/hello_sctp.c"
compile hello_sctp "$work/hello_sctp.c" -idirafter /usr/include "$root/usr/lib/carrick/libsctp.so.1"
cp "$root/tmp/hello_sctp" "$work/"
expect "$text" as daemon carrick run --daemon /run/carrick/socket -- /tmp/hello_sctp
# shellcheck disable=SC2046 # lists of options
compile hello "$work/hello.c" $(flags --cflags --libs)
expect "$text" as daemon /tmp/hello
# shellcheck disable=SC2046
compile hello_static "$work/hello.c" $(flags --cflags --libs --static | sed 's/-lcarrick/-l:libcarrick.a/')
expect "$text" as daemon /tmp/hello_static
kill "$(cat "$root/tmp/pid")"
wait "$daemon" || fail "the daemon ended with $?: $(cat "$work/daemon.log")"
# Without the daemon, carrick run serves the program itself.
expect "$text" as daemon env TMPDIR=/tmp carrick run -- /tmp/hello_sctp

within apt-get purge -y -qq carrick carrick-simco libcarrick0 libcarrick-dev >"$work/apt.log" 2>&1 || fail "purge failed: $(cat "$work/apt.log")"
files >"$work/after"
diff "$work/before" "$work/after" || fail "files are left after the purge, or missing"
echo "packages: installed, used by programs, and removed without a trace"
