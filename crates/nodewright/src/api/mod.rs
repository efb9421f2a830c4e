//! The operator's API: kinds, keys, stages and the node-state codec, for both flavors.
//!
//! Serde types and pure functions only. No other module contains the names of the API groups.

pub mod flavor;
pub mod keys;
pub mod labels;
pub mod meta;
pub mod name;
pub mod node_state;
pub mod object;
pub mod quantity;
pub mod shared;
pub mod skyhook;
pub mod visit;

pub use flavor::{ApiFlavor, Executor};
pub use keys::Version;
pub use labels::LabelSelector;
pub use labels::Labels;
pub use meta::{Condition, ManagedFields, Meta, WithoutManagers};
pub use name::Name;
pub use node_state::{Entry, NodeState};
pub use node_state::{Stage, State, Status};
pub(crate) use object::objects_with_metadata;
pub use object::{Object, UnknownField, UnknownFields};
pub use shared::Shared;
pub use skyhook::DeploymentPolicy;
pub use skyhook::{Package, Skyhook};
