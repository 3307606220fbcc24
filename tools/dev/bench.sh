# Benchmarks. Read by `dev`.
# shellcheck shell=bash

# A benchmark with peers; it needs neither a machine's description nor data.
bench_beside_peers() {
  local what="$1"
  shift
  check_toolchain
  say "building the peers"
  cargo build "${locked[@]}" --release --manifest-path "bench/$what/Cargo.toml"
  "${CARGO_TARGET_DIR:-bench/target}/release/vicus-bench-$what" "$@"
}

bench() {
  [[ $# -gt 0 ]] || fail "which one? \`./dev bench --help\` lists them"
  local name="$1"
  shift
  if [[ "$name" =~ ^(containers|tasks)$ ]]; then
    bench_beside_peers "$name" "$@"
    return
  fi
  if [[ "$name" == threads ]]; then
    setup
    say "building the library with Qthreads' interface"
    cargo build "${locked[@]}" --profile dist -p vicus-qthreads
    bench_beside_peers threads --library "$target/dist/libvicus_qthreads.so" "$@"
    return
  fi
  if [[ "$name" == memory ]]; then
    bench_beside_peers containers memory "$@"
    return
  fi
  if [[ "$name" == openmp ]]; then
    setup
    say "building the OpenMP runtime"
    cargo build "${locked[@]}" --profile dist -p vicus-openmp
    bench_beside_peers openmp --library "$target/dist/libvicus_omp.so" "$@"
    return
  fi
  if [[ "$name" == real ]]; then
    setup
    command -v python3 >/dev/null || fail "real programs are run by Python: install it (Debian: python3, python3-venv)"
    say "building the OpenMP runtime"
    cargo build "${locked[@]}" --profile dist -p vicus-openmp
    bench/openmp/real --library "$target/dist/libvicus_omp.so" --folder "$target/bench-real" "$@"
    return
  fi
  if [[ "$name" == python ]]; then
    setup
    command -v python3 >/dev/null || fail "the package for Python is measured by Python: install it (Debian: python3-venv)"
    with python
    say "building the package for Python"
    cargo build "${locked[@]}" --profile dist -p vicus-python
    mkdir -p "$target/python"
    virtual_environment "$target/python/peers" || fail "Python has no venv (Debian: python3-venv)"
    "$target/python/peers/bin/python" -m pip install --quiet --disable-pip-version-check -r bench/python/peers.txt ||
      fail "pip fetches no peers"
    python_package "$target/python/measured" "$target/dist/lib_vicus.so"
    PYTHONPATH="$(readlink -f "$target/python/measured")" "$target/python/peers/bin/python" bench/python/measure.py \
      --queries doors/cli/queries/sp2b "$@"
    return
  fi
  if [[ "$name" =~ ^(words|groups)$ ]]; then
    setup
    command -v python3 >/dev/null || fail "the peers are packages of Python: install it (Debian: python3-venv)"
    with python
    local example=word_count
    if [[ "$name" == groups ]]; then example=group_join; fi
    say "building the example"
    cargo build "${locked[@]}" --profile dist -p vicus --example "$example"
    mkdir -p "$target/python"
    virtual_environment "$target/python/peers" || fail "Python has no venv (Debian: python3-venv)"
    "$target/python/peers/bin/python" -m pip install --quiet --disable-pip-version-check -r bench/python/peers.txt ||
      fail "pip fetches no peers"
    "$target/python/peers/bin/python" "bench/python/$name.py" --program "$target/dist/examples/$example" "$@"
    return
  fi
  if [[ "$name" == mixes ]]; then
    check_toolchain
    say "building Oxigraph"
    cargo build "${locked[@]}" --release --manifest-path bench/Cargo.toml --bin vicus-bench-mixes
    "${CARGO_TARGET_DIR:-bench/target}/release/vicus-bench-mixes" "$@"
    return
  fi
  build_vicus dist
  if [[ "$name" == view ]]; then
    command -v npm >/dev/null || fail "pages are looked at by Node.js: install it with npm (Debian: nodejs, npm)"
    local vicus
    vicus="$(realpath "$target/dist/vicus")"
    (cd doors/view/viewer && npm ci --silent && VICUS="$vicus" node test/bench.js "$@")
    return
  fi
  # Benchmarks that ask queries generate a million triples, unless they are told what to ask.
  if [[ "$name" =~ ^(demo|changed|concurrent|allocator|sparql)$ && " $* " != *" --data "* ]]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    "$target/dist/vicus" generate sp2b --triples 1000000 --output "$scratch/sp2b.nt"
    set -- --data "$scratch/sp2b.nt" "$@"
  fi
  local triples=1000000
  if [[ "$name" =~ ^(adhoc|store)$ && "${1:-}" == --triples ]]; then
    triples="${2:-}"
    shift 2
  fi
  if [[ "$name" == store ]]; then
    command -v c++ >/dev/null || fail "RocksDB is C++: install a C++ compiler (Debian: g++)"
    say "building the peers; RocksDB takes minutes the first time, and needs libclang (Debian: libclang-dev)"
    cargo build "${locked[@]}" --release --manifest-path bench/Cargo.toml --features rocksdb --bin vicus-bench-store
    if [[ " $* " != *" --data "* ]]; then
      scratch="$(mktemp -d)"
      trap 'rm -rf "$scratch"' EXIT
      "$target/dist/vicus" generate sp2b --triples "$triples" --output "$scratch/sp2b.nt"
      set -- --data "$scratch/sp2b.nt" "$@"
    fi
    "${CARGO_TARGET_DIR:-bench/target}/release/vicus-bench-store" "$@"
    return
  fi
  if [[ "$name" == server ]]; then
    say "building the load generator"
    cargo build "${locked[@]}" --release --manifest-path bench/server/Cargo.toml
    "${CARGO_TARGET_DIR:-bench/target}/release/vicus-bench-server" --vicus "$target/dist/vicus" "$@"
    return
  fi
  if [[ "$name" == adhoc ]]; then
    if [[ " $* " != *" --data "* ]]; then
      scratch="$(mktemp -d)"
      trap 'rm -rf "$scratch"' EXIT
      "$target/dist/vicus" generate sp2b --triples "$triples" --output "$scratch/sp2b.nt"
      set -- --data "$scratch/sp2b.nt" "$@"
    fi
    set -- --queries doors/cli/queries/adhoc --peers oxigraph --terms "$@"
  fi
  if [[ "$name" == shop && " $* " != *" --data "* ]]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    "$target/dist/vicus" generate shop --products 15300 --output "$scratch/shop.nt"
    set -- --data "$scratch/shop.nt" --queries doors/cli/queries/shop "$@"
  fi
  if [[ "$name" =~ ^(sparql|shop|adhoc)$ ]]; then
    # Beside its peers, in a workspace that ordinary builds never touch.
    say "building the peers"
    cargo build "${locked[@]}" --release --manifest-path bench/Cargo.toml --bin vicus-bench
    "${CARGO_TARGET_DIR:-bench/target}/release/vicus-bench" "$@"
  else
    "$target/dist/vicus" bench "$name" "$@"
  fi
}
