//! What `collect` writes and `--from` reads: the lists as the server gave them, without their secrets, and an index
//! that says of every source whether it was read. Nothing here touches files or servers.

pub mod archive;
pub mod index;
pub mod mask;
pub mod pieces;
pub mod slim;
pub mod tape;

pub use index::{Index, ReadOutcome};
pub use tape::{CaptureLimits, Keep, Tape};
