//! Flag groups that commands share.

pub mod global;
pub mod labels;
pub mod listing;
pub mod nodes;
pub mod safety;

pub use nodewright_client::args::{connection, redacted};
