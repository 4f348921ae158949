#!/bin/sh
# Builds the programs of other projects that sigtran.py runs, in target/interop: osmo-sua with Debian's libosmo-sigtran, and
# go-m3ua, static, so that Carrick supervises its system calls.
set -eu
cd "$(dirname "$0")"
out=$PWD/../../target/interop
mkdir -p "$out"
# shellcheck disable=SC2046 # a list of words
cc -O2 -Wall -Wextra -o "$out/osmo-sua" osmo_sua.c $(pkg-config --cflags --libs libosmo-sigtran libosmocore)
cd go-m3ua
CGO_ENABLED=0 go build -o "$out/go-m3ua" .
