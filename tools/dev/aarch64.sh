# AArch64 Linux, cross-compiled and run by qemu-user. Read by `dev`.
# shellcheck shell=bash

# The crates whose unit tests run: core and its worlds, and the doors for C, OpenMP and Qthreads.
aarch64_crates=(topology trace schedule memory kernels disk files flow language rdf store network sparql sql
  fibres os machine threads openmp qthreads c)

aarch64=aarch64-unknown-linux-gnu

# Sets what cargo needs to build for AArch64: compilers, a linker, and the program that runs what is built.
for_aarch64() {
  local linker
  # GNU's linker does not take the script of versions beside rustc's own; LLVM's does, and comes with the toolchain.
  linker="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
  export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-Clink-arg=-fuse-ld=lld -Clink-arg=-B$linker"
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L /usr/aarch64-linux-gnu"
}

# Unit tests under qemu-user, and programs of gcc and clang on the OpenMP library.
test_aarch64() {
  local missing=() program emulator=""
  for program in qemu-aarch64 qemu-aarch64-static; do
    if [[ -z "$emulator" ]] && command -v "$program" >/dev/null; then emulator="$program"; fi
  done
  [[ -n "$emulator" ]] || missing+=(qemu-user)
  command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
  [[ -f /usr/aarch64-linux-gnu/include/stdio.h ]] || missing+=(libc6-dev-arm64-cross)
  [[ -d "$(rustc --print sysroot)/lib/rustlib/$aarch64" ]] || missing+=("rustup target add $aarch64")
  if [[ ${#missing[@]} -gt 0 ]]; then
    skipped+=("aarch64 (${missing[*]})")
    return
  fi
  for_aarch64
  say "unit tests for AArch64 under $emulator: ${aarch64_crates[*]}"
  # The emulator knows neither memory policies nor performance counters; tests of these leave themselves out.
  RUST_TEST_THREADS="$(nproc)" cargo test "${locked[@]}" --release --target "$aarch64" --lib \
    "${aarch64_crates[@]/#/-pvicus-}"
  say "OpenMP programs for AArch64"
  aarch64_programs
}

aarch64_programs() {
  local from built folder compiler program strategy said
  built="$(readlink -f "$target/$aarch64/release")"
  folder="$target/aarch64-programs"
  mkdir -p "$folder"
  cargo build "${locked[@]}" --release --target "$aarch64" -p vicus-openmp
  for compiler in aarch64-linux-gnu-gcc clang; do
    if ! command -v "$compiler" >/dev/null; then
      say "left out: programs of $compiler for AArch64"
      continue
    fi
    for program in words regions loops tasks taskloops; do
      from="doors/openmp/tests/programs/$program.c"
      # The library is linked in the place of the compiler's own: gcc's is for this processor, clang's is not there.
      if [[ "$compiler" == clang ]]; then
        if ! clang --target=aarch64-linux-gnu -O1 -w -fopenmp -I include -c "$from" -o "$folder/$program.o" 2>/dev/null; then
          say "left out: $program, which this clang is too old for"
          continue
        fi
      else
        aarch64-linux-gnu-gcc -O1 -w -fopenmp -I include -c "$from" -o "$folder/$program.o"
      fi
      aarch64-linux-gnu-gcc -rdynamic "$folder/$program.o" -L "$built" -lvicus_omp -lpthread -lm -o "$folder/$program"
      for strategy in vicus las steal; do
        said="$(LD_LIBRARY_PATH="" OMP_NUM_THREADS=4 VICUS_STRATEGY="$strategy" OMP_CANCELLATION=true timeout 300 \
          "$emulator" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$built:/usr/aarch64-linux-gnu/lib" \
          "$folder/$program" 2>&1)" || fail "$program by $compiler under $strategy: $said"
        [[ "$said" == ok ]] || fail "$program by $compiler under $strategy: $said"
      done
    done
  done
}
