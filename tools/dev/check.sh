# All that a change must pass. Read by `dev`.
# shellcheck shell=bash

# Clippy, most tests, documentation and the demo after them share the release profile, so that what build scripts build (SQLite, Zstandard, ring) is built once.
check() {
  setup
  say "format"
  cargo fmt --all --check
  local workspace
  for workspace in fuzz bench; do
    cargo fmt --manifest-path "$workspace/Cargo.toml" --all --check
  done
  say "house rules"
  cargo test "${locked[@]}" --release -p vicus-tidy
  say "clippy"
  cargo clippy "${locked[@]}" --release --workspace --all-targets -- -D warnings
  # What is only there with debug assertions.
  cargo clippy "${locked[@]}" -p vicus-memory -p vicus-machine -p vicus-threads --all-targets -- -D warnings
  local suite skipped=()
  for suite in $checked_suites; do "test_$suite"; done
  if [[ ${#skipped[@]} -gt 0 ]]; then say "not run for want of programs: ${skipped[*]}"; fi
  say "documentation"
  # Pages of what is no longer there would be checked as well.
  rm -rf "$target/doc/vicus"
  RUSTDOCFLAGS="-D warnings" cargo doc "${locked[@]}" --release --no-deps --workspace
  check_facade
  if ! command -v mdbook >/dev/null; then
    # Without its search and its server, a minute.
    cargo install --quiet --locked mdbook --version 0.5.4 --no-default-features --root "$target/tools"
    PATH="$(readlink -f "$target/tools/bin"):$PATH"
  fi
  docs
  say "all checks passed"
}

# A type that stands in a signature of the crate `vicus` and that the crate does not export is linked to the crate that has it.
check_facade() {
  [[ -f "$target/doc/vicus/index.html" ]] || return 1
  local signatures='(?s)<(?:h[34] class="code-header"|pre class="rust item-decl")>.*?</(?:h[34]|pre)>' missing
  missing="$(grep -rhozP --include='*.html' "$signatures" "$target/doc/vicus" | tr '\0' '\n' |
    grep -oE 'href="[./]*vicus_[a-z]+/[^"#]*\.html' | sed 's/href="[./]*//' | sort -u)" || true
  if [[ -n "$missing" ]]; then
    say "types in signatures of the crate vicus that it does not export:"
    echo "$missing"
    return 1
  fi
}
