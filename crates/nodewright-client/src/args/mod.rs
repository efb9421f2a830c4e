//! The flags that select the cluster, and the values that they take.

pub mod connection;
pub mod redacted;
