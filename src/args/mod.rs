//! Flag groups that commands share.

pub mod global;
pub mod labels;
pub mod listing;
pub mod named;
pub mod nodes;
pub mod output;
pub mod reading;
pub mod safety;
pub mod selection;
pub mod size;

pub use nodewright_client::args::{boolean, connection, duration, redacted};
