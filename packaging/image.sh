#!/bin/sh
# Makes an OCI image of Carrick alone: the static command without the laboratory and SIMCO, the preload library for programs
# with glibc, and a program that copies both to a volume. Two runs give the same bytes.
#
#   packaging/image.sh [--static FILE] [--built DIRECTORY] OUT
#
# FILE is the command, linked for musl, DIRECTORY has libcarrick_preload.so; both are built in the profile dist otherwise.
# OUT/carrick-VERSION-oci.tar is what `podman load`, `skopeo copy oci-archive:` and `ctr image import` read.
set -eu
umask 022
static=
built=
while [ $# -gt 1 ]; do
    case $1 in
    --static) static=$(realpath "$2") ;;
    --built) built=$(realpath "$2") ;;
    *) break ;;
    esac
    shift 2
done
[ $# -eq 1 ] || {
    echo "usage: packaging/image.sh [--static FILE] [--built DIRECTORY] OUT" >&2
    exit 2
}
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
. packaging/common.sh
[ -n "$static" ] || static=$(build_static dist "")
if [ -z "$built" ]; then
    cargo build --profile dist --locked -p carrick-preload
    built=target/dist
fi
is_static "$static" || fail "$static is not a static program"
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) fail "no name of images is known for $(uname -m)" ;;
esac
name=$version
[ -n "$release" ] || name=$version-$(commit_time +%Y%m%d).$commit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Directories of volumes have the owner that an empty volume gets, where a runtime copies it; the user has no name.
user=65534
opt=$work/root/opt/carrick
mkdir -p "$opt" "$work/root/tmp" "$work/volumes/run/carrick" "$work/volumes/carrick"
install "$static" "$opt/carrick"
install -m 755 -t "$opt" "$built/libcarrick_preload.so"
strip --strip-unneeded --remove-section=.comment "$opt"/*
musl-gcc -static -Os -s -Wall -Wextra -Werror -o "$opt/copy" packaging/image/copy.c
mkdir -p "$work/root/licences"
install -m 644 -t "$work/root/licences" LICENSE-MIT LICENSE-APACHE
packaging/licences.py --target "$musl" >"$work/root/licences/THIRD-PARTY"
chmod 1777 "$work/root/tmp"
archive "$work/root" . >"$work/layer.tar"
# `run` itself belongs to root.
archive "$work/volumes" ./run --no-recursion >"$work/run.tar"
archive "$work/volumes" ./run/carrick --owner=$user --group=$user >"$work/control.tar"
archive "$work/volumes" ./carrick --owner=$user --group=$user >"$work/command.tar"
for part in run control command; do tar --concatenate -f "$work/layer.tar" "$work/$part.tar"; done

# blob FILE: stores a file under its digest, and prints that.
layout=$work/layout
mkdir -p "$layout/blobs/sha256"
blob() {
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    cp "$1" "$layout/blobs/sha256/$digest"
    echo "sha256:$digest"
}
size() {
    stat -c %s "$1"
}
content=sha256:$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
gzip -9n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")
created=$(commit_time +%Y-%m-%dT%H:%M:%SZ)
label=org.opencontainers.image
labels="\"$label.title\":\"carrick\",\"$label.description\":\"SCTP in user space: the daemon, and files for containers of programs\",\
\"$label.version\":\"$name\",\"$label.revision\":\"$(git rev-parse HEAD)\",\"$label.created\":\"$created\",\
\"$label.source\":\"https://github.com/carrick-sctp/carrick\",\"$label.licenses\":\"MIT OR Apache-2.0\""
cat >"$work/config.json" <<END
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"$user:$user","ExposedPorts":{"9899/udp":{}},"Env":["PATH=/opt/carrick"],"Entrypoint":["/opt/carrick/carrick"],"Cmd":["daemon","--socket","/run/carrick/socket"],"Labels":{$labels}},"rootfs":{"type":"layers","diff_ids":["$content"]},"history":[{"created":"$created","created_by":"packaging/image.sh"}]}
END
config=$(blob "$work/config.json")
types=application/vnd.oci.image
cat >"$work/manifest.json" <<END
{"schemaVersion":2,"mediaType":"$types.manifest.v1+json","config":{"mediaType":"$types.config.v1+json","digest":"$config","size":$(size "$work/config.json")},"layers":[{"mediaType":"$types.layer.v1.tar+gzip","digest":"$layer","size":$(size "$work/layer.tar.gz")}],"annotations":{$labels}}
END
manifest=$(blob "$work/manifest.json")
cat >"$layout/index.json" <<END
{"schemaVersion":2,"mediaType":"$types.index.v1+json","manifests":[{"mediaType":"$types.manifest.v1+json","digest":"$manifest","size":$(size "$work/manifest.json"),"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"carrick:$name"}}]}
END
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
archive "$layout" . >"$out/carrick-$name-oci.tar"
limit=$((25 << 20))
[ "$(size "$work/layer.tar.gz")" -le $limit ] || fail "the layer has $(size "$work/layer.tar.gz") bytes, more than $limit"
echo "$out/carrick-$name-oci.tar: layer of $(size "$work/layer.tar.gz") bytes, image carrick:$name"
