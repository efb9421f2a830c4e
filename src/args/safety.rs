//! The flags of commands that change something: dry run, confirmation and limits.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::connection::{boolean, duration};
use super::nodes::NodeArg;
use crate::apply::{Canary, Options, Share};

/// The heading of these flags in the help.
pub const HEADING: &str = "Change options";
/// The flags that the short help lists.
pub const MOST_USED: [&str; 3] = ["confirm", "dry_run", "diff"];

/// Flags for the preview, confirmation and limits of a change.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub struct Safety {
    #[command(flatten)]
    confirmation: Confirmation,

    /// Roll out gradually: this many nodes first, or this percentage, then twice as many each time
    #[arg(long, value_name = "N|P%")]
    pub canary: Option<Share>,

    /// How long to wait between waves of nodes, before checking for erroring nodes
    #[arg(long, value_name = "DURATION", default_value = "60s", hide_default_value = true,
        value_parser = duration, requires = "canary")]
    pub pause_between: Duration,

    /// Stop once more nodes than this have failed or become erroring
    #[arg(long, value_name = "N")]
    pub max_failures: Option<usize>,
}

/// The flags of a change that does not write to nodes: the operator sets its pace.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub struct Confirmation {
    /// Skip confirmation
    ///
    /// Without a terminal, changes require this flag, or y on standard input. If nodes reboot, services restart, pods
    /// are evicted or installation records are lost (B3 and B4), y does not suffice. `node ignore` and `node unignore`
    /// need neither, unless work begins on nodes.
    #[arg(short = 'y', long, visible_alias = "yes")]
    pub confirm: bool,

    /// Show what would be changed, and change nothing
    ///
    /// With server, the API server validates each change without storing it: permissions, admission and conflicts are
    /// checked.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "client|server|none",
        value_parser = DryRun::parse, default_missing_value = "client", default_value = "none",
        hide_default_value = true)]
    pub dry_run: DryRun,

    /// Show the changes to each object as a diff
    #[arg(long)]
    pub diff: bool,

    /// Write the plan to a file, for `apply-plan`, and change nothing
    #[arg(long, value_name = "FILE")]
    pub plan_out: Option<PathBuf>,

    /// Refuse to change more nodes than this
    #[arg(long, value_name = "N")]
    pub max_nodes: Option<usize>,

    /// Uncordon this node even if someone outside the operator keeps it cordoned; may be repeated
    ///
    /// Without this flag, nodes that are in quarantine, in maintenance, being deleted, or cordoned by hand stay
    /// cordoned.
    #[arg(long, value_name = "NODE")]
    pub force_uncordon: Vec<NodeArg>,

    /// Maximum number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub max_parallel: usize,

    /// Do not write a journal: `undo` cannot revert these changes
    #[arg(long)]
    pub no_journal: bool,
}

impl From<&Confirmation> for Safety {
    fn from(confirmation: &Confirmation) -> Safety {
        let confirmation = confirmation.clone();
        Safety { confirmation, canary: None, pause_between: Duration::ZERO, max_failures: None }
    }
}

impl Deref for Safety {
    type Target = Confirmation;

    fn deref(&self) -> &Confirmation {
        &self.confirmation
    }
}

impl Safety {
    /// The options of a change from these flags, on top of `defaults`.
    pub fn options(&self, defaults: Options) -> Options {
        Options {
            parallel: self.max_parallel,
            dry_run: self.dry_run == DryRun::Server,
            canary: self.canary.map(|first| Canary { first, pause: self.pause_between }),
            max_failures: self.max_failures,
            ..defaults
        }
    }
}

/// The value of `--dry-run`: whether a change is only shown, or only checked by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

impl DryRun {
    /// Parses `--dry-run` as kubectl does. Booleans are accepted too, because existing scripts pass them.
    pub fn parse(text: &str) -> Result<DryRun, String> {
        match text {
            "none" => Ok(DryRun::None),
            "client" => Ok(DryRun::Client),
            "server" => Ok(DryRun::Server),
            other => boolean(other)
                .map(|on| if on { DryRun::Client } else { DryRun::None })
                .map_err(|_| "expected client, server or none".to_owned()),
        }
    }
}

fn parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=256) => Ok(n),
        _ => Err("expected a number from 1 to 256".to_owned()),
    }
}

/// Whether to proceed during a migration from one API to the other.
#[derive(Debug, Clone, Copy, Args)]
pub struct Force {
    /// Proceed even during the migration from Skyhook to NodeWright, while the operator does nothing (SKY601)
    #[arg(long)]
    pub force: bool,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;
    use crate::args::connection::with_boolean_values;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        safety: Safety,
        name: Option<String>,
    }

    fn parse(words: &str) -> Option<Safety> {
        let words = ["x"].into_iter().chain(words.split_whitespace());
        let matches = with_boolean_values(Cli::command()).try_get_matches_from(words).ok()?;
        Some(Cli::from_arg_matches(&matches).expect("it fits").safety)
    }

    #[test]
    fn flags_are_spelled_as_scripts_spell_them() {
        for (words, confirm, dry_run) in [
            ("", false, DryRun::None),
            ("-y", true, DryRun::None),
            ("--yes name", true, DryRun::None),
            ("--confirm=false", false, DryRun::None),
            ("--confirm --confirm=F", false, DryRun::None),
            ("-y=T", true, DryRun::None),
            ("--dry-run name", false, DryRun::Client),
            ("--dry-run=true", false, DryRun::Client),
            ("--dry-run=false", false, DryRun::None),
            ("--dry-run=server --dry-run=client", false, DryRun::Client),
            ("--dry-run=server", false, DryRun::Server),
        ] {
            let safety = parse(words).unwrap_or_else(|| panic!("{words} does not parse"));
            assert_eq!((safety.confirm, safety.dry_run), (confirm, dry_run), "{words}");
        }
        for words in ["--dry-run=maybe", "--confirm=yes", "--max-parallel 0", "--canary 0"] {
            assert!(parse(words).is_none(), "{words}");
        }
    }
}
