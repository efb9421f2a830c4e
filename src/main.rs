//! Parse, run, and turn the result into an exit code.

use std::process::ExitCode;
use std::thread;

use kubectl_skyhook::cli;
use kubectl_skyhook::error::Exit;
use kubectl_skyhook::program::Process;

/// Stack size in bytes of the thread that runs the command.
const STACK: usize = 8 << 20;

/// Runs on a thread with a known stack size: the main thread's stack may be too small (`ulimit -s`).
fn main() -> ExitCode {
    let run = || cli::main(&Process::own());
    let exit = thread::Builder::new().stack_size(STACK).spawn(run);
    let exit = exit.map_or_else(|_| run(), |thread| thread.join().unwrap_or(Exit::Failed));
    ExitCode::from(exit.code())
}
