# Shell functions that the scripts of this folder share. Sourced from the top of the checkout.
# shellcheck shell=sh disable=SC2034 # variables of the scripts

# Time of the last commit: two builds of a commit are the same, byte by byte.
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
