//! The flags that select the cluster, and the values that they take.

pub mod boolean;
pub mod connection;
pub mod duration;
pub mod redacted;
