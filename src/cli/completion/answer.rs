//! Answers to completion requests of kubectl or a shim.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::sync::Arc;

use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};

use super::line::{CandidateKind, Typed};
use super::lookup::{Candidate, Lookup};
use crate::args::global::Global;
use crate::ctx::Ctx;
use crate::error::Exit;
use crate::program::{Process, Program};
use crate::view::sanitize;

/// The first word of a completion request, as in Go's cobra.
const ASKS: &str = "__complete";
/// The first word of a request for candidates without descriptions.
const ASKS_BARE: &str = "__completeNoDesc";

/// Instructions for the shell: cobra's directives, as bits.
mod directive {
    pub const FILES: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const NO_SPACE: u8 = 2;
    pub const NO_FILES: u8 = 4;
    pub const KEEP_ORDER: u8 = 32;
}

/// The words to complete, and whether to omit descriptions, if this is a completion request.
pub fn asked(program: Program, args: &[OsString]) -> Option<(&[OsString], bool)> {
    match args {
        [_, words @ ..] if program.completes => Some((words, false)),
        [_, asks, words @ ..] if asks == ASKS || asks == ASKS_BARE => Some((words, asks == ASKS_BARE)),
        _ => None,
    }
}

/// Prints the candidates. Errors are not printed: they would appear over the prompt.
pub fn run(process: &Process, program: Program, words: &[OsString], bare: bool) -> Exit {
    let answer = answer(process, program, words, bare);
    // Ignore write errors: they cannot be reported.
    let _ = Ctx::silent(process, Global::default(), "completion").print(&answer);
    Exit::Done
}

/// The candidates for the last word and the directive, as printed.
fn answer(process: &Process, program: Program, words: &[OsString], bare: bool) -> String {
    let nothing = OsString::new();
    let (current, before) = words.split_last().unwrap_or((&nothing, &[]));
    let lookup = Arc::new(Lookup::new(process, program, Typed::read(program, before)));
    let Ok(mut candidates) = candidates(&lookup, before, current) else {
        return render(&[], directive::ERROR);
    };
    if bare {
        candidates.iter_mut().for_each(|c| c.about.clear());
    }
    let outcome = lookup.outcome();
    let directive = match candidates.as_slice() {
        [] if outcome.failed => directive::ERROR,
        [] if outcome.files => directive::FILES,
        [_, ..] if candidates.iter().all(|c| c.value.ends_with('=')) => {
            directive::NO_FILES | directive::NO_SPACE
        }
        _ if outcome.ordered => directive::NO_FILES | directive::KEEP_ORDER,
        _ => directive::NO_FILES,
    };
    render(&candidates, directive)
}

/// The candidates of clap's engine, without hidden ones, and without flags unless the word begins with a dash.
fn candidates(
    lookup: &Arc<Lookup>,
    before: &[OsString],
    current: &OsString,
) -> std::io::Result<Vec<Candidate>> {
    let mut tree = with_completers(lookup.program.tree(), lookup, |_| true);
    let name = OsString::from("kubectl-skyhook");
    let begun = std::iter::once(&name).chain(before);
    if let Err(error) = lookup.program.parse(begun.clone().cloned(), None)
        && error.kind() == ErrorKind::InvalidSubcommand
    {
        // The engine would skip the unknown command.
        return Ok(Vec::new());
    }
    let line = begun.chain([current]);
    let index = before.len() + 1;
    let found = complete(&mut tree, line.cloned().collect(), index, None)?;
    let typed = current.to_string_lossy();
    // Return the value alone: the shell's own script keeps `--flag=` in front of it.
    let flag = match typed.split_once('=') {
        Some((flag, _)) if typed.starts_with('-') => flag.len() + 1,
        _ => 0,
    };
    let spelled = found.iter().filter(|c| !c.is_hide_set()).map(|c| Candidate {
        value: c.get_value().to_string_lossy().into_owned(),
        about: c.get_help().map(ToString::to_string).unwrap_or_default(),
    });
    Ok(spelled
        .filter(|c| typed.starts_with('-') || !c.value.starts_with('-'))
        .map(|c| Candidate::new(c.value.get(flag..).unwrap_or_default(), c.about))
        .collect())
}

/// Adds a completer to each argument of a kind that `ours` accepts.
pub fn with_completers(
    tree: clap::Command,
    lookup: &Arc<Lookup>,
    ours: fn(&CandidateKind) -> bool,
) -> clap::Command {
    let with = |arg: Arg| match CandidateKind::of(&arg).filter(ours) {
        Some(wanted) => {
            let many = matches!(arg.get_action(), ArgAction::Append)
                || arg.get_num_args().is_some_and(|n| n.max_values() > 1);
            let lookup = Arc::clone(lookup);
            arg.add(ArgValueCompleter::new(move |current: &OsStr| {
                let found = lookup.candidates(&wanted, many, &current.to_string_lossy());
                found.into_iter().map(to_completion).collect::<Vec<_>>()
            }))
        }
        None => arg,
    };
    tree.mut_args(with).mut_subcommands(|command| with_completers(command, lookup, ours))
}

/// Converts a candidate for clap's engine, with control characters escaped.
fn to_completion(candidate: Candidate) -> CompletionCandidate {
    let about = Some(candidate.about).filter(|about| !about.is_empty());
    let about = about.map(|about| StyledStr::from(sanitize(&about).into_owned()));
    CompletionCandidate::new(sanitize(&candidate.value).into_owned()).help(about)
}

/// One candidate per line with the first line of its description, then the directive.
fn render(candidates: &[Candidate], directive: u8) -> String {
    let mut text = String::new();
    for Candidate { value, about } in candidates {
        let about = about.lines().next().unwrap_or_default();
        let _ = if about.is_empty() { writeln!(text, "{value}") } else { writeln!(text, "{value}\t{about}") };
    }
    let _ = writeln!(text, ":{directive}");
    text
}
