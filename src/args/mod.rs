//! Flag groups that commands share.

pub mod boolean;
pub mod connection;
pub mod duration;
pub mod global;
pub mod labels;
pub mod listing;
pub mod named;
pub mod nodes;
pub mod output;
pub mod reading;
pub mod redacted;
pub mod safety;
pub mod selection;
pub mod size;
