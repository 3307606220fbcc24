# The suites of tests, a function for each. Read by `dev`.
# shellcheck shell=bash

# Optimised code, because compilers make mistakes and unsafe code has some that only show there, and because users have it:
# one of the grammar's loops lost a store. The rules of the house are not what one builds upon; the binary is there because the
# dependencies then have the same features as for `./dev demo`, and are built once for both.
test_release() {
  say "tests, examples, documentation tests, optimised, without debug assertions"
  run_programs --release --workspace --exclude vicus-tidy --exclude vicus-python
}

# Removes what a suite alone has built, where each suite runs once: the disk needs room for the largest, not for all.
leave() {
  if [[ -n "${CI:-}" ]]; then rm -rf "${target:?}/$1"; fi
}

# The crates with most of the unsafe code, on which all others stand, and those that compute with numbers from users' bytes.
# All crates with these checks would be built a second time, a third of the checks' time.
asserted=(topology trace schedule memory kernels disk files flow fibres machine threads openmp qthreads rdf store)

test_assertions() {
  say "tests of ${asserted[*]} with debug assertions and checks of overflow"
  run_programs "${asserted[@]/#/-pvicus-}" --features vicus-flow/arrow
  leave debug
}

test_workspace() {
  say "tests of all crates with debug assertions and checks of overflow"
  run_programs --workspace --exclude vicus-python
}

# The packages that have loom models, found by the models.
loom_packages() {
  local manifest
  { grep -rlE 'cfg\(all\((loom, test|test, loom)\)\)' --include='*.rs' core worlds doors || true; } |
    sed 's|/src/.*||' | sort -u | while read -r folder; do
      manifest="$folder/Cargo.toml"
      sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1
    done
}

test_loom() {
  local packages=() name
  for name in $(loom_packages); do packages+=(-p "$name"); done
  say "loom models: ${packages[*]:-none}"
  if [[ ${#packages[@]} -eq 0 ]]; then return; fi
  # A folder of their own keeps the flag from rebuilding the rest.
  (
    export RUSTFLAGS="--cfg loom"
    run_programs_alone loom --profile loom --target-dir "$target/loom" "${packages[@]}" --lib
  )
  leave loom
}

# More random networks than every build runs; NETWORKS=N asks for another number.
test_networks() {
  say "${NETWORKS:-10000} random networks for each rule, in the sequential world and on threads under all strategies"
  PROPTEST_CASES="${NETWORKS:-10000}" cargo test "${locked[@]}" --release -p vicus-flow --test flow random_networks
  PROPTEST_CASES="${NETWORKS:-10000}" cargo test "${locked[@]}" --release -p vicus-machine --test runtime random_networks
}

test_miri() {
  if ! cargo +nightly miri --version >/dev/null 2>&1; then
    skipped+=(miri)
    return
  fi
  say "unsafe code under Miri"
  # Tests of files are tests of the system.
  MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" \
    cargo +nightly miri test "${locked[@]}" --target-dir "$target/miri" -p vicus-memory --lib --tests
  MIRIFLAGS="${MIRIFLAGS:-}" cargo +nightly miri test "${locked[@]}" --target-dir "$target/miri" -p vicus-flow --lib \
    block:: builder:: column:: envelope:: nulls:: room::
}

# Answers read back by Python's library, and by rdflib and pyarrow if pip fetches them.
test_readers() {
  if ! command -v python3 >/dev/null; then
    skipped+=(readers)
    return
  fi
  build_vicus release
  say "answers in every format, read by Python, rdflib and pyarrow"
  local python=python3 folder
  folder="$(mktemp -d)"
  # In a subshell, so that its folder goes away whatever happens.
  (
    trap 'rm -rf "$folder"' EXIT
    if python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install --quiet rdflib pyarrow; then
      python="$folder/venv/bin/python"
    else
      say "pip fetches neither rdflib nor pyarrow: Python's own readers alone"
    fi
    "$python" tools/dev/readers.py "$target/release/vicus" "$folder"
    if [[ "$python" != python3 ]] && "$folder/venv/bin/pip" install --quiet perfetto; then
      "$python" tools/dev/perfetto_form.py "$target/release/vicus" "$folder"
    else
      say "pip fetches no classes of Perfetto's schema: its form is not read back"
    fi
  )
}

# The page in a browser, with a server that answers it, and files of `vicus trace view` from the disk.
test_page() {
  local browser="${CHROMIUM:-}" port url
  if [[ -z "$browser" ]]; then browser="$(command -v chromium chromium-headless-shell | head -n 1 || true)"; fi
  if ! command -v npm >/dev/null || [[ -z "$browser" ]]; then
    skipped+=(page)
    return
  fi
  build_vicus release
  say "the server's page in $browser"
  (cd doors/server/page && npm ci --silent && npm test --silent)
  scratch="$(mktemp -d)"
  trap '[[ -z "${server:-}" ]] || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT
  "$target/release/vicus" generate sp2b --triples 250000 --output "$scratch/sp2b.nt"
  "$target/release/vicus" serve --data "$scratch/sp2b.nt" --token page --bind 127.0.0.1:0 >"$scratch/said" &
  server=$!
  until grep -q 'http://' "$scratch/said"; do
    kill -0 "$server" || fail "the server has ended"
    sleep 0.2
  done
  url="$(grep -o 'http://[^ ]*' "$scratch/said")"
  (cd doors/server/page && CHROMIUM="$browser" VICUS_URL="$url" npm run --silent test:browser)
  kill "$server"
  wait "$server"
  server=
  say "the OpenMP runtime, for the page of a program"
  cargo build "${locked[@]}" --release -p vicus-openmp
  say "pages of recorded runs in $browser"
  (
    vicus="$(realpath "$target/release/vicus")"
    cd doors/view/viewer
    npm ci --silent
    npm test --silent
    CHROMIUM="$browser" VICUS="$vicus" npm run --silent test:browser
    firefox="${FIREFOX:-$(command -v firefox-esr firefox | head -n 1 || true)}"
    if [[ -z "$firefox" ]]; then
      say "no Firefox is installed: pages of recorded runs are not looked at in it"
    else
      say "pages of recorded runs in $firefox"
      BROWSER=firefox FIREFOX="$firefox" VICUS="$vicus" npm run --silent test:browser
    fi
  )
}

# OpenMP programs, and the library with all that it is made of, under ThreadSanitizer: three strategies of different queues, with as many threads
# as there may be PUs and with more.
test_tsan() {
  local host runtime clang="" folder="$target/tsan" program strategy threads
  host="$(rustc -vV | sed -n 's/^host: //p')"
  runtime="$(rustc +nightly --print sysroot 2>/dev/null || true)/lib/rustlib"
  for program in clang-22 clang-21 clang-20 clang-19 clang; do
    if [[ -z "$clang" ]] && command -v "$program" >/dev/null; then clang="$program"; fi
  done
  if [[ ! -d "$runtime/src" || ! -f "$runtime/$host/lib/librustc-nightly_rt.tsan.a" || -z "$clang" ]]; then
    skipped+=(tsan)
    return
  fi
  say "OpenMP programs under ThreadSanitizer"
  RUSTFLAGS="-Zsanitizer=thread" CARGO_PROFILE_RELEASE_DEBUG=1 cargo +nightly build "${locked[@]}" -Zbuild-std \
    --target "$host" --target-dir "$folder" --release -p vicus-openmp
  folder="$(readlink -f "$folder/$host/release")"
  for program in loops regions cancel taskloops tasks; do
    # Without optimisation: a load that clang has moved to where its program has none is no race of the program.
    "$clang" -O0 -g -w -fopenmp -fsanitize=thread -c "doors/openmp/tests/programs/$program.c" -o "$folder/$program.o"
    c++ -rdynamic "$folder/$program.o" -Wl,--whole-archive "$runtime/$host/lib/librustc-nightly_rt.tsan.a" \
      -Wl,--no-whole-archive -L "$folder" -lvicus_omp -Wl,-rpath,"$folder" -lpthread -ldl -lm -lrt -o "$folder/$program"
    for strategy in las steal footprint; do
      for threads in 2 3 8; do
        OMP_CANCELLATION=true OMP_NUM_THREADS="$threads" VICUS_STRATEGY="$strategy" "$folder/$program" >"$folder/said" 2>&1 ||
          fail "$program, $strategy, $threads threads: $(grep -m 1 SUMMARY "$folder/said" || tail -n 1 "$folder/said")"
      done
    done
  done
}

# The C++ headers, and what `install` puts in place.
test_cpp() {
  say "C++ headers"
  local outcome=0
  include/tests/run || outcome=$?
  # 77 says that there is no compiler.
  if [[ "$outcome" -eq 77 ]]; then
    skipped+=(cpp)
  elif [[ "$outcome" -ne 0 ]]; then
    fail "a test of the C++ headers failed"
  fi
}

# Our readers of machines beside hwloc's library.
test_hwloc() {
  if ! command -v pkg-config >/dev/null || ! pkg-config --exists 'hwloc >= 2.5'; then
    skipped+=(hwloc)
    return
  fi
  say "machines as hwloc sees them"
  cargo test "${locked[@]}" --release -p vicus-os --features hwloc --test hwloc
}

# Hostile clients and input, against the binary as users have it.
test_attack() {
  say "an attack on vicus serve and vicus"
  # shellcheck disable=SC2086 # these are words
  cargo test "${locked[@]}" --release -p vicus-cli --test attack -- ${ATTACK:-}
}

# Copies of a store, under many schedules of messages, crashes and promotions.
# Archives in a bucket of moto, a server for tests that answers as S3 does.
test_objects() {
  if ! command -v python3 curl >/dev/null; then
    skipped+=(objects)
    return
  fi
  say "archives of stores in a bucket"
  cargo clippy "${locked[@]}" --release -p vicus-service -p vicus-cli --features vicus-cli/object-storage --all-targets -- -D warnings
  (
    folder="$(mktemp -d)"
    trap '[[ -z "${moto:-}" ]] || kill "$moto" 2>/dev/null; rm -rf "$folder"' EXIT
    python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install --quiet "moto[server]"
    "$folder/venv/bin/moto_server" -H 127.0.0.1 -p 0 >"$folder/said" 2>&1 &
    moto=$!
    until grep -q 'Running on http' "$folder/said"; do
      kill -0 "$moto" || fail "moto has ended: $(cat "$folder/said")"
      sleep 0.2
    done
    AWS_ENDPOINT_URL="$(grep -o 'http://127[^ ]*' "$folder/said" | head -n 1)"
    export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
    curl -fsS -o /dev/null -X PUT "$AWS_ENDPOINT_URL/backups"
    cargo test "${locked[@]}" --release -p vicus-cli --features object-storage --test verbs archived_to_a_bucket
  )
}

test_nodes() {
  say "queries over processes that are killed"
  VICUS_PEERS_KILLS="${KILLS:-200}" cargo test "${locked[@]}" --release -p vicus-cli --test verbs \
    a_node_that_is_killed_leaves -- --nocapture
  say "networks over processes that are killed"
  NODES_ROUNDS="${KILLS:-200}" cargo test "${locked[@]}" --release -p vicus-cli --test verbs run_again -- --nocapture
}

test_copies() {
  say "copies of a store in a simulated network"
  VICUS_SEEDS="${VICUS_SEEDS:-10000}" cargo test "${locked[@]}" --release -p vicus-store --test copies -- --nocapture
  if ! command -v python3 ip >/dev/null || ! unshare -Urnm true 2>/dev/null; then
    skipped+=("copies in networks of their own (python3, iproute2, user namespaces)")
    return
  fi
  build_vicus release
  say "servers that are killed and cut off"
  unshare -Urnm python3 tools/dev/cuts.py "$(realpath "$target/release/vicus")" "${CUTS:-200}" "${CUTS_SEED:-$RANDOM}"
}

# The crates for others, `vicus` and those it stands on: each is packed, unpacked, and built from the other packages.
test_crates() {
  local packages=() manifest
  for manifest in $(grep -lE '^publish = true$' core/*/Cargo.toml worlds/*/Cargo.toml doors/*/Cargo.toml); do
    packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)")
  done
  say "crates as they are published: ${packages[*]}"
  # Without a network as well: what `cargo publish --dry-run` does but for a look at the registry's index.
  cargo package --locked --offline --allow-dirty "${packages[@]}"
}

# What `./dev dist` makes, used by one who has nothing else of the repository.
test_dist() {
  local missing=() program
  for program in gcc pkg-config unshare; do command -v "$program" >/dev/null || missing+=("$program"); done
  if [[ ${#missing[@]} -gt 0 ]]; then
    skipped+=("dist (${missing[*]})")
    return
  fi
  say "packages"
  # Packages of other versions are not what is tested.
  rm -rf "${target:?}/packages/test"
  (
    with dist
    dist --here --quick --output "$(readlink -f "$target")/packages/test"
  )
  # The profile that is built soon makes a larger command.
  tools/dev/use-packages "$target/packages/test" 68000000
}
