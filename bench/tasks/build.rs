//! Compiles the C++ peer if this machine has its headers.

fn main() {
    println!("cargo::rerun-if-changed=peers");
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rustc-check-cfg=cfg(tbb)");
    if !has("tbb/task_group.h") {
        // A missing header counts as changed, so that the next build looks again.
        println!("cargo::rerun-if-changed=/usr/include/tbb/task_group.h");
        return;
    }
    cc::Build::new().cpp(true).std("c++17").opt_level(3).file("peers/tbb.cpp").compile("peer_tbb");
    println!("cargo::rustc-link-lib=tbb");
    println!("cargo::rustc-cfg=tbb");
}

/// Whether the compiler finds a header.
fn has(header: &str) -> bool {
    let Ok(compiler) = cc::Build::new().cpp(true).try_get_compiler() else { return false };
    let mut probe = compiler.to_command();
    probe.args(["-fsyntax-only", "-x", "c++", "-include", header, "/dev/null"]);
    probe.output().is_ok_and(|output| output.status.success())
}
