#!/bin/sh
# Installs the Debian packages that the tests need. Does nothing, quickly, when all are there. With --programs, also
# those of programs/run.py, whose services are not started; with --containers those of containers.py, with --packages those
# of packaging, with --monitoring those of monitoring.py, whose service is not started either.
set -eu

packages="user-mode-linux libusrsctp-dev tshark gcc g++ libc6-dev make iproute2 ethtool nftables sip-tester python3 util-linux iperf3 lksctp-tools libsctp-dev ncat musl-tools"
if [ "${1:-}" = --programs ]; then
    packages="$packages osmo-stp libosmo-sigtran-dev libosmocore-dev pkg-config freediameterd kamailio kamailio-sctp-modules netperfmeter openssl perl sipsak python3-dev python3-pip python3-setuptools"
elif [ "${1:-}" = --containers ]; then
    packages="$packages podman runc conmon catatonit netavark aardvark-dns iptables podman-compose python3-yaml"
elif [ "${1:-}" = --packages ]; then
    packages="$packages mmdebstrap lintian dpkg-dev binutils pkg-config podman runc conmon catatonit netavark aardvark-dns iptables python3-yaml"
elif [ "${1:-}" = --monitoring ]; then
    packages="$packages prometheus python3-yaml"
fi

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
policy=/usr/sbin/policy-rc.d
[ ! -e "$policy" ] || policy=
trap 'rm -f "$log" $policy' EXIT
[ -z "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; }
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
