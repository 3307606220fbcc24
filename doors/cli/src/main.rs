//! The program `vicus`.

use std::process::ExitCode;

fn main() -> ExitCode {
    vicus_cli::command(std::env::args_os().collect(), None).into()
}
