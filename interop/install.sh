#!/bin/sh
# Installs the Debian packages that the tests need. Does nothing, quickly, when all are there.
set -eu

packages="user-mode-linux libusrsctp-dev tshark gcc g++ libc6-dev make iproute2 ethtool nftables sip-tester python3 util-linux"

missing=""
for package in $packages; do
    case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" in
    "install ok installed") ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then
    echo "interop: all packages are installed"
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "interop: run this as root, or install:$missing" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
    echo "interop: $1"
    shift
    if ! DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "interop: installation failed; check the network and the package sources of this host" >&2
        exit 1
    fi
}
run "updating the package lists" apt-get update -qq
# shellcheck disable=SC2086 # a list of words
run "installing$missing" apt-get install -y -qq --no-install-recommends $missing
