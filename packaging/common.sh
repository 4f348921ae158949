# Shell functions that the scripts of this folder share. Sourced from the top of the checkout.
# shellcheck shell=sh disable=SC2034 # variables of the scripts

# Time of the last commit, which all files get, so that two runs give the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
commit=$(git rev-parse --short=9 HEAD)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# A build of a commit without the release's tag precedes the release.
release=$(git tag --points-at HEAD | grep -Fx "v$version" || true)
packaging=$(git rev-parse --show-toplevel)/packaging

# commit_time FORMAT: the time of the last commit, as `date` prints it.
commit_time() {
    LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" "$1"
}

# fail MESSAGE...: ends the script.
fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Target of the static command, which needs no library of the host.
musl=$(uname -m)-unknown-linux-musl

# build_static PROFILE FEATURES: builds the static command; prints its path. C code is compiled by musl-gcc (Debian's
# musl-tools).
build_static() {
    rustup --quiet target add "$musl" >&2
    # The linker is that of the host: musl-gcc cannot link position-independent programs statically.
    env "CC_$(echo "$musl" | tr - _)=musl-gcc" \
        cargo build --locked --target "$musl" --profile "$1" -p carrick-cli --features "$2" >&2
    echo "target/$musl/$(echo "$1" | sed 's/^dev$/debug/')/carrick"
}

# is_static FILE: whether a program needs no dynamic linker.
is_static() {
    headers=$(readelf --wide --program-headers "$1") && case $headers in *INTERP*) return 1 ;; esac
}

# archive DIRECTORY MEMBER OPTION...: prints a tar archive of DIRECTORY/MEMBER that depends on contents and modes only.
archive() {
    directory=$1
    member=$2
    shift 2
    tar -C "$directory" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$@" -cf - "$member"
}
