# Test programs, two at once: one alone leaves a processor idle while its tests wait, or while its last one runs.
# Read by `dev`.
# shellcheck shell=bash

# Those that take longest: they begin first.
long_programs=(verbs programs store sparql sim service server rdf sql)

# Builds the test programs that `cargo test` would run with these arguments, runs them, and then the documentation's.
run_programs() {
  run_programs_alone "" "$@" || return
  cargo test "${locked[@]}" "$@" --doc
}

# The programs without the documentation's tests. Of each, the tests with $1 in their names; all if it is empty.
run_programs_alone() {
  local folder outcome=0 filter="$1"
  shift
  folder="$(mktemp -d)"
  # In a subshell, so that its folder goes away whatever happens.
  (
    trap 'rm -rf "$folder"' EXIT
    # A shell whose status is asked for goes on after a command that failed.
    cargo test "${locked[@]}" "$@" --no-run --message-format=json-render-diagnostics >"$folder/built" || exit 1
    list_programs <"$folder/built" >"$folder/programs"
    [[ -s "$folder/programs" ]] || fail "cargo has built no test program"
    # As many tests at once as there are processors.
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((($(nproc) + 1) / 2))}"
    LD_LIBRARY_PATH="$(rustc --print sysroot)/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LD_LIBRARY_PATH folder filter
    export -f run_program
    # shellcheck disable=SC2016 # the inner shell reads these
    xargs -d '\n' -P 2 -n 1 bash -c 'run_program "${1%%:*}" "${1#*:}"' _ <"$folder/programs" || true
    if [[ -s "$folder/failed" ]]; then
      printf '\nThese failed:\n' && cat "$folder/failed"
      exit 1
    fi
    printf '\n%s programs passed\n' "$(wc -l <"$folder/programs")"
  ) || outcome=$?
  return "$outcome"
}

# From cargo's messages: the folder of a package, a colon, and a program of it, a line each, the longest ones first.
list_programs() {
  local test='"profile":\{[^}]*"test":true\}'
  sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo\.toml".*'"$test"'.*"executable":"([^"]*)".*/\1:\2/p' |
    awk -v long="${long_programs[*]}" '
      BEGIN { count = split(long, names, " ") }
      {
        name = $0; sub(/.*\//, "", name); sub(/-[0-9a-f]+$/, "", name)
        place = count + 1
        for (n = count; n > 0; n--) if (names[n] == name) place = n
        print place, $0
      }' | sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

# One program, in the folder of its package, with cargo's variable for it. Its output is printed as a whole.
run_program() {
  local package="$1" program="$2" said TIMEFORMAT='took %R s, and %U + %S s of processors'
  said="$(mktemp -p "$folder")"
  if { time (cd "$package" && CARGO_MANIFEST_DIR="$package" "$program" ${filter:+"$filter"}); } >"$said" 2>&1 </dev/null; then
    printf '\n     Running %s\n' "$program" && cat "$said"
    # Nothing runs it again there, and all of them together are half of what is built.
    if [[ -n "${CI:-}" ]]; then rm "$program"; fi
  else
    # In one piece: another program may end now.
    printf '\n     FAILED %s\n%s\n' "$program" "$(cat "$said")"
    echo "$program" >>"$folder/failed"
  fi
}
