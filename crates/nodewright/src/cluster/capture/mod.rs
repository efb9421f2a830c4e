//! The format that `collect` writes and `--from` reads: the server's lists without secrets, and an index with the
//! result for each source. Nothing here touches files or servers.

pub mod index;
pub mod mask;

pub use index::Tape;
pub use index::{Index, ReadOutcome};
