# Other systems, as far as a compiler can tell without them. Read by `dev`.
# shellcheck shell=bash

# The command with all that it stands on, without `vicus run`. The libraries for C, OpenMP and Qthreads are Linux's.
portable_crates=(
  vicus-{topology,trace,schedule,memory,kernels,disk,files,language,flow,rdf,sparql,sql,store,network}
  vicus-{os,fibres,machine,threads,sim} vicus vicus-{service,server,nodes,tables,view,cli}
)
portable_targets=(aarch64-apple-darwin x86_64-pc-windows-gnu)

# Type-checks them for macOS and Windows.
test_targets() {
  local one missing=() scratch outcome=0
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
      say "type check for $one: ${portable_crates[*]}"
      # Said here, because a shell whose status is asked for goes on after a command that failed.
      cargo check "${locked[@]}" --target "$one" "${portable_crates[@]/#/-p}" || fail "they do not build for $one"
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
