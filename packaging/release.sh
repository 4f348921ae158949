#!/bin/sh
# Makes and checks all that a release publishes, and stops before the first step that cannot be taken back.
#
#   packaging/release.sh OUT
#
# 1. The tree is clean, the commit has the release's tag, and CHANGELOG.md names the version.
# 2. All tests pass, those of the long tier included.
# 3. OUT gets the Debian packages, the archive of the static command, the image, the wheels for Python, the bill of materials,
#    and SHA256SUMS of all of them.
# 4. The crates can be published, in their order.
# 5. The commands that publish are printed.
set -eu
umask 022
[ $# -eq 1 ] || {
    echo "usage: packaging/release.sh OUT" >&2
    exit 2
}
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
. packaging/common.sh

# 1
[ -z "$(git status --porcelain)" ] || fail "the tree has changes: commit or remove what git status lists"
[ -z "$(ls "$out")" ] || fail "$out is not empty: give a new folder"
[ -n "$release" ] || fail "the commit has no tag v$version: git tag --sign v$version; it is pushed at the end"
grep -q "^## $version (20" CHANGELOG.md || fail "CHANGELOG.md has no heading \"## $version (DATE)\": write what the release has, with its date"

# 2
./test.sh --long

# 3
packaging/debian.sh "$out"
packaging/tarball.sh "$out"
packaging/image.sh "$out"
for package in bindings/python*; do
    maturin build --locked --release --manifest-path "$package/Cargo.toml" --out "$out"
done
packaging/sbom.py >"$out/carrick-$version.cdx.json"
(cd "$out" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)

# 4
cargo publish --workspace --dry-run --locked

# 5
cat <<END

All is in $out. What remains publishes it:

    git push origin v$version
    cargo publish --workspace --locked
    twine upload $out/*.whl
    gh release create v$version $out/*
END
