//! What is wrong with a rollout of NodeWright and how to change it: rules over a cluster, changes as data, waiting, and
//! checks of manifests.
//!
//! Modules are declared in the order in which data flows: each uses only modules declared before it.

pub(crate) use nodewright::{api, bounded, cluster, error, model, reason, redact, suggestions, text as view};

pub mod plan;
pub mod rules;

pub mod outlook;

pub mod wait;

pub mod lint;
