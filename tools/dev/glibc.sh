# Linking for a glibc that is older than this system's. Read by `dev`.
# shellcheck shell=bash

# Makes a linker for the target $1 and glibc $2, and tells cargo of it: gcc with LLVM's linker, which comes with the Rust
# toolchain, against zig's stubs of that glibc. zig's own linker takes one script of versions where the OpenMP library
# has two (without rustc's it exports its inside, and so keeps all of it), and knows neither `-z initfirst` nor the
# folding of equal functions.
link_for_glibc() {
  local triple="$1" glibc="$2" machine="${1%%-*}" compiler=gcc zig=(python3 -m ziglang) folder lld file found linker
  if command -v zig >/dev/null; then zig=(zig); fi
  "${zig[@]}" version >/dev/null 2>&1 ||
    fail "there is no zig, which has the stubs of glibc $glibc: \`pip install ziglang\`"
  if [[ "$machine" != "$(uname -m)" ]]; then compiler="$machine-linux-gnu-gcc"; fi
  command -v "$compiler" >/dev/null || fail "there is no $compiler to link with"
  lld="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
  [[ -x "$lld/ld.lld" ]] || fail "the Rust toolchain has no $lld/ld.lld"
  folder="$(readlink -m "$target/glibc-$glibc-$machine")"
  if [[ ! -f "$folder/libc.so" ]]; then
    rm -rf "$folder"
    mkdir -p "$folder/cache"
    echo 'int main(void) { return 0; }' >"$folder/main.c"
    # zig makes the stubs as it links a program, in its cache.
    ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache" "${zig[@]}" cc \
      -target "$machine-linux-gnu.$glibc" -O2 -fno-sanitize=all -fPIE -pie -o "$folder/main" "$folder/main.c"
    for file in Scrt1.o libc_nonshared.a {libc,libm}.so.6 {libld,libdl}.so.2 libpthread.so.0 {librt,libutil}.so.1; do
      found="$(find "$folder/cache" -name "$file" -print -quit)"
      [[ -n "$found" ]] || fail "zig made no $file of glibc $glibc"
      cp "$found" "$folder"
      case "$file" in
        # Programs get these by the linker's script.
        libc.so.6 | libld.so.2 | *.o | *.a) ;;
        *) ln -s "$file" "$folder/${file%.so.*}.so" ;;
      esac
    done
    rm -rf "$folder/cache" "$folder/main" "$folder/main.c"
    echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )" >"$folder/libc.so"
  fi
  # This system's libgcc_s asks for its own glibc; the one beside the older glibc has the same functions.
  cat >"$folder/gcc" <<END
#!/bin/sh
exec $compiler -fuse-ld=lld -B"$lld" -B"$folder" -L"$folder" -Wl,--icf=all -Wl,--allow-shlib-undefined "\$@"
END
  chmod +x "$folder/gcc"
  linker="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_LINKER"
  export "$linker=$folder/gcc"
}
