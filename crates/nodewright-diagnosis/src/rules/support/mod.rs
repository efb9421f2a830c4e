//! Code that rules share, and what is derived from their findings: causes, blockers, impact and mutes.

pub mod blockers;
pub mod causes;
pub(super) mod evidence;
pub mod mute;
pub(super) mod overdue;
pub mod reason;
pub(super) mod standstill;
