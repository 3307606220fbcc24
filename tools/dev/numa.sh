# Tests on emulated machines with several nodes. Read by `dev`.
# shellcheck shell=bash

# What `./dev test` builds: the same crates with the same features, so that nothing is built again.
numa_crates=(--release --workspace --exclude vicus-tidy --exclude vicus-python)

# The paths of what the guests run, as the workspace's tests have it: the tests `kernel`, `stacks` and
# `whole_machine`, and `vicus`.
numa_programs() {
  cargo test "${locked[@]}" "${numa_crates[@]}" --test kernel --test stacks --test whole_machine --no-run \
    --message-format json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Programs of tools/numa-programs and the libraries that they need, as users have these, into a folder.
numa_doors() {
  local to="$1" from="tools/numa-programs" compiler program found name tbb=()
  mkdir "$to"
  cp "$target/release/libvicus_omp.so" "$target/release/libvicus_malloc.so" "$target/release/libvicus_qthreads.so" "$to"
  # Programs ask for the name that the library was linked with.
  name="$(readelf -d "$target/release/libvicus_c.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]$/\1/p')"
  cp "$target/release/libvicus_c.so" "$to/${name:=libvicus_c.so}"
  for program in c_spread c_near; do
    gcc -O1 -I include "$from/$program.c" -o "$to/$program" "-Wl,-rpath,$to" "$to/$name"
  done
  gcc -O1 -D_GNU_SOURCE -I include/qthreads-compat "$from/qthreads_nodes.c" -o "$to/qthreads_nodes" \
    "-Wl,-rpath,$to" "$to/libvicus_qthreads.so" -lpthread
  gcc -O1 "$from/side_by_side.c" -o "$to/side_by_side"
  for compiler in gcc clang; do
    # Debian's packages without the one of the default version have names with versions alone.
    found="$(command -v "$compiler" ||
      compgen -c "$compiler-" | grep -xE "$compiler-[0-9]+" | sort -V | tail -n 1 || true)"
    if [[ -z "$found" ]]; then
      echo "left out: OpenMP programs by $compiler, which is not there"
      continue
    fi
    if ! echo '#include <omp.h>' | "$found" -fopenmp -fsyntax-only -x c - 2>/dev/null; then
      echo "left out: OpenMP programs by $compiler, whose headers and library for OpenMP are not there"
      continue
    fi
    for program in openmp_spread openmp_near openmp_again openmp_teams openmp_learned openmp_tiles; do
      "$found" -O1 -fopenmp "$from/$program.c" -o "$to/$program.$compiler"
    done
  done
  if command -v gfortran >/dev/null; then
    gfortran -O1 -fopenmp "$from/openmp_spread.f90" -J "$to" -o "$to/openmp_spread.gfortran"
  else
    echo "left out: an OpenMP program in Fortran, since gfortran is not there"
  fi
  if ! command -v g++ >/dev/null; then
    echo "left out: tasks and locality queues in C++, since g++ is not there"
    return
  fi
  g++ -std=c++17 -O1 -I include "$from/cpp_near.cpp" -o "$to/cpp_near" "-Wl,-rpath,$to" "$to/$name"
  if echo '#include <tbb/version.h>' | g++ -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
    tbb=(-DWITH_TBB -ltbb)
    touch "$to/with_tbb"
  else
    echo "left out: locality queues under oneTBB, whose headers are not there"
  fi
  g++ -std=c++17 -O1 -fopenmp -I include "$from/queues.cpp" -o "$to/queues" "${tbb[@]}"
}

# In the guests that are named, or in all.
test_numa() {
  if ! tools/numa-vm --check; then
    skipped+=(numa)
    return
  fi
  say "building what the guests run"
  local programs kernel stacks whole_machine vicus files=() file topology began failed=()
  programs="$(numa_programs)"
  kernel="$(grep '/kernel-' <<<"$programs")"
  stacks="$(grep '/stacks-' <<<"$programs")"
  whole_machine="$(grep '/whole_machine-' <<<"$programs")"
  vicus="$(grep '/vicus$' <<<"$programs")"
  scratch="$(mktemp -d)"
  trap 'rm -rf "$scratch"' EXIT
  "$vicus" generate sp2b --triples 10000 --output "$scratch/data.nt"
  # Right is what one thread of this machine finds.
  "$vicus" query --data "$scratch/data.nt" --threads 1 --strategy nls --format count \
    --query doors/cli/queries/sp2b/*.sparql >"$scratch/counts"
  cargo build "${locked[@]}" "${numa_crates[@]}"
  # A program of Qthreads, in C, and its library.
  "${CC:-cc}" -O1 -D_GNU_SOURCE -I include/qthreads-compat doors/qthreads/tests/programs/pages.c -o "$scratch/pages" \
    -L "$target/release" "-Wl,-rpath,$(realpath "$target/release")" -lvicus_qthreads -lpthread
  # A program of OpenMP, and its libraries.
  gcc -O1 -fopenmp -I include doors/openmp/tests/programs/nodes.c -o "$scratch/nodes"
  cp "$target/release/libvicus_omp.so" "$target/release/libvicus_malloc.so" "$scratch"
  numa_doors "$scratch/doors"
  for file in "$kernel" "$stacks" "$whole_machine" "$vicus" tools/numa-doors doors/cli/queries "$scratch"; do
    files+=(--file "$file")
  done
  for topology in "${guests[@]}"; do
    say "${topology##*/}: $(sed -n '1s/^# *//p' "$topology")"
    began=$SECONDS
    # On one thread of the emulator: on few cores that is quicker, and the other way hangs now and then.
    if tools/numa-vm --one-thread --timeout 900 "${files[@]}" --env "VICUS_TEST_DATA=$scratch/data.nt" \
      --env "VICUS_TEST_COUNTS=$scratch/counts" --env "VICUS_TEST_DOORS=$scratch/doors" \
      --env "NUMA_SHOW=${NUMA_SHOW:-no}" "$topology" \
      tools/numa-checks "$kernel" "$stacks" "$whole_machine" "$vicus" "$scratch/pages" "$scratch/nodes" \
      "$(realpath tools/numa-doors)" "$scratch/doors"; then
      echo "passed in $((SECONDS - began)) s"
    else
      echo "failed in $((SECONDS - began)) s"
      failed+=("${topology##*/}")
    fi
  done
  [[ ${#failed[@]} -eq 0 ]] || fail "guests in which a check failed: ${failed[*]}"
}
