#!/bin/sh
# Builds the command openssl with SCTP from the sources of Debian's package, since Debian's own is built without it.
#
#   openssl.sh DIRECTORY    the result is DIRECTORY/openssl; does nothing if it is there
#
# Needs root for apt's cache.
set -eu
[ ! -x "$1/openssl" ] || exit 0
mkdir -p "$1/apt/lists/partial"
cd "$1"
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/source.sources
apt="apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$PWD/apt -o Dir::State::Lists=$PWD/apt/lists"
$apt update
$apt -o APT::Sandbox::User=root source --download-only --tar-only openssl
rm -rf source
mkdir source
tar -xf openssl_*.orig.tar.gz -C source --strip-components 1
cd source
# Without optimisation and what DTLS does not need: it is built for a test.
./Configure linux-x86_64 enable-sctp no-shared no-tests no-module no-engine no-legacy no-cms no-ts no-srp no-comp no-idea \
    no-camellia no-aria no-bf no-cast no-md4 no-rc2 no-rc4 no-seed no-sm2 no-sm3 no-sm4 no-whirlpool no-gost -O0 >/dev/null
make -s -j"$(nproc)" build_sw >/dev/null
cp apps/openssl ..
cd ..
rm -rf source apt openssl_*
