//! `finalizer`: deletions that do not finish.

pub mod strip;

use crate::commands::shared::command::group;

group! {
    /// Force a deletion that does not finish
    Command {
        Strip(strip::Args),
    }
}
