//! Completion of command lines: the answers to kubectl, to shims and to the shells' scripts.
//!
//! kubectl runs `kubectl_complete-NAME` from the PATH with the words after the plugin's name, the last of which is to
//! be completed. It expects one candidate per line, `value<TAB>description`, then a line `:BITS` with instructions for
//! the shell.

mod answer;
mod candidates;
mod line;
mod lookup;
mod shell;
mod wanted;

use std::ffi::OsString;

use crate::error::Exit;
use crate::program::Program;

/// Answers a completion request of kubectl, a shim or a shell's script; `None` for other calls.
pub fn answered(program: Program, args: &[OsString]) -> Option<Exit> {
    if let Some(asked) = answer::asked(program, args) {
        return Some(answer::run(program, &asked));
    }
    let (shell, line) = shell::asked(args)?;
    Some(shell::run(program, &shell, line))
}
