#!/bin/sh
# Makes the Debian packages twice and checks them: lintian, the same bytes, and in a new Debian root their installation,
# use and removal, with and without a service manager.
#
#   packaging/test.sh [--built target/debug]    needs root, and the programs of interop/install.sh --packages
#
# The root is made with the package sources of the host, and kept in target/ for the next run.
set -eu
built=target/debug
[ "${1:-}" != --built ] || built=$(realpath "$2")
cd "$(dirname "$0")/.."
. packaging/common.sh
lower=$PWD/target/debian-root
work=$(mktemp -d "$PWD/target/packages-XXXXXX")
trap 'rm -rf "$work"' EXIT

# Debian's release is that of the host, whose libraries the programs are linked with.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
contents="systemd,systemd-sysv,adduser,procps,libc6-dev"
if [ "$(cat "$lower.contents" 2>/dev/null)" != "$codename $contents" ]; then
    rm -rf "$lower" "$lower.contents"
    # shellcheck disable=SC2016 # a format of apt-get
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $codename" | sort -u | head -n 1)
    mmdebstrap --quiet --mode=root --variant=minbase --include="$contents" "$codename" "$lower" "$mirror"
    echo "$codename $contents" >"$lower.contents"
fi

packaging/debian.sh --quick --built "$built" "$work/packages" >/dev/null
packaging/debian.sh --quick --built "$built" "$work/again" >/dev/null
for package in "$work"/packages/*.deb; do
    cmp "$package" "$work/again/${package##*/}"
done
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$work"/packages/*.deb
# shellcheck disable=SC2016 # a fence of Markdown
sed -n '/^```c$/,/^```$/p' docs/sockets.md | sed '/^```/d' >"$work/hello.c"
unshare --mount --net --pid --fork --kill-child packaging/root.sh "$lower" "$work" "$version"

# The services. What is left of the first part is not needed.
rm -rf "$work/upper" "$work/overlay" "$work/root"
timeout -k 5 300 unshare --mount --net --pid --fork --kill-child --uts --ipc --cgroup packaging/boot.sh "$lower" "$work" >"$work/boot.log" 2>&1 || true
tail -n 1 "$work/upper/opt/output" | grep -q '^services: passed$' || {
    tail -n 20 "$work/boot.log" "$work/upper/opt/output" >&2
    fail "the services do not run under systemd"
}
echo "packages: the services run under systemd, through an upgrade"
