//! What `collect` writes and `--from` reads: the lists as the server gave them, without their secrets, and an index
//! that says of every source whether it was read. Nothing here touches files or servers.

pub mod archive;
pub mod index;
pub mod mask;
pub mod pieces;
pub mod recording;
pub mod slim;

pub use index::{Index, ReadOutcome};
pub use recording::{CaptureLimits, Keep, Tape};
