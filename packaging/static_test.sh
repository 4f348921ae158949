#!/bin/sh
# Makes the archive and the image of the static command twice and checks them: the same bytes, checksums, the bill of
# materials, the command in a root directory that has nothing else, a program under its supervision, and the image with
# Debian's podman.
#
#   packaging/static_test.sh [--static FILE] [--built target/debug]
#
# FILE is the command, linked for musl; it is built in the profile dev otherwise. Needs root, and the programs of
# interop/install.sh --packages.
set -eu
static=
built=target/debug
while [ $# -gt 0 ]; do
    case $1 in
    --static) static=$(realpath "$2") ;;
    --built) built=$(realpath "$2") ;;
    *) exit 2 ;;
    esac
    shift 2
done
cd "$(dirname "$0")/.."
. packaging/common.sh
[ -n "$static" ] || static=$(build_static dev carrick-cli/full)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for turn in first second; do
    packaging/tarball.sh --static "$static" "$work/$turn" >/dev/null
    packaging/image.sh --static "$static" --built "$built" "$work/$turn" >/dev/null
done
for file in "$work"/first/*; do cmp "$file" "$work/second/${file##*/}"; done
(cd "$work/first" && sha256sum --quiet --check SHA256SUMS)

root=$work/usr
mkdir "$root"
tar -C "$root" --strip-components=1 -xzf "$work"/first/carrick-*.tar.gz
# Nothing but the command is there.
mkdir -p "$work/empty/bin"
cp "$root/bin/carrick" "$work/empty/bin/"
printed=$(chroot "$work/empty" /bin/carrick --version)
case $printed in "carrick $version"*) ;; *) fail "another version: $printed" ;; esac
for file in share/man/man1/carrick-run.1 share/bash-completion/completions/carrick share/doc/carrick/THIRD-PARTY; do
    [ -s "$root/$file" ] || fail "no $file in the archive"
done

# The bill of materials has the crates whose licences are in the archive.
packaging/sbom.py --target "$musl" >"$work/bill.json"
python3 -B - "$work/bill.json" "$root/share/doc/carrick/THIRD-PARTY" <<'END'
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as file:
    components = {f"{c['name']} {c['version']}" for c in json.load(file)["components"]}
with open(sys.argv[2], encoding="utf-8") as file:
    listed = set(re.findall(r"^([\w-]+ [^:\n]+): ", file.read().partition("=" * 80)[0], re.MULTILINE))
assert len(listed) > 50 and components == listed, components ^ listed
END

# Under supervision, programs need no preload library.
# shellcheck disable=SC2016 # a fence of Markdown
sed -n '/^```c$/,/^```$/p' docs/sockets.md | sed '/^```/d; s/carrick_//g; s|<carrick.h>|<netinet/sctp.h>|' >"$work/hello.c"
cc -Wall -Werror -o "$work/hello" "$work/hello.c" -lsctp
printed=$(unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$root/bin/carrick" run --seccomp -- "$work/hello")
[ "$printed" = "hello on stream 3, PPID 60" ] || fail "printed under supervision: $printed"

python3 -B packaging/image_test.py --image "$(echo "$work"/first/*-oci.tar)" --built "$built"
echo "packages: the archive and the image run"
