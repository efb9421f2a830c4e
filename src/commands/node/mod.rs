//! Nodes, and the state of custom resources on them.

pub mod ignore;
pub mod list;
pub mod reset;
pub mod row;
pub mod status;

use crate::commands::shared::command::group;

group! {
    /// Inspect nodes, reset them, or make the operator ignore them
    Command {
        Status(status::Args),
        List(list::Args),
        Reset(reset::Args),
        Ignore(ignore::Ignore),
        Unignore(ignore::Unignore),
    }
}
