# Fuzzing. Read by `dev`.
# shellcheck shell=bash

fuzz() {
  local targets=() seconds=60 name
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --seconds)
        [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || fail "--seconds takes a whole number from 1"
        seconds="$2"
        shift 2
        ;;
      -*) fail "\`fuzz\` has no option \`$1\`; there is --seconds" ;;
      *)
        [[ -f "fuzz/fuzz_targets/$1.rs" ]] ||
          fail "no fuzz target is called \`$1\`; there are: $(basename -a -s .rs fuzz/fuzz_targets/*.rs | xargs)"
        targets+=("$1")
        shift
        ;;
    esac
  done
  if [[ ${#targets[@]} -eq 0 ]]; then
    for name in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$name" .rs)"); done
  fi
  setup
  command -v c++ >/dev/null || fail "the fuzzer's library is C++: install a C++ compiler (g++)"
  command -v rustup >/dev/null || fail "fuzzing needs a nightly toolchain, which https://rustup.rs installs"
  cargo +nightly --version >/dev/null 2>&1 ||
    fail "fuzzing needs a nightly toolchain: \`rustup toolchain install nightly\`"
  command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
  for name in "${targets[@]}"; do
    say "fuzzing $name for $seconds seconds"
    # What is found goes to fuzz/corpus; fuzz/seeds is where it begins.
    mkdir -p "fuzz/corpus/$name"
    local seeds=()
    [[ -d "fuzz/seeds/$name" ]] && seeds=("fuzz/seeds/$name")
    cargo +nightly fuzz run "$name" "fuzz/corpus/$name" "${seeds[@]}" -- -max_total_time="$seconds" -max_len=8192
  done
  say "nothing found: ${targets[*]}"
}
