#!/bin/sh
# Makes the Debian packages carrick, carrick-simco, libcarrick0 and libcarrick-dev. Two runs give the same bytes.
#
#   packaging/debian.sh [--built DIRECTORY] [--quick] OUT
#
# DIRECTORY has the built files, as target/dist, which is built otherwise; with --quick, the packages are compressed less.
# The command has all features, as that of ./install: carrick-simco is the service alone, since a second command of 25 MB
# would differ by the subcommand only. Needs dpkg-dev, with --built no Rust compiler but cargo for the list of licences.
set -eu
umask 022
built=
compression=-Zxz
while [ $# -gt 1 ]; do
    case $1 in
    --built)
        built=$(realpath "$2")
        shift
        ;;
    --quick) compression="-Zgzip -z1" ;;
    *) break ;;
    esac
    shift
done
case ${1:-} in -*) set -- ;; esac
[ $# -eq 1 ] || {
    echo "usage: packaging/debian.sh [--built DIRECTORY] [--quick] OUT" >&2
    exit 2
}
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
. packaging/common.sh
if [ -z "$built" ]; then
    cargo build --profile dist --locked -p carrick-cli -p carrick-preload -p carrick-c --features carrick-cli/full
    built=$PWD/target/dist
fi
files=$packaging/debian
suffix=
[ -n "$release" ] || suffix="~git$(commit_time +%Y%m%d%H%M%S).$commit"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The sources of a package, as the tools of dpkg-dev expect them.
mkdir "$work/debian"
cp "$files/control" "$work/debian/"
cat >"$work/debian/changelog" <<END
carrick ($version$suffix-1) unstable; urgency=medium

  * Built from commit $commit. CHANGELOG.md has what changed.

 -- $(sed -n 's/^Maintainer: //p' "$files/control")  $(commit_time '+%a, %d %b %Y %H:%M:%S +0000')
END
mkdir "$work/all"
DESTDIR=$work/all ./install --prefix /usr --built "$built" >/dev/null
# The list of what ./install removes is that of dpkg here; licences and configurations have their places.
rm -r "$work/all/usr/share/carrick" "$work/all/usr/share/doc"
install -m 644 "$built/libcarrick_c.a" "$work/all/usr/lib/libcarrick.a"
packaging/licences.py >"$work/third-party"

# take PACKAGE PATH...: moves these files of the installation to a package.
take() {
    package=$1
    shift
    for path in "$@"; do
        mkdir -p "$work/$package/$(dirname "$path")"
        mv "$work/all/$path" "$work/$package/$path"
    done
}

# Libraries of several architectures may be installed side by side.
arch=$(dpkg --print-architecture)
multiarch=usr/lib/$(dpkg-architecture -a "$arch" -q DEB_HOST_MULTIARCH)
mkdir -p "$work/all/$multiarch"
(cd "$work/all/usr/lib" && mv libcarrick.* pkgconfig "$work/all/$multiarch/")
sed -i "s|^Libs: .*|Libs: -L/$multiarch -lcarrick\nLibs.private: -lgcc_eh -lpthread -ldl -lm|" "$work/all/$multiarch/pkgconfig/carrick.pc"

cd "$work/all"
take libcarrick0 "$multiarch"/libcarrick.so.0*
take libcarrick-dev usr/include/carrick.h "$multiarch/libcarrick.so" "$multiarch/libcarrick.a" "$multiarch/pkgconfig/carrick.pc"
take carrick-simco usr/lib/systemd/system/carrick-simco.service
# What is left is that of the command.
find . -type f | sed 's|^\./||' >"$work/rest"
while read -r path; do take carrick "$path"; done <"$work/rest"
# systemd and the service helpers of Debian 12 have their units here.
for package in carrick carrick-simco; do
    mkdir -p "$work/$package/lib/systemd"
    mv "$work/$package/usr/lib/systemd/system" "$work/$package/lib/systemd/"
    rmdir "$work/$package/usr/lib/systemd"
    rmdir --ignore-fail-on-non-empty "$work/$package/usr/lib"
done
find "$work/carrick" "$work/libcarrick-dev" -path '*/man/*' -name '*.[1-9]' -exec gzip -9n {} +
strip --strip-unneeded --remove-section=.comment "$work/carrick/usr/bin/carrick" "$work"/carrick/usr/lib/carrick/*.so* "$work/libcarrick0/$multiarch"/*.so.0
strip --strip-debug --enable-deterministic-archives "$work/libcarrick-dev/$multiarch/libcarrick.a"
cd "$work"
install -D -m 644 "$packaging/../docs/examples/carrick-daemon.toml" carrick/etc/carrick/daemon.toml
install -D -m 644 "$packaging/../docs/examples/carrick-stp.toml" carrick/etc/carrick/stp.toml
install -D -m 640 "$files/simco.toml" carrick-simco/etc/carrick/simco.toml
mkdir -m 750 carrick-simco/etc/carrick/keys

# insert TOKEN FILE SCRIPT: replaces a line of a script by a file, or by nothing.
insert() {
    if [ -e "$2" ]; then sed -i -e "/$1/r $2" -e "/$1/d" "$3"; else sed -i "/$1/d" "$3"; fi
}

# scripts PACKAGE ENABLED DISABLED: makes the maintainer scripts for units that are enabled by default, and for others.
scripts() {
    for script in postinst prerm postrm; do
        sed -e "/^# shellcheck/d" -e "s/#ENABLED#/$2/g" -e "s/#DISABLED#/$3/g" "$files/$script" >"$1/DEBIAN/$script"
        insert '#SETUP#' "$files/$1.setup" "$1/DEBIAN/$script"
        insert '#CLEANUP#' "$files/$1.cleanup" "$1/DEBIAN/$script"
        chmod 755 "$1/DEBIAN/$script"
    done
}

packages="libcarrick0 libcarrick-dev carrick carrick-simco"
for package in $packages; do
    doc=$package/usr/share/doc/$package
    mkdir -p "$package/DEBIAN" "$doc"
    cp "$files/copyright" "$doc/"
    gzip -9n <debian/changelog >"$doc/changelog.Debian.gz"
    if [ "$package" = carrick ] || [ "$package" = libcarrick0 ]; then
        gzip -9n <"$packaging/../CHANGELOG.md" >"$doc/changelog.gz"
        gzip -9n <third-party >"$doc/THIRD-PARTY.gz"
    fi
    if [ -e "$files/$package.overrides" ]; then
        install -D -m 644 "$files/$package.overrides" "$package/usr/share/lintian/overrides/$package"
    fi
    if [ -d "$package/etc" ]; then (cd "$package" && find etc -type f | sort | sed 's|^|/|' >DEBIAN/conffiles); fi
done
install -D -m 644 -t carrick/usr/share/doc/carrick/examples/monitoring "$packaging"/../docs/examples/monitoring/*
# The control socket opens no port: the daemon starts with the first program that uses SCTP. The other services need a
# configuration first.
scripts carrick carrick-daemon.socket "carrick-daemon.service carrick-stp.service"
scripts carrick-simco "" carrick-simco.service

# A symbol that is new or missing is an error: the file in the tree has the version since which each exists.
dpkg-gensymbols -q -c4 -plibcarrick0 -Plibcarrick0 -I"$files/libcarrick0.symbols" -v"$version~" -elibcarrick0/"$multiarch"/libcarrick.so.0
echo "libcarrick 0 libcarrick0 (>= $version~)" >libcarrick0/DEBIAN/shlibs
echo "activate-noawait ldconfig" >libcarrick0/DEBIAN/triggers

rm -f "$out"/carrick_*.deb "$out"/carrick-simco_*.deb "$out"/libcarrick0_*.deb "$out"/libcarrick-dev_*.deb
for package in $packages; do
    programs=$(find "$package" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/bin/*' \))
    : >substvars
    # shellcheck disable=SC2086 # a list of paths without spaces
    [ -z "$programs" ] || dpkg-shlibdeps -Tsubstvars -x"$package" $programs
    dpkg-gencontrol -p"$package" -P"$package" -Tsubstvars -ffiles >/dev/null
    (cd "$package" && find . -path ./DEBIAN -prune -o -type f ! -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$package" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    # shellcheck disable=SC2086 # a list of options
    dpkg-deb --root-owner-group $compression --build "$package" "$out" >/dev/null
done
ls -l "$out"/*.deb
