//! `finalizer`: deletions that do not finish.

mod deletion;
pub mod document;
mod report;
pub mod status;
pub mod strip;

use crate::commands::shared::command::group;

group! {
    /// Inspect a deletion that does not finish, or force it
    Command {
        Status(status::Args),
        Strip(strip::Args),
    }
}
