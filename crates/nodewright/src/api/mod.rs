//! The operator's API: kinds, keys, stages and the node-state codec, for both flavors.
//!
//! Serde types and pure functions only. No other module contains the names of the API groups.

pub mod deployment_policy;
pub mod flavor;
pub mod image;
pub mod keys;
pub mod labels;
pub mod meta;
pub mod name;
pub mod node_state;
pub mod object;
pub mod object_name;
pub mod quantity;
pub mod selector;
pub mod shared;
pub mod skyhook;
pub mod stage;
pub mod syntax;
pub mod time;
pub mod version;
pub mod visit;

pub use deployment_policy::DeploymentPolicy;
pub use flavor::{ApiFlavor, Executor};
pub use labels::Labels;
pub use meta::{Condition, ManagedFields, Meta, WithoutManagers};
pub use name::Name;
pub use node_state::{Entry, NodeState};
pub(crate) use object::objects_with_metadata;
pub use object::{Object, UnknownField, UnknownFields};
pub use selector::LabelSelector;
pub use shared::Shared;
pub use skyhook::{Package, Skyhook};
pub use stage::{Stage, State, Status};
pub use version::Version;
