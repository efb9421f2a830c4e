//! One file a command: its arguments, which are its manual, and how to carry it out.

mod admission;
pub mod apply_plan;
pub mod completion;
pub mod cordon;
mod deletion;
pub mod deployment_policy;
pub mod diagnose;
pub mod explain;
pub mod finalizer;
pub mod journal;
pub mod leftovers;
pub mod lifecycle;
pub mod migration;
pub mod node;
pub mod package;
pub mod picking;
pub mod rbac;
pub mod reset;
pub mod rules;
pub mod schema;
pub mod status;
pub mod teardown;
pub mod undelete;
pub mod undo;
pub mod uninstall;
pub mod update_state;
pub mod version;
pub mod wait;

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::program::Program;

/// The `apiVersion` of the documents that this program prints.
pub const API_VERSION: &str = "kubectl-skyhook/v1";

/// Runs the program with its arguments; the first is its name.
pub fn main(args: impl Iterator<Item = OsString>) -> Exit {
    let mut args: Vec<OsString> = args.collect();
    let program = args
        .first()
        .map_or(Program::SKYHOOK, |name| Program::of(name));
    if let Some(exit) = completion::answered(program, &args) {
        return exit;
    }
    // `help node list` is `node list -h`.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("-h".into());
    }
    let mut parsed = program.parse(args.iter().cloned());
    if matches!(&parsed, Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
    {
        // Asked for or not, help is an answer, and clap prints only what was asked for on stdout.
        args.push("-h".into());
        parsed = program.parse(args);
    }
    match parsed {
        Ok(cli) => run(cli),
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            }
        }
    }
}

fn run(cli: Cli) -> Exit {
    let verb = cli.command.verb();
    let mut ctx = Ctx::new(cli.global, verb);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(&mut ctx, &cli.command)),
        Err(error) => Err(Error::failed(format!("cannot start: {error}"))),
    };
    let advice = ctx.refused().then(|| rbac::advice(verb)).flatten();
    match (result, advice) {
        (Ok(exit), None) => exit,
        (Ok(exit), Some(advice)) => {
            ctx.note(format!("hint: {advice} prints the rights that it takes"));
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

async fn dispatch(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    match command {
        Command::Diagnose(args) => diagnose::run(ctx, args).await,
        Command::Explain(args) => explain::run(ctx, args),
        Command::Rules(args) => rules::run(ctx, args),
        Command::Node(command) => node::run(ctx, command).await,
        Command::Package(command) => package::run(ctx, command).await,
        Command::Status(args) => status::run(ctx, args).await,
        Command::Wait(args) => wait::run(ctx, args).await,
        Command::Rbac(args) => rbac::run(ctx, args),
        Command::Schema(args) => schema::run(ctx, args),
        Command::Version(args) => version::run(ctx, args).await,
        Command::Reset(args) => reset::run(ctx, args).await,
        Command::Pause(args) => lifecycle::pause(ctx, args).await,
        Command::Resume(args) => lifecycle::resume(ctx, args).await,
        Command::Disable(args) => lifecycle::disable(ctx, args).await,
        Command::Enable(args) => lifecycle::enable(ctx, args).await,
        Command::DeploymentPolicy(command) => deployment_policy::run(ctx, command).await,
        Command::UpdateState(args) => update_state::run(ctx, args).await,
        Command::Uninstall(args) => uninstall::run(ctx, args).await,
        Command::Finalizer(command) => finalizer::run(ctx, command).await,
        Command::Cordon(command) => cordon::run(ctx, command).await,
        Command::ApplyPlan(args) => apply_plan::run(ctx, args).await,
        Command::Undo(args) => undo::run(ctx, args).await,
        Command::Journal(command) => journal::run(ctx, command),
        Command::Completion(command) => completion::run(ctx, command),
        Command::Leftovers(args) => leftovers::run(ctx, args).await,
        Command::Undelete(args) => undelete::run(ctx, args).await,
        Command::Teardown(args) => teardown::run(ctx, args).await,
    }
}
