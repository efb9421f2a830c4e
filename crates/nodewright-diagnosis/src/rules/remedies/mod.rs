//! Remedies, and functions that add the remedies shared by several rules.

pub(super) mod drain;
pub mod remedy;
mod reset;
pub(super) mod resume_effects;
pub(super) mod retry;
pub(super) mod usual;
