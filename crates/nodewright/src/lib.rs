//! NVIDIA NodeWright (formerly Skyhook): the operator's types, a cluster as one immutable value, and a model of the
//! operator's next actions.
//!
//! Everything is pure and synchronous, except that [`dump`] reads files. [`api`] has the operator's types and keys
//! for both API groups; [`cluster::Cluster`] is what was read, with queries; [`model::Model`] is one reconcile of the
//! operator over it.
//!
//! ```
//! use nodewright::dump;
//! use nodewright::model::{Model, ProgressState};
//!
//! let cluster = dump::load(&["../../tests/clusters/deleted-while-erroring".into()], None)?;
//! let model = Model::new(&cluster);
//! for skyhook in &cluster.skyhooks {
//!     for (node, progress) in model.all_progress(skyhook.name()) {
//!         println!("{} on {}: {}", skyhook.name(), node.name, progress.state.word());
//!         assert_ne!(progress.state, ProgressState::Complete);
//!     }
//! }
//! # Ok::<(), dump::DumpError>(())
//! ```
//!
//! Modules are declared in the order in which data flows: each uses only modules declared before it.

pub mod bounded;
pub mod redact;

pub mod error;

pub mod api;
pub mod text;

pub mod cluster;
pub mod model;

pub mod dump;
