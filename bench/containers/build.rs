//! Compiles the C++ peers whose headers are installed.

/// A peer: its name as a `cfg`, its headers (one of them suffices), and the libraries to link.
const PEERS: [(&str, &[&str], &[&str]); 2] = [
    ("moodycamel", &["concurrentqueue/concurrentqueue.h", "concurrentqueue/moodycamel/concurrentqueue.h"], &[]),
    ("tbb", &["tbb/concurrent_queue.h"], &["tbb"]),
];

fn main() {
    println!("cargo::rerun-if-changed=peers");
    println!("cargo::rerun-if-env-changed=CXX");
    for (name, headers, libraries) in PEERS {
        println!("cargo::rustc-check-cfg=cfg({name})");
        let Some(header) = headers.iter().find(|header| has(header)) else {
            // A missing header counts as changed, so that the next build looks again.
            headers.iter().for_each(|header| println!("cargo::rerun-if-changed=/usr/include/{header}"));
            continue;
        };
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(3).define("PEER_HEADER", &*format!("<{header}>"));
        build.file(format!("peers/{name}.cpp")).compile(&format!("peer_{name}"));
        libraries.iter().for_each(|library| println!("cargo::rustc-link-lib={library}"));
        println!("cargo::rustc-cfg={name}");
    }
}

/// Whether the compiler finds a header.
fn has(header: &str) -> bool {
    let Ok(compiler) = cc::Build::new().cpp(true).try_get_compiler() else { return false };
    let mut probe = compiler.to_command();
    probe.args(["-fsyntax-only", "-x", "c++", "-include", header, "/dev/null"]);
    probe.output().is_ok_and(|output| output.status.success())
}
