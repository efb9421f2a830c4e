//! The command line: parses it, runs the command for one context or several, and turns the result into an exit code.

mod aliases;
mod completion;
mod tree;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use clap::error::ErrorKind;
use futures::future::join_all;
use glob::Pattern;
use tokio::runtime::{Builder, Runtime};

use crate::args::connection::Connection;
use crate::args::global::Global;
use crate::commands::shared::command::Run;
use crate::commands::{self, Command, rbac};
use crate::connect::{self, Environment};
use crate::ctx::{Ctx, survive_file_size_limit};
use crate::error::{Error, Exit, Result};
use crate::program::{Process, Program};
use crate::view::OutputFormat;
use crate::view::contexts::{ContextAnswer, Contexts};

/// The end of `--help`: the choice between similar commands, and exit codes.
const AFTER_HELP: &str = "\
Which command?
  package retry       a stage has failed for good: run it again, keep its record
  package rerun       a package has run, or fails: run it again from its first stage
  reset               a node was re-imaged, or its record is wrong: drop the record, run all packages
  pause               stop a custom resource for now; later ones wait for it
  disable             stop a custom resource indefinitely; later ones do not wait
  node ignore         stop all custom resources on some nodes; the others go on

Exit codes: 0 done, 1 error, 2 findings, 3 refused, 4 partly applied, 5 timed out, 64 usage, 130 interrupted.";

/// Maximum number of columns of help, and their number without a terminal.
const COLUMNS: usize = 100;

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
    max_term_width = COLUMNS,
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

/// Runs the program as it was called.
pub fn main(process: &Process) -> Exit {
    let mut args = process.args.clone();
    let program = args.first().map_or(Program::SKYHOOK, |name| Program::of(name));
    program.name_commands();
    if let Some(exit) = completion::answered(process, program) {
        return exit;
    }
    // `help node list` is `node list -h`.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("-h".into());
    }
    let typed = args.clone();
    args = aliases::resolved(tree::levels_joined(args));
    // Without a terminal, clap would measure that of this process.
    let columns = (!process.is_own()).then_some(COLUMNS);
    let mut parsed = program.parse(args.iter().cloned(), columns);
    if matches!(&parsed, Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        // Print help on stdout even without `--help`; clap does so only with the flag.
        args.push("-h".into());
        parsed = program.parse(args, columns);
    }
    match parsed {
        Ok(cli) => run(process, cli, &typed),
        Err(error) => {
            print(process, &error);
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            }
        }
    }
}

/// Prints help or an error of the command line. Write errors are ignored: they cannot be reported.
fn print(process: &Process, error: &clap::Error) {
    let _ = if process.is_own() {
        error.print()
    } else {
        let mut stream = if error.use_stderr() { process.stderr() } else { process.stdout() };
        stream.write_all(error.render().to_string().as_bytes())
    };
}

/// `typed`: the command line before aliases were resolved.
fn run(process: &Process, cli: Cli, typed: &[OsString]) -> Exit {
    let info = cli.command.info();
    let verb = info.words;
    let global = cli.global;
    let mut ctx = Ctx::new(process, global.clone(), verb);
    ctx.node_fields(info.node_fields);
    let result = runtime().and_then(|runtime| {
        let _entered = runtime.enter();
        survive_file_size_limit();
        runtime.block_on(async {
            if global.connection.contexts.is_empty() {
                cli.command.run(&mut ctx).await
            } else {
                run_in_each(process, &cli.command, &global, &mut ctx).await
            }
        })
    });
    let is_document = global.output.format.is_data() && global.output.format != OutputFormat::Name;
    if result.is_ok() && is_document && aliases::gets_object(typed) {
        ctx.note("This is the plugin's own document; `kubectl get` prints the Kubernetes objects.");
    }
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
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::failed(format!("cannot start: {error}")))
}

/// The commands, grouped by task.
pub fn by_task(tree: &clap::Command) -> Vec<(&'static str, Vec<&clap::Command>)> {
    commands::tasks()
        .into_iter()
        .map(|(heading, names)| {
            let commands = names.iter().filter_map(|name| tree.find_subcommand(name));
            (heading, commands.collect())
        })
        .collect()
}

/// Runs the command for every context that `--contexts` matches, all at the same time, and shows the results
/// as one.
async fn run_in_each(process: &Process, command: &Command, global: &Global, ctx: &mut Ctx) -> Result<Exit> {
    let info = command.info();
    if !info.only_reads() {
        return Err(Error::usage(format!(
            "{} changes a cluster, and takes exactly one context; use --context NAME",
            info.words
        )));
    }
    if !info.is_online() {
        return Err(Error::usage(format!("{} does not support --contexts; use --context NAME", info.words)));
    }
    refuse_other_selection(global)?;
    let answers =
        chosen(process, &global.connection)?.into_iter().map(|name| answer(process, command, global, name));
    let answers = join_all(answers).await;
    let (exits, answers): (Vec<Exit>, Vec<ContextAnswer>) = answers.into_iter().unzip();
    ctx.show(&Contexts(answers))?;
    Ok(Exit::of_several(exits))
}

async fn answer(
    process: &Process,
    command: &Command,
    global: &Global,
    context: String,
) -> (Exit, ContextAnswer) {
    let mut global = global.clone();
    global.connection.contexts.clear();
    global.connection.context = Some(context.clone());
    let info = command.info();
    let verb = info.words;
    let mut ctx = Ctx::of_context(process, global, verb, &context);
    ctx.node_fields(info.node_fields);
    let result = command.run(&mut ctx).await;
    let error = result.as_ref().err().map(|error| error.message.clone());
    let exit = finish(&mut ctx, verb, result);
    let answer = ContextAnswer { exit_code: exit.code(), error, captured: ctx.into_captured() };
    (exit, answer)
}

/// Refuses other flags that select a cluster.
fn refuse_other_selection(global: &Global) -> Result<()> {
    let connection = &global.connection;
    let flags = [
        ("--context", connection.context.is_some()),
        ("--cluster", connection.cluster.is_some()),
        ("--server", connection.server.is_some()),
        ("--from", !global.reading.from.is_empty()),
    ];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Error::usage(format!("--contexts cannot be used with {flag}"))),
        None => Ok(()),
    }
}

/// The contexts of the kubeconfig that match the names and globs: each once, in the order of the flag.
/// Matches of one glob are sorted.
fn chosen(process: &Process, connection: &Connection) -> Result<Vec<String>> {
    let environment = Environment::of(|name| process.variable_os(name));
    let known = connect::names(&environment, connection)?.contexts;
    let mut chosen: Vec<String> = Vec::new();
    for pattern in &connection.contexts {
        let glob =
            Pattern::new(pattern).map_err(|error| Error::usage(format!("--contexts: {pattern}: {error}")))?;
        let mut matches: Vec<&String> =
            known.iter().filter(|name| *name == pattern || glob.matches(name)).collect();
        if matches.is_empty() {
            let known = known.iter().map(String::as_str);
            return Err(Error::unknown("context", pattern, known));
        }
        matches.sort();
        for name in matches {
            if !chosen.contains(name) {
                chosen.push(name.clone());
            }
        }
    }
    Ok(chosen)
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
