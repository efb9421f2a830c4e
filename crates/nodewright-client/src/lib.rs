//! Reads clusters with NodeWright from an API server, and changes them.
//!
//! Modules are declared in the order in which data flows: each uses only modules declared before it.

pub(crate) use nodewright::{api, bounded, error, reason, redact, suggestions, text as view};
pub(crate) use nodewright_diagnosis::plan;

pub mod args;
pub mod connect;

pub mod cluster;

pub mod apply;
