//! NVIDIA NodeWright (formerly Skyhook): the operator's types, a cluster as one immutable value, and a model of what the
//! operator does next.
//!
//! Everything is pure and synchronous, except that [`cluster::dump`] reads files. Modules are declared in the order in
//! which data flows: each uses only modules declared before it.

pub mod bounded;
pub mod redact;

pub mod reason;
pub mod suggestions;

pub mod error;

pub mod api;
pub mod text;

pub mod cluster;
pub mod model;
