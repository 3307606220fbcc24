//! How the shared library is linked: its name for programs, and a flag against its unloading.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let part = |name: &str| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo tells a package its version");
    // Before 1.0, a minor version may change the interface of programs.
    let name = match part("MAJOR").as_str() {
        "0" => format!("libvicus.so.0.{}", part("MINOR")),
        major => format!("libvicus.so.{major}"),
    };
    println!("cargo::rustc-env=VICUS_SONAME={name}");
    for argument in [&*format!("-soname={name}"), "-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
