//! The command line.

use clap::{Parser, Subcommand};

use crate::args::connection::Connection;
use crate::args::output::Output;
use crate::args::reading::Reading;
use crate::args::safety::DryRun;
use crate::commands;

/// Diagnose and repair NodeWright (formerly Skyhook) packages on nodes
///
/// Says what is stuck and why, and what to type next. Talks to the objects that the operator uses: Skyhook
/// (operator up to v0.17) and NodeWright (from v0.18).
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-skyhook",
    bin_name = "kubectl skyhook",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error, 2 findings, 3 refused, 4 partly applied, 5 timed out, 64 usage, \
                  130 interrupted."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

/// The flags that every command takes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Global {
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub connection: Connection,

    /// Taken before the command too, and where nothing is changed anyway
    ///
    /// The commands that change something have the flag of their own; clap hands them what stands here.
    #[arg(long = "dry-run", id = "dry_run", global = true, hide = true, num_args = 0..=1, require_equals = true,
        value_name = "client|server|none", value_parser = DryRun::parse, default_missing_value = "client", default_value = "none",
        overrides_with = "dry_run")]
    pub dry_run: DryRun,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Status(commands::status::Args),
    Wait(commands::wait::Args),
    Diagnose(commands::diagnose::Args),
    Explain(commands::explain::Args),
    Rules(commands::rules::Args),
    #[command(subcommand)]
    Node(commands::node::Command),
    Reset(commands::reset::Args),
    Pause(commands::lifecycle::Pause),
    Resume(commands::lifecycle::Resume),
    Disable(commands::lifecycle::Disable),
    Enable(commands::lifecycle::Enable),
    #[command(subcommand)]
    Package(commands::package::Command),
    #[command(subcommand, visible_alias = "dp")]
    DeploymentPolicy(commands::deployment_policy::Command),
    UpdateState(commands::update_state::Args),
    Uninstall(commands::uninstall::Args),
    #[command(subcommand)]
    Finalizer(commands::finalizer::Command),
    #[command(subcommand)]
    Cordon(commands::cordon::Command),
    ApplyPlan(commands::apply_plan::Args),
    Undo(commands::undo::Args),
    #[command(subcommand)]
    Journal(commands::journal::Command),
    Rbac(commands::rbac::Args),
    Schema(commands::schema::Args),
    Version(commands::version::Args),
    #[command(subcommand)]
    Completion(commands::completion::Command),
    Leftovers(commands::leftovers::Args),
    Undelete(commands::undelete::Args),
    Teardown(commands::teardown::Args),
}

impl Command {
    /// The words that chose the command, for the server's audit log: `node status`.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Diagnose(_) => "diagnose stuck",
            Command::Explain(_) => "explain",
            Command::Rules(_) => "rules",
            Command::Node(command) => command.verb(),
            Command::Reset(_) => "reset",
            Command::Pause(_) => "pause",
            Command::Resume(_) => "resume",
            Command::Disable(_) => "disable",
            Command::Enable(_) => "enable",
            Command::Package(command) => command.verb(),
            Command::DeploymentPolicy(_) => "deployment-policy reset",
            Command::UpdateState(_) => "update-state",
            Command::Uninstall(args) => args.verb(),
            Command::Finalizer(command) => command.verb(),
            Command::Cordon(_) => "cordon release",
            Command::ApplyPlan(_) => "apply-plan",
            Command::Undo(_) => "undo",
            Command::Journal(_) => "journal",
            Command::Status(_) => "status",
            Command::Wait(_) => "wait",
            Command::Rbac(_) => "rbac",
            Command::Schema(_) => "schema",
            Command::Version(_) => "version",
            Command::Completion(_) => "completion",
            Command::Leftovers(_) => "leftovers",
            Command::Undelete(_) => "undelete",
            Command::Teardown(_) => "teardown",
        }
    }
}

/// The commands by task, as help and the manual list them: a heading, and the commands below it.
pub const TASKS: [(&str, &[&str]); 5] = [
    (
        "See what is stuck",
        &[
            "status", "diagnose", "explain", "rules", "wait", "node", "package",
        ],
    ),
    (
        "Change",
        &[
            "reset",
            "pause",
            "resume",
            "disable",
            "enable",
            "update-state",
            "deployment-policy",
            "cordon",
            "apply-plan",
        ],
    ),
    (
        "Uninstall and remove",
        &[
            "uninstall",
            "finalizer",
            "leftovers",
            "undelete",
            "teardown",
        ],
    ),
    ("Look back and take back", &["journal", "undo"]),
    (
        "Settings and this program",
        &["completion", "rbac", "schema", "version"],
    ),
];

/// The commands of each task; those of no task stand with the last one.
pub fn by_task(tree: &clap::Command) -> Vec<(&'static str, Vec<&clap::Command>)> {
    let known = |name: &str| TASKS.iter().any(|(_, names)| names.contains(&name));
    let tasks = TASKS.iter().enumerate().map(|(n, (heading, names))| {
        let named = names.iter().filter_map(|name| tree.find_subcommand(name));
        let others = tree.get_subcommands().filter(|c| !known(c.get_name()));
        let others = others.filter(|c| n + 1 == TASKS.len() && !c.is_hide_set());
        (*heading, named.chain(others).collect())
    });
    tasks.collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_serves_one_task() {
        for command in super::Cli::command().get_subcommands() {
            let tasks = super::TASKS.iter();
            let of = tasks.filter(|(_, names)| names.contains(&command.get_name()));
            assert_eq!(
                of.count(),
                1,
                "say in TASKS what {} is for",
                command.get_name()
            );
        }
    }

    #[test]
    fn the_tree_is_sound() {
        super::Cli::command().debug_assert();
    }
}
