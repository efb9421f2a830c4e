//! Code that rules share, and what is derived from their findings: causes, blockers, impact and mutes.

pub(super) mod attempts;
pub mod blockers;
pub mod causes;
pub(super) mod evidence;
pub mod impact;
pub(super) mod last_activity;
pub mod mute;
pub(super) mod node_troubles;
pub(super) mod overdue;
pub mod reason;
pub(super) mod standstill;
pub(super) mod still_retried;
pub(super) mod undecoded;
