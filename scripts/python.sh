#!/bin/bash
# Tests of the Python package with the libraries that the build has made.
#
#   scripts/python.sh [--long]    --long: also the notebooks, the cluster of Dask, and the wheel
#
# Packages of PyPI are installed into target/python once for each list of them.
set -eu
cd "$(dirname "$0")/.."
long=${1:-}
packages=(pandas==3.* polars==2.* pytest==9.* mypy==2.*)
kind=short
if [ "$long" = --long ]; then
  packages+=(distributed==2026.* matplotlib==3.* nbclient==0.11.* nbformat==5.* ipykernel==7.* maturin==1.*)
  kind=long
fi
folder=target/python/$kind
python=$folder/venv/bin/python
if [ "$(cat "$folder/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder/venv"
  "$python" -m pip install --quiet "${packages[@]}"
  echo "${packages[*]}" >"$folder/packages"
fi
if [ "$kind" = long ]; then
  # As users get it: the wheel of the release.
  rm -rf target/python/wheels
  "$folder/venv/bin/maturin" build --quiet --locked --release --manifest-path bindings/python/Cargo.toml --out target/python/wheels
  "$python" -m pip install --quiet --force-reinstall --no-deps target/python/wheels/*.whl
  tests=(tests)
else
  library=target/debug/libcarrick_lab_python.so
  package=target/python/package
  rm -rf "$package"
  mkdir -p "$package"
  cp -r bindings/python/python/carrick_lab "$package/"
  cp "$library" "$package/carrick_lab/_core.abi3.so"
  export PYTHONPATH=$PWD/$package
  tests=(tests --ignore=tests/test_dask.py --ignore=tests/test_notebooks.py)
fi
"$python" -m mypy --strict --disable-error-code import-untyped --disable-error-code import-not-found --cache-dir target/python/mypy bindings/python/python/carrick_lab
cd bindings/python
PYTHONDONTWRITEBYTECODE=1 CARRICK=$PWD/../../target/debug/carrick exec ../../"$python" -m pytest --quiet --durations 5 "${tests[@]}"
