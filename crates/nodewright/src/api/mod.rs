//! The operator's API: kinds, keys, stages and the node-state codec, for both flavors.
//!
//! Serde types and pure functions only. No other module contains the names of the API groups.

pub mod keys;
pub mod labels;
pub mod meta;
pub mod name;
pub mod node_state;
pub mod quantity;
pub mod shared;
pub mod skyhook;
pub mod visit;

pub use keys::{ApiFlavor, Executor, Version};
pub use labels::{LabelSelector, Labels};
pub(crate) use meta::objects_with_metadata;
pub use meta::{Condition, ManagedFields, Meta, Object, UnknownField, UnknownFields, WithoutManagers};
pub use name::Name;
pub use node_state::{Entry, NodeState, Stage, State, Status};
pub use shared::Shared;
pub use skyhook::{DeploymentPolicy, Package, Skyhook};
