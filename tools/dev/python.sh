# The package for Python: its tests, and what is released. Read by `dev`.
# shellcheck shell=bash

# The versions of glibc and of the processor's architecture that a wheel is for.
wheel_glibc=2.28

# The bytes that a wheel is to have, and those that none is released with.
wheel_aim=15000000
wheel_most=25000000

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
    # shellcheck disable=SC2086 # these are words
    "$python" -m pytest -q -p no:cacheprovider ${PYTEST:-} doors/python/tests
    "$python" -m pytest -q -p no:cacheprovider --doctest-modules "$folder/site/vicus"
    # The annotations against the code, and those of the module against the module.
    "$python" -m mypy --strict --cache-dir "$folder/mypy" doors/python/package/vicus
    "$python" -m mypy.stubtest vicus._vicus
  )
}

# Makes what is released for Python: a wheel and a source distribution.
wheel() {
  local output=dist profile=wheel here="" quick="" arguments=() triple folder="$target/python" made version size file
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
    VICUS_WITHOUT_INITFIRST=yes cargo zigbuild "${locked[@]}" --profile "$profile" --target "$triple.$wheel_glibc" \
      -p vicus-openmp -p vicus-malloc
    made="$target/$triple/$profile"
    python3 tools/dev/initfirst.py "$made/libvicus_omp.so"
    arguments=(--zig --target "$triple" --compatibility "manylinux_${wheel_glibc/./_}")
  fi
  mkdir -p doors/python/package/vicus/lib
  for file in libvicus_omp.so libvicus_malloc.so; do
    strip --strip-unneeded -o "doors/python/package/vicus/lib/$file" "$made/$file"
  done
  say "the wheel"
  version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
  rm -f "$output/vicus-$version"-*.whl "$output/vicus-$version.tar.gz"
  maturin build "${locked[@]}" --profile "$profile" "${arguments[@]}" --out "$output"
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

# What `./dev wheel` makes, in an environment that has nothing else, and without the repository.
test_wheel() {
  if ! command -v python3 >/dev/null; then
    skipped+=(wheel)
    return
  fi
  local folder
  folder="$(mktemp -d)"
  (
    trap 'rm -rf "$folder"' EXIT
    wheel --here --quick --output "$folder/dist"
    say "the wheel, used without the repository"
    python3 -m venv "$folder/empty"
    "$folder/empty/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$folder"/dist/*.whl
    cd "$folder"
    # No compiler is found there.
    PATH="$folder/empty/bin" python - <<'END'
import importlib.metadata, subprocess, sys
import vicus
assert "site-packages" in vicus.__file__, vicus.__file__
db = vicus.memory()
assert db.load(data="<http://e/a> <http://e/p> 1 .") == 1
assert db.query("SELECT ?o { ?s ?p ?o }").fetchall()[0].o.value == 1
said = subprocess.run(["vicus", "--version"], capture_output=True, text=True, check=True).stdout
assert said == f"vicus {importlib.metadata.version('vicus')}\n", said
assert not importlib.metadata.requires("vicus"), importlib.metadata.requires("vicus")
(store,) = importlib.metadata.entry_points(group="rdf.plugins.store", name="Vicus")
assert store.value == "vicus.rdflib:Store"
help = subprocess.run(["vicus", "run", "--help"], capture_output=True, text=True, check=True).stdout
assert "OpenMP" in help
done = subprocess.run(["vicus", "run", sys.executable, "-c", "print('ran')"], capture_output=True, text=True)
assert done.stdout == "ran\n", done
END
  )
}
