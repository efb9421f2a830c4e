//! Parse, run, and turn the result into an exit code.

use std::process::ExitCode;

use kubectl_skyhook::commands;

fn main() -> ExitCode {
    ExitCode::from(commands::main(std::env::args_os()).code())
}
