//! Completion of command lines: the answers to kubectl, to shims and to the shells' scripts.
//!
//! kubectl asks `kubectl_complete-NAME` on the PATH with the words after the plugin's name, of
//! which the last is the one to complete. It expects one candidate per line, `value<TAB>description`,
//! then a line `:BITS` that says what the shell does with them.

mod answer;
mod candidates;
mod line;
mod lookup;
mod shell;
mod wanted;

use std::ffi::OsString;

use crate::error::Exit;
use crate::program::Program;

/// Answers, if it is kubectl, a shim or a shell's script that called the program.
pub fn answered(program: Program, args: &[OsString]) -> Option<Exit> {
    if let Some(asked) = answer::asked(program, args) {
        return Some(answer::run(program, &asked));
    }
    let (shell, line) = shell::asked(args)?;
    Some(shell::run(program, &shell, line))
}
