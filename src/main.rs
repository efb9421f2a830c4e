//! Parse, run, and turn the result into an exit code.

use std::process::ExitCode;

use kubectl_skyhook::cli;

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os()).code())
}
