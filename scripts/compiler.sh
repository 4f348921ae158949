#!/usr/bin/env bash
# The compiler of a whole run of the tests, called by Cargo as RUSTC_WORKSPACE_WRAPPER: that of clippy, if it is
# installed, lints what it compiles, so that nothing is read a second time. The code of tests runs once, so that to
# optimise it takes longer than it gains; Cargo has this setting for packages only. The tests of carrick-hosts are an
# exception: the TCP that they compute with is compiled with them, for their own programs.
driver=$(rustup which clippy-driver 2>/dev/null || command -v clippy-driver)
plain=
for argument; do
  if [ "$argument" = --test ] && [ "$CARGO_PKG_NAME" != carrick-hosts ]; then
    plain="-C opt-level=0"
  fi
done
# shellcheck disable=SC2086
exec ${driver:+"$driver"} "$@" $plain
