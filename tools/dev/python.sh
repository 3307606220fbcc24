# The package for Python: its tests, and what is released. Read by `dev`.
# shellcheck shell=bash

# The versions of glibc and of the processor's architecture that a wheel is for.
wheel_glibc=2.28

# The bytes that a wheel is to have, and those that none is released with.
wheel_aim=15000000
wheel_most=25000000

# Makes a virtual environment in folder $1, if there is none that works. Fails if Python can't.
virtual_environment() {
  # An interrupted one may have Python and no pip.
  if "$1/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
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

# The package by pytest, in a virtual environment of its own, with the frames of others if pip fetches them. Where
# nobody watches, a part that is left out for want of packages is a mistake.
test_python() {
  if ! command -v python3 >/dev/null || ! python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))'; then
    skipped+=("python (python3 from 3.10 on, with venv)")
    return
  fi
  local folder="$target/python" python="$target/python/venv/bin/python" install pyright=yes
  install=("$python" -m pip install --quiet --disable-pip-version-check)
  mkdir -p "$folder"
  if ! virtual_environment "$folder/venv" || ! "${install[@]}" -r doors/python/tests/tools.txt; then
    [[ -z "${CI:-}" ]] || fail "pip fetches neither pytest nor mypy"
    skipped+=("python (pytest and mypy)")
    return
  fi
  if ! "${install[@]}" -r doors/python/tests/frames.txt; then
    [[ -z "${CI:-}" ]] || fail "pip fetches no frames"
    skipped+=("frames of python (those in doors/python/tests/frames.txt)")
  fi
  # With its own Node.js, by which it runs.
  if ! "${install[@]}" 'pyright[nodejs]==1.1.414' || ! "$python" -m pyright --version >/dev/null 2>&1; then
    [[ -z "${CI:-}" ]] || fail "pip fetches no pyright, or it does not run"
    skipped+=("annotations of python by pyright (pip install pyright)")
    pyright=""
  fi
  setup
  say "the package for Python"
  cargo build "${locked[@]}" --release -p vicus-python
  python_package "$folder/site" "$target/release/lib_vicus.so"
  (
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
    PYTHONPATH="$(readlink -f "$folder/site")"
    # shellcheck disable=SC2086 # these are words
    "$python" -m pytest -q -p no:cacheprovider ${PYTEST:-} doors/python/tests
    "$python" -m pytest -q -p no:cacheprovider --doctest-modules "$folder/site/vicus"
    # The annotations against the code, and those of the module against the module.
    "$python" -m mypy --strict --cache-dir "$folder/mypy" doors/python/package/vicus
    "$python" -m mypy.stubtest vicus._vicus
    if [[ -n "$pyright" ]]; then "$python" -m pyright --pythonpath "$python" "$folder/site/vicus"; fi
  )
}

# Nodes and copies on a Ray cluster of three machines, all of them here, and the page of the book about it.
test_ray() {
  if ! command -v python3 >/dev/null || ! python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))'; then
    skipped+=("ray (python3 from 3.10 on, with venv)")
    return
  fi
  local folder="$target/python" python="$target/python/ray/bin/python"
  mkdir -p "$folder"
  if ! virtual_environment "$folder/ray" || ! "$python" -m pip install --quiet --disable-pip-version-check \
    -r doors/python/tests/tools.txt -r doors/python/tests/ray.txt; then
    skipped+=("ray (pip fetches those in doors/python/tests/ray.txt)")
    return
  fi
  setup
  say "networks and copies on Ray"
  cargo build "${locked[@]}" --release -p vicus-python
  python_package "$folder/site" "$target/release/lib_vicus.so"
  PYTHONPATH="$(readlink -f "$folder/site")" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider doors/python/tests/test_ray.py
}

# Makes what is released for Python: a wheel and a source distribution.
wheel() {
  local output=dist profile=dist here="" quick="" arguments=() triple folder="$target/python" made version size file
  triple="$(rustc -vV | sed -n 's/^host: //p')"
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --output)
        [[ -n "${2:-}" ]] || fail "--output takes a folder"
        output="$2"
        if [[ "$output" != /* ]]; then output="$caller_folder/$output"; fi
        shift 2
        ;;
      --here) here=yes && shift ;;
      --quick) quick=yes && profile=release && shift ;;
      *) fail "\`wheel\` has no option \`$1\`: there are --output DIR, --here for this system's glibc, and --quick" ;;
    esac
  done
  command -v python3 >/dev/null || fail "there is no python3 to build the wheel"
  setup
  mkdir -p "$folder" "$output"
  virtual_environment "$folder/wheels" || fail "Python has no venv (Debian: python3-venv)"
  "$folder/wheels/bin/python" -m pip install --quiet --disable-pip-version-check maturin ziglang cargo-zigbuild auditwheel ||
    fail "pip fetches no maturin, ziglang, cargo-zigbuild and auditwheel"
  PATH="$(readlink -f "$folder/wheels/bin"):$PATH"
  say "the libraries that \`vicus run\` loads"
  if [[ -n "$here" ]]; then
    cargo build "${locked[@]}" --profile "$profile" -p vicus-openmp -p vicus-malloc
    made="$target/$profile"
    arguments=(--compatibility linux)
  else
    with glibc
    link_for_glibc "$triple" "$wheel_glibc"
    cargo zigbuild "${locked[@]}" --profile "$profile" --target "$triple.$wheel_glibc" -p vicus-openmp -p vicus-malloc
    made="$target/$triple/$profile"
    arguments=(--zig --target "$triple" --compatibility "manylinux_${wheel_glibc/./_}")
  fi
  mkdir -p doors/python/package/vicus/lib
  for file in libvicus_omp.so libvicus_malloc.so; do
    strip --strip-unneeded -o "doors/python/package/vicus/lib/$file" "$made/$file"
  done
  say "the wheel"
  version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
  rm -f "$output/vicus-$version"-*.whl "$output/vicus-$version.tar.gz"
  maturin build "${locked[@]}" --profile "$profile" --compression-level 9 "${arguments[@]}" --out "$output"
  say "the source distribution"
  maturin sdist --out "$output"
  for file in "$output/vicus-$version"-*.whl; do
    size="$(stat -c %s "$file")"
    say "$file has $size bytes; the aim is $wheel_aim"
    # A wheel of the profile that is built soon is larger.
    [[ -n "$quick" || "$size" -le "$wheel_most" ]] || fail "$file has more than $wheel_most bytes"
    if [[ -z "$here" ]]; then auditwheel show "$file"; fi
    ls -l "$file"
  done
}

# What `./dev wheel` makes, in environments that have nothing else, without the repository and without a compiler: one
# for each CPython that is here. Then the source distribution, which is built in another folder.
test_wheel() {
  if ! command -v python3 >/dev/null; then
    skipped+=(wheel)
    return
  fi
  local folder crates maturin
  folder="$(mktemp -d)"
  crates="$(readlink -m "$target")"
  maturin="$(readlink -m "$target/python/wheels/bin")"
  (
    trap 'rm -rf "$folder"' EXIT
    wheel --here --quick --output "$folder/dist"
    cp tools/dev/wheel.py "$folder/"
    cd "$folder"
    local python found used="" name
    for name in python3 python3.1{0..9} "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/*/bin/python3; do
      found="$("$name" -c 'import sys, venv; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 10) else "")' \
        2>/dev/null)" || continue
      if [[ -z "$found" || " $used " == *" $found "* ]]; then continue; fi
      used="$used $found"
      say "the wheel by CPython $found"
      use_wheel "$name" "$folder/with-$found" dist/*.whl
    done
    say "the source distribution, built elsewhere"
    # Other crates than the repository's are those that were built for the wheel.
    CARGO_TARGET_DIR="$crates" MATURIN_PEP517_ARGS="--profile release --compatibility linux" PATH="$maturin:$PATH" \
      "$maturin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
      --wheel-dir "$folder/built" dist/*.tar.gz
    use_wheel python3 "$folder/with-built" built/*.whl without-libraries
  )
}

# Installs the wheel $3 into a new environment in folder $2 of the interpreter $1, and runs a program there, with further
# arguments. No compiler is found.
use_wheel() {
  "$1" -m venv "$2"
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$3"
  PATH="$2/bin" python wheel.py "${@:4}"
}
