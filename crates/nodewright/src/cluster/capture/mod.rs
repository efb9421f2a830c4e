//! The format that `collect` writes and `--from` reads: the server's lists without secrets, and an index with the
//! result for each source. Nothing here touches files or servers.

pub mod archive;
pub mod index;
pub mod mask;
pub mod pieces;
pub mod recording;

pub use index::{Index, ReadOutcome};
pub use recording::Tape;
