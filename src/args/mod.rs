//! Flag groups that commands share.

pub mod boolean;
pub mod connection;
pub mod listing;
pub mod output;
pub mod reading;
pub mod safety;
pub mod selection;
