# Where programs in C and C++ find libraries and headers. Read by `dev`.
# shellcheck shell=bash

# The libraries that are in a folder, or are built: below another one, of a version. What is not there is left out.
install_libraries() {
  local to="$1" version="$2" from="$3"
  if [[ "$from" == build ]]; then
    command -v cargo >/dev/null || fail "there is no cargo to build the libraries; --headers installs what needs none"
    cargo build "${locked[@]}" --release -p vicus-c -p vicus-openmp -p vicus-malloc -p vicus-qthreads
    from="$target/release"
  elif [[ "$from" != /* ]]; then
    from="$caller_folder/$from"
  fi
  [[ -e "$from/libvicus_c.so" || -e "$from/libvicus_omp.so" || -e "$from/libvicus_qthreads.so" ]] ||
    fail "there is neither libvicus_c.so nor libvicus_omp.so nor libvicus_qthreads.so in $from"
  if [[ -e "$from/libvicus_c.so" ]]; then install_library "$to" "$version" "$from"; fi
  if [[ -e "$from/libvicus_omp.so" ]]; then install_openmp "$to" "$from"; fi
  if [[ -e "$from/libvicus_qthreads.so" ]]; then install_qthreads "$to" "$from"; fi
}

# Qthreads' headers and library. Not among the other headers: Qthreads itself may be installed there.
install_qthreads() {
  local to="$1" from="$2"
  install -m 755 -D "$from/libvicus_qthreads.so" "$to/lib/libvicus_qthreads.so"
  install -m 644 -D -t "$to/include/qthreads-compat" include/qthreads-compat/qthread.h
  install -m 644 -D -t "$to/include/qthreads-compat/qthread" include/qthreads-compat/qthread/*
}

# libvicus as programs in C and C++ link it, and its headers.
install_library() {
  local to="$1" version="$2" from="$3" name="libvicus.so" fits="${2%.*}"
  # As doors/c/build.rs says it: before 1.0, a minor version may change what programs rely on.
  if [[ "$version" != 0.* ]]; then fits="${version%%.*}"; fi
  install -m 644 -D -t "$to/include" include/vicus.h include/vicus.hpp
  install -m 644 -D -t "$to/include/vicus/library" include/vicus/library/*.hpp
  # Programs ask for the name that the library was linked with, which has the part of the version that says whether they fit.
  install -m 755 -D "$from/libvicus_c.so" "$to/lib/$name.$version"
  ln -sf "$name.$version" "$to/lib/$name.$fits"
  ln -sf "$name.$fits" "$to/lib/$name"
  if [[ -e "$from/libvicus_c.a" ]]; then install -m 644 "$from/libvicus_c.a" "$to/lib/libvicus.a"; fi
}

# The OpenMP runtime.
install_openmp() {
  local to="$1" from="$2" name
  for name in libvicus_omp.so libvicus_malloc.so; do
    [[ -e "$from/$name" ]] || fail "there is no $name in $from"
    install -m 755 -D "$from/$name" "$to/lib/$name"
  done
  install -m 644 -D -t "$to/include" include/vicus_omp.h
  # The names of other runtimes, by which programs ask for them: never in the place of one of these.
  for name in libgomp.so.1 libomp.so.5 libiomp5.so; do
    if [[ -e "$to/lib/$name" && "$(readlink "$to/lib/$name")" != libvicus_omp.so ]]; then
      say "left out: $to/lib/$name is another runtime"
    else
      ln -sf libvicus_omp.so "$to/lib/$name"
    fi
  done
}

# Files that programs in C++ are built with. Not called `install`, which is the program that it uses.
install_files() {
  local prefix=/usr/local version from to name folder library=build
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --prefix)
        [[ -n "${2:-}" ]] || fail "--prefix takes a folder"
        prefix="$2"
        shift 2
        ;;
      --prefix=?*)
        prefix="${1#--prefix=}"
        shift
        ;;
      --headers)
        library=none
        shift
        ;;
      --library)
        [[ -n "${2:-}" ]] || fail "--library takes the folder that cargo has built the libraries in"
        library="$2"
        shift 2
        ;;
      *) fail "\`install\` has no option \`$1\`; there are --prefix DIR, --headers and --library DIR" ;;
    esac
  done
  # Relative to where the caller is.
  [[ "$prefix" == /* ]] || prefix="$caller_folder/$prefix"
  to="${DESTDIR:-}$prefix"
  mkdir -p "$to" 2>/dev/null && [[ -w "$to" ]] ||
    fail "can't write to $to: choose another folder with --prefix, or run this as its owner"
  version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
  install -d "$to/include/vicus/locality_queues" "$to/lib/cmake/vicus" "$to/lib/pkgconfig"
  if [[ "$library" != none ]]; then install_libraries "$to" "$version" "$library"; fi
  install -m 644 include/vicus/*.hpp "$to/include/vicus"
  install -m 644 include/vicus/locality_queues/*.hpp "$to/include/vicus/locality_queues"
  install -m 644 cmake/vicusConfig.cmake cmake/vicus-component-*.cmake "$to/lib/cmake/vicus"
  for from in cmake/*.in; do
    name="$(basename "$from" .in)"
    folder="$to/lib/cmake/vicus"
    if [[ "$name" == *.pc ]]; then folder="$to/lib/pkgconfig"; fi
    sed "s|@VERSION@|$version|g" "$from" >"$folder/$name"
    chmod 644 "$folder/$name"
  done
  # What speaks of a library that is not there would be found all the same.
  if [[ ! -e "$to/lib/libvicus.so" ]]; then rm -f "$to/lib/cmake/vicus/vicus-component-vicus.cmake" "$to/lib/pkgconfig/vicus.pc"; fi
  if [[ ! -e "$to/lib/libvicus_qthreads.so" ]]; then rm -f "$to/lib/cmake/vicus/vicus-component-qthreads.cmake" "$to/lib/pkgconfig/qthread.pc"; fi
  if [[ ! -e "$to/lib/libvicus_omp.so" ]]; then rm -f "$to/lib/cmake/vicus/vicus-component-omp.cmake" "$to/lib/pkgconfig/vicus-omp.pc"; fi
  echo "Installed the headers, the CMake package and the file for pkg-config of Vicus $version below $to"
}
