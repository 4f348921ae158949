#!/bin/bash
# Tests of the Python packages `carrick` and `carrick-lab` with the libraries that the build has made.
#
#   scripts/python.sh [--long]    --long: also the notebooks, the cluster of Dask, uvloop, and the wheels
#
# Packages of PyPI are installed into target/python once for each list of them.
set -eu
cd "$(dirname "$0")/.."
long=${1:-}
packages=(pandas==3.* polars==2.* pytest==9.* mypy==2.*)
kind=short
if [ "$long" = --long ]; then
  packages+=(distributed==2026.* matplotlib==3.* nbclient==0.11.* nbformat==5.* ipykernel==7.* maturin==1.* uvloop==0.*)
  kind=long
fi
folder=target/python/$kind
python=$PWD/$folder/venv/bin/python
if [ "$(cat "$folder/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder/venv"
  "$python" -m pip install --quiet "${packages[@]}"
  echo "${packages[*]}" >"$folder/packages"
fi
if [ "$kind" = long ]; then
  # As users get them: the wheels of the release.
  rm -rf target/python/wheels
  for crate in python python-sctp; do
    "$folder/venv/bin/maturin" build --quiet --locked --release --manifest-path "bindings/$crate/Cargo.toml" --out target/python/wheels
  done
  "$python" -m pip install --quiet --force-reinstall --no-deps target/python/wheels/*.whl
  lab=(tests)
else
  package=target/python/package
  rm -rf "$package"
  mkdir -p "$package"
  cp -r bindings/python/python/carrick_lab bindings/python-sctp/python/carrick "$package/"
  cp target/debug/libcarrick_lab_python.so "$package/carrick_lab/_core.abi3.so"
  cp target/debug/libcarrick_python.so "$package/carrick/_core.abi3.so"
  export PYTHONPATH=$PWD/$package
  lab=(tests --ignore=tests/test_dask.py --ignore=tests/test_notebooks.py)
fi
for source in bindings/python/python/carrick_lab bindings/python-sctp/python/carrick; do
  "$python" -m mypy --strict --disable-error-code import-untyped --disable-error-code import-not-found --cache-dir target/python/mypy "$source"
done
export PYTHONDONTWRITEBYTECODE=1 CARRICK=$PWD/target/debug/carrick
(cd bindings/python-sctp && "$python" -m pytest --quiet --durations 5 tests)
cd bindings/python
exec "$python" -m pytest --quiet --durations 5 "${lab[@]}"
