//! One file per command: its arguments, whose doc comments are its manual, and its `run` function.
//!
//! To add a command: write its file, with `Args`, `run` and a `command!` that declares its sources, writes and
//! documents; then add it to the table below, under its task.

pub mod apply_plan;
pub mod collect;
pub mod completion;
pub mod deployment_policy;
pub mod diagnose;
pub mod diff;
pub mod events;
pub mod explain;
pub mod finalizer;
pub mod fix;
pub mod journal;
pub mod leftovers;
pub mod lifecycle;
pub mod lint;
pub mod node;
pub mod package;
pub mod rbac;
pub mod report;
pub mod reset;
pub mod schema;
pub mod shared;
pub mod status;
pub mod teardown;
pub mod undelete;
pub mod undo;
pub mod uninstall;
pub mod update_state;
pub mod version;
pub mod wait;

use clap::{FromArgMatches, Subcommand};

use self::shared::command::{CommandInfo, Run, group};
use crate::args::connection::with_boolean_values;

/// Declares [`Command`] and [`tasks`].
macro_rules! table {
    ($($heading:literal { $($(#[$attribute:meta])* $name:ident($args:ty),)+ })+) => {
        group! {
            /// Every command.
            Command { $($($(#[$attribute])* $name($args),)+)+ }
        }

        /// The commands by task, in the order of the help and the manual: a heading, and the names below it.
        pub fn tasks() -> Vec<(&'static str, Vec<&'static str>)> {
            vec![$(($heading, vec![$(name::<$args>()),+])),+]
        }
    };
}

table! {
    "Diagnose and watch" {
        Status(status::Args),
        Diagnose(diagnose::Args),
        Events(events::Args),
        Explain(explain::Args),
        Lint(lint::Args),
        Wait(wait::Args),
        Collect(collect::Args),
        Report(report::Args),
        Diff(diff::Args),
        #[command(subcommand)]
        Node(node::Command),
        #[command(subcommand)]
        Package(package::Command),
    }
    "Change" {
        Fix(fix::Args),
        Reset(reset::Args),
        Pause(lifecycle::Pause),
        Resume(lifecycle::Resume),
        Disable(lifecycle::Disable),
        Enable(lifecycle::Enable),
    }
    "Uninstall and remove" {
        Uninstall(uninstall::Request),
        #[command(subcommand)]
        Finalizer(finalizer::Command),
        Leftovers(leftovers::Args),
        Teardown(teardown::Args),
    }
    "History and undo" {
        #[command(subcommand)]
        Journal(journal::Command),
        Undo(undo::Args),
    }
    "Advanced" {
        UpdateState(update_state::Args),
        #[command(subcommand, visible_alias = "dp")]
        DeploymentPolicy(deployment_policy::Command),
        ApplyPlan(apply_plan::Args),
        Undelete(undelete::Args),
    }
    "Other commands" {
        Completion(completion::Args),
        Rbac(rbac::Args),
        Schema(schema::Args),
        Version(version::Args),
    }
}

/// The commands that `-h` lists.
pub const EVERYDAY: [&str; 14] = [
    "status",
    "diagnose",
    "events",
    "explain",
    "lint",
    "collect",
    "node",
    "package",
    "fix",
    "reset",
    "pause",
    "resume",
    "uninstall",
    "undo",
];

/// Every command without subcommands, in the order of the table.
pub fn all() -> Vec<&'static CommandInfo> {
    Command::all()
}

/// Parses commands of this plugin from the words of remedies.
pub struct Parser(clap::Command);

impl Default for Parser {
    fn default() -> Parser {
        let tree = clap::Command::new("kubectl-skyhook").no_binary_name(true);
        Parser(with_boolean_values(Command::augment_subcommands(tree)))
    }
}

impl Parser {
    /// # Errors
    ///
    /// clap's error for words that are no command.
    pub fn parse(&mut self, words: &[String]) -> Result<Command, clap::Error> {
        Command::from_arg_matches(&self.0.try_get_matches_from_mut(words)?)
    }
}

/// The first word of a command or of a group of commands.
fn name<T: Run>() -> &'static str {
    let words = T::all()[0].words;
    words.split_once(' ').map_or(words, |(group, _)| group)
}
