#!/bin/sh
# Makes an archive of the static command with its manual pages, completions, units and examples, and its checksum in
# SHA256SUMS. Two runs give the same bytes.
#
#   packaging/tarball.sh [--static FILE] OUT    FILE is the command, linked for musl; built in the profile dist otherwise
set -eu
umask 022
static=
if [ "${1:-}" = --static ]; then
    static=$(realpath "$2")
    shift 2
fi
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
. packaging/common.sh
[ -n "$static" ] || static=$(build_static dist "carrick-cli/full")
is_static "$static" || fail "$static is not a static program"
name=carrick-$version-$musl
[ -n "$release" ] || name=carrick-$version-$(commit_time +%Y%m%d).$commit-$musl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name
share=$root/share
install -D "$static" "$root/bin/carrick"
strip --strip-unneeded --remove-section=.comment "$root/bin/carrick"
"$root/bin/carrick" man "$share/man/man1"
completions() {
    mkdir -p "$share/$(dirname "$2")"
    "$root/bin/carrick" completions "$1" >"$share/$2"
}
completions bash bash-completion/completions/carrick
completions zsh zsh/site-functions/_carrick
completions fish fish/vendor_completions.d/carrick.fish
install -D -m 644 -t "$share/doc/carrick/examples" docs/examples/carrick-*.toml docs/examples/carrick-*.service docs/examples/carrick-*.socket packaging/debian/simco.toml
install -D -m 644 -t "$share/doc/carrick/examples/monitoring" docs/examples/monitoring/*
install -m 644 -t "$share/doc/carrick" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT
packaging/licences.py --target "$musl" >"$share/doc/carrick/THIRD-PARTY"
archive "$work" "$name" --mode=u=rwX,go=rX | gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >SHA256SUMS)
ls -l "$out/$name.tar.gz"
