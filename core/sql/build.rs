//! Tells the crate whether it, and the parser beside it, are optimised.

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its settings by variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimised)");
    if std::env::var("OPT_LEVEL").as_deref() == Ok("0") {
        println!("cargo::rustc-cfg=unoptimised");
    }
}
