//! The command line: parses it, runs the command, and turns the result into an exit code.

mod aliases;
mod completion;
mod contexts;
mod tree;

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::runtime::{Builder, Runtime};

use crate::args::global::Global;
use crate::commands::shared::command::Run;
use crate::commands::{self, Command, rbac};
use crate::ctx::{Ctx, check_open_files, survive_file_size_limit};
use crate::error::{Error, Exit, Result};
use crate::program::Program;

/// The end of `--help`: the choice between similar commands, and exit codes.
const AFTER_HELP: &str = "\
Which command?
  package retry       a stage has failed for good: run it again, keep its record
  package rerun       a package has run, or fails: run it again from its first stage
  reset               a node was re-imaged, or its record is wrong: forget it, run all packages
  pause               stop a custom resource for now; later ones wait for it
  disable             stop a custom resource for long; later ones do not wait
  node ignore         stop all custom resources on some nodes; the others go on

Exit codes: 0 done, 1 error, 2 findings, 3 refused, 4 partly applied, 5 timed out, 64 usage, 130 interrupted.";

/// Diagnose and repair NodeWright (formerly Skyhook) packages on nodes
///
/// Finds what is stuck, why, and how to fix it. Works with the objects that the operator uses: Skyhook
/// (operator up to v0.17) and NodeWright (from v0.18).
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-skyhook",
    bin_name = "kubectl skyhook",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

/// Runs the program with its arguments; the first is its name.
pub fn main(args: impl Iterator<Item = OsString>) -> Exit {
    let mut args: Vec<OsString> = args.collect();
    let program = args.first().map_or(Program::SKYHOOK, |name| Program::of(name));
    program.name_commands();
    if let Some(exit) = completion::answered(program, &args) {
        return exit;
    }
    // `help node list` is `node list -h`.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("-h".into());
    }
    args = aliases::resolved(args);
    let mut parsed = program.parse(args.iter().cloned());
    if matches!(&parsed, Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        // Print help on stdout even without `--help`; clap does so only with the flag.
        args.push("-h".into());
        parsed = program.parse(args);
    }
    match parsed {
        Ok(cli) => run(cli),
        Err(error) => {
            // Ignore write errors: they cannot be reported.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            }
        }
    }
}

fn run(cli: Cli) -> Exit {
    let info = cli.command.info();
    let verb = info.words;
    let global = cli.global;
    let mut ctx = Ctx::new(global.clone(), verb);
    ctx.node_fields(info.node_fields);
    let result = runtime().and_then(|runtime| {
        let _entered = runtime.enter();
        survive_file_size_limit();
        runtime.block_on(async {
            if global.connection.contexts.is_empty() {
                cli.command.run(&mut ctx).await
            } else {
                contexts::run(&cli.command, &global, &mut ctx).await
            }
        })
    });
    finish(&mut ctx, verb, result)
}

/// Prints the error and advice on permissions, and returns the exit code.
fn finish(ctx: &mut Ctx, verb: &str, result: Result<Exit>) -> Exit {
    let advice = ctx.refused().then(|| rbac::advice(verb)).flatten();
    match (result, advice) {
        (Ok(exit), None) => exit,
        (Ok(exit), Some(advice)) => {
            ctx.note(format!("hint: to print the permissions that this command requires, run `{advice}`"));
            exit
        }
        (Err(error), advice) => {
            let error = match advice {
                Some(advice) => error.hint(advice),
                None => error,
            };
            ctx.error(&error);
            error.exit
        }
    }
}

fn runtime() -> Result<Runtime> {
    check_open_files()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::failed(format!("cannot start: {error}")))
}

/// The commands, grouped by task.
pub fn by_task(tree: &clap::Command) -> Vec<(&'static str, Vec<&clap::Command>)> {
    let tasks = commands::tasks().into_iter();
    tasks
        .map(|(heading, names)| {
            let commands = names.iter().filter_map(|name| tree.find_subcommand(name));
            (heading, commands.collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_stands_under_its_task() {
        let tree = Cli::command();
        let names: Vec<&str> = commands::tasks().into_iter().flat_map(|(_, names)| names).collect();
        let known: Vec<&str> = tree.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, known);
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
