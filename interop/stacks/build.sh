#!/bin/sh
# Builds the programs of live experiments, linux-sctp and usrsctp, into target/stacks (README.md, "The stacks of live
# experiments"). interop/install.sh installs what they need.
set -eu

cd "$(dirname "$0")"
out=../../target/stacks
mkdir -p "$out"
make -s -C .. ../target/interop/xstate.so
ln -sf ../../interop/stacks/linux_sctp.py "$out/linux-sctp"
version=$(dpkg-query -W -f '${Version}' libusrsctp-dev)
${CC:-cc} -O2 -Wall -Wextra -DVERSION="\"$version\"" -o "$out/usrsctp" usrsctp.c -lusrsctp -lpthread
