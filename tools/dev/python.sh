# The package for Python: its tests, and what is released. Read by `dev`.
# shellcheck shell=bash

# The versions of glibc and of the processor's architecture that a wheel is for.
wheel_glibc=2.28

# Makes a virtual environment in folder $1, if there is none that works. Fails if Python can't.
virtual_environment() {
  if "$1/bin/python" -c 'import sys' 2>/dev/null; then return; fi
  rm -rf "$1"
  python3 -m venv "$1"
}

# Puts the package together in folder $1, of the module $2, as an installation has it.
python_package() {
  local file
  rm -rf "${1:?}/vicus"
  mkdir -p "$1/vicus/lib"
  for file in doors/python/package/vicus/*; do
    if [[ -f "$file" ]]; then ln -s "$(readlink -f "$file")" "$1/vicus/"; fi
  done
  ln -s "$(readlink -f "$2")" "$1/vicus/_vicus.abi3.so"
}

# The package by pytest, in a virtual environment of its own, with the frames of others if pip fetches them.
test_python() {
  if ! command -v python3 >/dev/null || ! python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))'; then
    skipped+=("python (python3 from 3.10 on, with venv)")
    return
  fi
  local folder="$target/python" python="$target/python/venv/bin/python"
  mkdir -p "$folder"
  if ! virtual_environment "$folder/venv" || ! "$python" -m pip install --quiet --disable-pip-version-check pytest mypy; then
    skipped+=("python (pytest and mypy)")
    return
  fi
  "$python" -m pip install --quiet --disable-pip-version-check -r doors/python/tests/frames.txt ||
    say "pip fetches no frames: their tests are left out"
  setup
  say "the package for Python"
  cargo build "${locked[@]}" --release -p vicus-python
  python_package "$folder/site" "$target/release/lib_vicus.so"
  (
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
    PYTHONPATH="$(readlink -f "$folder/site")"
    "$python" -m pytest -q -p no:cacheprovider ${PYTEST:-} doors/python/tests
    "$python" -m pytest -q -p no:cacheprovider --doctest-modules "$folder/site/vicus"
    # The annotations against the code, and those of the module against the module.
    "$python" -m mypy --strict --cache-dir "$folder/mypy" doors/python/package/vicus
    "$python" -m mypy.stubtest vicus._vicus
  )
}
