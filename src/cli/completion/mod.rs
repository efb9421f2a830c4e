//! Completion of command lines: the answers to kubectl, to shims and to the shells' scripts.
//!
//! kubectl runs `kubectl_complete-NAME` from the PATH with the words after the plugin's name, the last of which is to
//! be completed. It expects one candidate per line, `value<TAB>description`, then a line `:BITS` with instructions for
//! the shell.

mod answer;
mod line;
mod lookup;

use std::ffi::OsString;
use std::sync::Arc;

use answer::with_completers;
use clap_complete::env::Shells;
use line::{CandidateKind, Typed};
use lookup::Lookup;

use crate::args::global::Global;
use crate::commands::completion::ASKS;
use crate::ctx::Ctx;
use crate::error::Exit;
use crate::program::{Process, Program};

/// Answers a completion request of kubectl, a shim or a shell's script; `None` for other calls.
pub fn answered(process: &Process, program: Program) -> Option<Exit> {
    if let Some((words, bare)) = answer::asked(program, &process.args) {
        return Some(answer::run(process, program, words, bare));
    }
    let (shell, line) = asked(process)?;
    Some(run(process, program, &shell, line))
}

/// The name of the shell and the line to complete, if a completion script runs the program.
fn asked(process: &Process) -> Option<(String, Vec<OsString>)> {
    let shell = process.variable(ASKS)?;
    let args = &process.args;
    let (_, line) = args.split_at(args.iter().position(|arg| arg == "--")? + 1);
    (!line.is_empty()).then(|| (shell, line.to_vec()))
}

/// Prints the candidates in the shell's format, or nothing on errors.
fn run(process: &Process, program: Program, shell: &str, line: Vec<OsString>) -> Exit {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else {
        return Exit::Done;
    };
    let words = line.get(1..).unwrap_or_default();
    let (current, before) = match words {
        [before @ .., current] => (current.to_string_lossy(), before),
        [] => ("".into(), words),
    };
    let lookup = Arc::new(Lookup::new(process, program, Typed::read(program, before)));
    // These scripts cannot ask the shell for files, so the engine lists them.
    let ours = |wanted: &CandidateKind| *wanted != CandidateKind::File;
    let mut tree = with_completers(program.tree(), &lookup, ours);
    if !current.starts_with('-') {
        // Only a built tree has all its flags.
        tree.build();
        tree = with_flags_hidden(tree);
    }
    let here = std::env::current_dir().ok();
    let mut bytes = Vec::new();
    if shell.write_complete(&mut tree, line, here.as_deref(), &mut bytes).is_ok() {
        let text = String::from_utf8_lossy(&bytes);
        // Ignore write errors: they cannot be reported.
        let _ = Ctx::silent(process, Global::default(), "completion").print(&text);
    }
    Exit::Done
}

/// Hides flags, so that the shell offers them only if nothing else matches.
fn with_flags_hidden(tree: clap::Command) -> clap::Command {
    tree.mut_args(|arg| if arg.is_positional() { arg } else { arg.hide(true) })
        .mut_subcommands(with_flags_hidden)
}
