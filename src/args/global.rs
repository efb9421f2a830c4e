//! The flags that every command takes.

use super::connection::Connection;
use super::output::Output;
use super::reading::Reading;
use super::safety::DryRun;

/// Flags of every command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Global {
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub connection: Connection,

    /// Accepted as by kubectl, and ignored: custom resources have no namespace
    #[arg(short = 'A', long = "all-namespaces", global = true, hide = true)]
    pub all_namespaces: bool,

    /// Also accepted before the command; ignored by commands that change nothing
    ///
    /// Commands that change something define this flag themselves, and clap passes on the value given here.
    #[arg(long = "dry-run", id = "dry_run", global = true, hide = true, num_args = 0..=1, require_equals = true,
        value_name = "client|server|none", value_parser = DryRun::parse, default_missing_value = "client", default_value = "none")]
    pub dry_run: DryRun,
}
