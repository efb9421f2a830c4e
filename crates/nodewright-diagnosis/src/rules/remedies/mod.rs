//! Remedies, and functions that add the remedies shared by several rules.

pub(super) mod drain;
pub(super) mod ignore_nodes;
pub mod remedy;
mod reset;
pub(super) mod resume_effects;
pub(super) mod retry;
pub(super) mod usual;
