//! Tells the linker that a call to RocksDB goes through the bench `store`: see `src/store/oxigraph.rs`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bin=vicus-bench-store=-Wl,--wrap=rocksdb_writeoptions_create");
}
