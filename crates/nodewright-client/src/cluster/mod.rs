//! A cluster as one immutable value, and the edge [`live`], which reads it from an API server.

pub mod live;

pub use nodewright::cluster::*;
