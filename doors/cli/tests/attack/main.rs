//! An attack on `vicus` and `vicus serve`, from the outside as a user runs them: minutes long, over loopback alone, run
//! by `./dev test attack`.
//!
//! Each case prints its name, its outcome and whether it held; the others go on after a failed one. Words behind the
//! program's name choose the cases with one of them in their names (`ATTACK` in the environment of `./dev test attack`
//! has them).

#[expect(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../server/tests/server/client.rs"]
mod client;
mod deep;
mod engine;
mod http;
mod http2;
mod large;
mod mutated;
mod page;
mod served;
mod store;
mod suite;
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let mut suite = suite::Suite::new(only);
    suite.theme("http", http::attack);
    suite.theme("http2", http2::attack);
    suite.theme("page", page::attack);
    suite.theme("web", web::attack);
    suite.theme("engine", engine::attack);
    suite.theme("deep", deep::attack);
    suite.theme("large", large::attack);
    suite.theme("mutated", mutated::attack);
    suite.theme("store", store::attack);
    suite.end()
}
