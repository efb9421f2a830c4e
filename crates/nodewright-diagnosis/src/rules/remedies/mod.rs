//! Remedies, and functions that add the remedies shared by several rules.

pub(super) mod drain;
pub mod remedy;
pub(super) mod usual;
