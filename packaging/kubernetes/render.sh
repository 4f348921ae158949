#!/bin/sh
# Prints the resources of a folder beside this file: packaging/kubernetes/render.sh sidecar. Installs kustomize below target/
# if neither it nor kubectl is there.
set -eu
cd "$(dirname "$0")/../.."
folder=packaging/kubernetes/$1
if command -v kustomize >/dev/null; then
    exec kustomize build "$folder"
elif command -v kubectl >/dev/null; then
    exec kubectl kustomize "$folder"
fi
tools=$PWD/target/kustomize
[ -x "$tools/kustomize" ] || GOBIN=$tools go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1
exec "$tools/kustomize" build "$folder"
