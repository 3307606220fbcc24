# What is released: a tarball and a Debian package. Read by `dev`.
# shellcheck shell=bash

# What the packages are made of, one call for all: crates in common are built once.
dist_crates=(vicus-cli vicus-c vicus-openmp vicus-malloc vicus-qthreads)
# Archives in buckets: crates that tests and the demo would build for nothing.
dist_features=(--features vicus-cli/object-storage)

# Makes `cargo auditable` there, which writes the names and versions of crates into programs and libraries: scanners of
# systems and containers read them there, where no file lies beside.
need_auditable() {
  if command -v cargo-auditable >/dev/null; then return; fi
  say "cargo-auditable"
  cargo install --quiet --locked cargo-auditable --version 0.7.7 --root "$target/tools"
  PATH="$(readlink -f "$target/tools/bin"):$PATH"
}

# Sets `built` to the folder of the programs, for glibc $1 (empty: this system's), in the profile $2 and for the target $3.
build_dist() {
  local glibc="$1" profile="$2" triple="$3"
  VICUS_COMMIT="$(git rev-parse --short=12 HEAD 2>/dev/null || true)"
  export VICUS_COMMIT
  need_auditable
  if [[ -z "$glibc" ]]; then
    cargo auditable build "${locked[@]}" --profile "$profile" "${dist_crates[@]/#/-p}" "${dist_features[@]}"
    built="$target/$profile"
    return
  fi
  command -v cargo-zigbuild >/dev/null ||
    fail "no cargo-zigbuild to build for glibc $glibc: \`pip install cargo-zigbuild ziglang\`, or --here for this system's glibc"
  [[ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ]] || fail "there is no library for $triple: \`rustup target add $triple\`"
  with glibc
  link_for_glibc "$triple" "$glibc"
  cargo auditable zigbuild "${locked[@]}" --profile "$profile" --target "$triple.$glibc" "${dist_crates[@]/#/-p}" "${dist_features[@]}"
  built="$target/$triple/$profile"
}

# The command that was built: on another processor by an emulator.
run_built() {
  if [[ "${built_for%%-*}" == "$(uname -m)" ]]; then
    "$built/vicus" "$@"
  else
    "qemu-${built_for%%-*}" -L "/usr/${built_for%%-*}-linux-gnu" "$built/vicus" "$@"
  fi
}

# Puts all below a folder, as below /usr.
stage() {
  local to="$1" version="$2" file strip=strip
  if [[ "${built_for%%-*}" != "$(uname -m)" ]]; then strip="${built_for%%-*}-linux-gnu-strip"; fi
  DESTDIR="" install_files --prefix "$to" --library "$(readlink -f "$built")" >/dev/null
  install -m 755 -D "$built/vicus" "$to/bin/vicus"
  for file in "$to/bin/vicus" "$to"/lib/*.so "$to"/lib/*.so.*; do
    # Debuggers find what belongs to a file by its build id, which stays.
    if [[ -f "$file" && ! -L "$file" ]]; then "$strip" --strip-unneeded "$file"; fi
  done
  # Its objects hold themselves as LLVM's bitcode once more, for optimising across crates: three quarters of the file.
  if [[ -f "$to/lib/libvicus.a" ]]; then "$strip" --strip-debug -R .llvmbc -R .llvmcmd "$to/lib/libvicus.a"; fi
  run_built manual --pages "$to/share/man/man1" >/dev/null
  gzip -9 -n "$to"/share/man/man1/*.1
  install -d "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d"
  run_built manual --completions bash >"$to/share/bash-completion/completions/vicus"
  run_built manual --completions zsh >"$to/share/zsh/site-functions/_vicus"
  run_built manual --completions fish >"$to/share/fish/vendor_completions.d/vicus.fish"
  install -m 644 -D -t "$to/share/doc/vicus" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT SECURITY.md CITATION.cff
  python3 tools/dev/bill.py "$version" "$to/share/doc/vicus" "$built_for" "${dist_crates[@]}" -- "${dist_features[@]}"
}

# A Debian package of what is staged below $1/usr.
debian_package() {
  local root="$1" version="$2" machine="$3" to="$4" needs="$5"
  install -m 644 -D packaging/vicus.service "$root/usr/lib/systemd/system/vicus.service"
  install -m 644 -D packaging/sysusers.conf "$root/usr/lib/sysusers.d/vicus.conf"
  install -m 644 -D packaging/serve.conf "$root/etc/vicus/serve.conf"
  # Debian has its own name for licences, and its zsh its own folder for completions.
  (cd "$root/usr/share/doc/vicus" && cat LICENSE-APACHE LICENSE-MIT THIRD-PARTY >copyright && rm LICENSE-APACHE LICENSE-MIT THIRD-PARTY)
  mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
  # Links by the names of other runtimes belong where LD_LIBRARY_PATH is pointed to, never among the system's libraries.
  install -d "$root/usr/lib/vicus"
  for name in libgomp.so.1 libomp.so.5 libiomp5.so; do
    rm "$root/usr/lib/$name"
    ln -s ../libvicus_omp.so "$root/usr/lib/vicus/$name"
  done
  install -d "$root/DEBIAN"
  echo /etc/vicus/serve.conf >"$root/DEBIAN/conffiles"
  sed -e "s/@VERSION@/$version/; s/@MACHINE@/$machine/; s/@GLIBC@/$needs/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f 1)/" packaging/control.in >"$root/DEBIAN/control"
  install -m 755 packaging/postinst packaging/prerm packaging/postrm "$root/DEBIAN"
  echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
  SOURCE_DATE_EPOCH="$made" dpkg-deb --root-owner-group -Zxz --build "$root" "$to" >/dev/null
}

# The newest version of glibc whose functions a file asks for.
needed_glibc() {
  objdump -T "$@" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1
}

dist() {
  local output glibc=2.28 profile=dist version machine debian built_for name needs made made_files program
  built_for="$(rustc -vV | sed -n 's/^host: //p')"
  output="$target/packages"
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --output)
        [[ -n "${2:-}" ]] || fail "--output takes a folder"
        output="$2"
        if [[ "$output" != /* ]]; then output="$caller_folder/$output"; fi
        shift 2
        ;;
      --glibc)
        [[ "${2:-}" =~ ^2\.[0-9]+$ ]] || fail "--glibc takes a version, such as 2.28"
        glibc="$2"
        shift 2
        ;;
      --here) glibc="" && shift ;;
      --target)
        [[ "${2:-}" =~ ^(x86_64|aarch64)$ ]] || fail "--target takes x86_64 or aarch64"
        built_for="$2-unknown-linux-gnu"
        shift 2
        ;;
      --quick) profile=release && shift ;;
      *) fail "\`dist\` has no option \`$1\`; \`./dev dist --help\` lists them" ;;
    esac
  done
  command -v python3 >/dev/null || fail "there is no python3 to write the bill of materials"
  if [[ "${built_for%%-*}" != "$(uname -m)" ]]; then
    [[ -n "$glibc" ]] || fail "--here is for this machine's processor"
    for program in "qemu-${built_for%%-*}" "${built_for%%-*}-linux-gnu-strip"; do
      command -v "$program" >/dev/null ||
        fail "there is no $program (Debian: qemu-user, binutils-${built_for%%-*}-linux-gnu, libc6-dev-arm64-cross)"
    done
  fi
  # Others read what is packed, whatever this user's files are like by default.
  umask 022
  setup
  with install
  # The same tree makes the same bytes.
  made="$(git log -1 --format=%ct 2>/dev/null || echo 0)"
  version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
  machine="${built_for%%-*}"
  debian="$(sed 's/x86_64/amd64/; s/aarch64/arm64/' <<<"$machine")"
  build_dist "$glibc" "$profile" "$built_for"
  mkdir -p "$output"
  output="$(readlink -f "$output")"
  scratch="$(mktemp -d)"
  trap 'rm -rf "$scratch"' EXIT
  name="vicus-$version-$machine-linux-gnu"
  say "packing $name"
  stage "$scratch/$name" "$version"
  needs="$(needed_glibc "$scratch/$name/bin/vicus" "$scratch/$name"/lib/*.so)"
  if [[ -n "$glibc" ]]; then
    at_least "$glibc" "$needs" || fail "the programs need glibc $needs, which is newer than $glibc"
  fi
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime="@$made" \
    --directory "$scratch" "$name" | gzip -9 -n >"$output/$name.tar.gz"
  made_files=("$output/$name.tar.gz")
  if command -v dpkg-deb >/dev/null; then
    mkdir "$scratch/deb"
    mv "$scratch/$name" "$scratch/deb/usr"
    made_files+=("$output/vicus_${version}_$debian.deb")
    debian_package "$scratch/deb" "$version" "$debian" "${made_files[1]}" "$needs"
  else
    say "left out for want of dpkg-deb: the Debian package"
  fi
  (cd "$output" && sha256sum "${made_files[@]##*/}" >SHA256SUMS)
  ls -l "${made_files[@]}"
  echo "They run with glibc $needs and later. Checksums: $output/SHA256SUMS"
}
