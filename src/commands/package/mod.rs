//! Packages, and their state on each node.

pub mod logs;
pub mod rerun;
pub mod retry;
pub mod status;

use crate::commands::shared::command::group;

group! {
    /// Inspect packages, read their logs, or rerun them
    Command {
        Status(status::Args),
        Logs(logs::Args),
        Rerun(rerun::Args),
        Retry(retry::Args),
    }
}
