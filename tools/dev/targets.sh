# Other systems, as far as a compiler can tell without them. Read by `dev`.
# shellcheck shell=bash

# The crates that know of no system, and the simulator; on Unix also the readers of tables, which read files at places.
# Threads, pages and the command are Linux's.
portable_crates=(topology trace schedule memory kernels disk files language flow rdf sparql sql store sim)
portable_targets=(aarch64-apple-darwin x86_64-pc-windows-gnu)

# Type-checks them for macOS and Windows, and holds that the first crate of Linux's own says so.
test_targets() {
  local one crates missing=() scratch outcome=0
  for one in "${portable_targets[@]}"; do
    [[ -d "$(rustc --print sysroot)/lib/rustlib/$one" ]] || missing+=("rustup target add $one")
  done
  # Crates below carry assembly and C; zig compiles these for all systems.
  python3 -m ziglang version >/dev/null 2>&1 || missing+=("pip install ziglang")
  if [[ ${#missing[@]} -gt 0 ]]; then
    skipped+=("targets (${missing[*]})")
    return
  fi
  scratch="$(mktemp -d)"
  # In a subshell, so that its folder goes away whatever happens.
  (
    trap 'rm -rf "$scratch"' EXIT
    write_zig_compiler "$scratch/darwin" aarch64-macos
    write_zig_compiler "$scratch/windows" x86_64-windows-gnu
    export CC_aarch64_apple_darwin="$scratch/darwin" CC_x86_64_pc_windows_gnu="$scratch/windows"
    for one in "${portable_targets[@]}"; do
      crates=("${portable_crates[@]}")
      if [[ "$one" == *-apple-* ]]; then crates+=(tables); fi
      say "type check for $one: ${crates[*]}"
      # Said here, because a shell whose status is asked for goes on after a command that failed.
      cargo check "${locked[@]}" --target "$one" "${crates[@]/#/-pvicus-}" || fail "they do not build for $one"
      if cargo check "${locked[@]}" --target "$one" -p vicus-os >"$scratch/said" 2>&1; then
        fail "vicus-os builds for $one: its message, and this check, are out of date"
      fi
      grep -q '^error: vicus-os is for Linux' "$scratch/said" || fail "for $one, vicus-os says: $(head -n 20 "$scratch/said")"
    done
  ) || outcome=$?
  return "$outcome"
}

# A C compiler for a target of zig's, without the options by which others are told of a target.
write_zig_compiler() {
  cat >"$1" <<END
#!/usr/bin/env bash
arguments=()
while [[ \$# -gt 0 ]]; do
  case "\$1" in
    --target=* | -mmacosx-version-min=* | -m64) ;;
    -arch) shift ;;
    *) arguments+=("\$1") ;;
  esac
  shift
done
exec python3 -m ziglang cc -target $2 "\${arguments[@]}"
END
  chmod +x "$1"
}
