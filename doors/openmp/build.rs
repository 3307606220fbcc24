//! How the library is linked: its name, its versions, and a flag against its unloading.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// All versions of gcc's and clang's libraries, each on top of the one before.
const FAMILIES: [&[&str]; 3] = [
    &[
        "GOMP_1.0",
        "GOMP_2.0",
        "GOMP_3.0",
        "GOMP_4.0",
        "GOMP_4.0.1",
        "GOMP_4.5",
        "GOMP_5.0",
        "GOMP_5.0.1",
        "GOMP_5.1",
        "GOMP_5.1.1",
        "GOMP_5.1.2",
        "GOMP_5.1.3",
        "GOMP_6.0",
        "GOMP_6.0.1",
        "GOMP_6.0.2",
    ],
    &[
        "OMP_1.0",
        "OMP_2.0",
        "OMP_3.0",
        "OMP_3.1",
        "OMP_4.0",
        "OMP_4.5",
        "OMP_5.0",
        "OMP_5.0.1",
        "OMP_5.0.2",
        "OMP_5.1",
        "OMP_5.1.1",
        "OMP_5.2",
        "OMP_6.0",
        "OMP_6.1",
    ],
    &["VERSION"],
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let mut script = String::new();
    for family in FAMILIES {
        let mut before = "";
        for node in family {
            writeln!(script, "{node} {{ }}{before};").expect("a string grows");
            before = node;
        }
    }
    // A node's parent stands between its brace and the semicolon, after a space.
    let script = script.replace("}GOMP", "} GOMP").replace("}OMP", "} OMP");
    let folder = env::var("OUT_DIR").expect("cargo says where to write");
    let path = Path::new(&folder).join("versions.map");
    fs::write(&path, script).expect("the folder for what is built can be written");
    // A sanitizer has to begin before all code it has instrumented.
    let is_sanitized = env::var("CARGO_CFG_SANITIZE").is_ok_and(|all| !all.is_empty());
    // Before the compiler's own library, if it is loaded as well: users may have it bind the first thread, and then the
    // process's processors can no longer be found.
    let first = if is_sanitized { "" } else { "-z,initfirst" };
    for argument in [
        &format!("--version-script={}", path.display()),
        "--undefined-version",
        "-soname=libvicus_omp.so",
        "-z,nodelete",
        first,
    ]
    .into_iter()
    .filter(|argument| !argument.is_empty())
    {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
