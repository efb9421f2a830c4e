//! The request to uninstall packages: their order, the edits of the spec, and the effects on nodes.

pub mod effects;
pub mod order;
pub mod placement_summary;
pub mod spec;
