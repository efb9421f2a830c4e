//! Reads clusters with NodeWright from an API server, and changes them.
//!
//! [`connect`] makes a client as kubectl does, from flags and a kubeconfig; [`cluster::live`] reads a
//! [`cluster::Cluster`] with it, and follows it; [`apply`] is the only writer: it applies a plan with guards and retries,
//! and records each change in a journal. A cluster that cannot be reached is an error, which names the server:
//!
//! ```
//! use nodewright_client::args::connection::Connection;
//! use nodewright_client::cluster::{NodeFields, Source, live};
//! use nodewright_client::connect::{self, Environment};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let flags = Connection { server: Some("http://127.0.0.1:1".to_owned()), ..Connection::default() };
//! let connected = connect::connect(&Environment::default(), &flags, "example", None).await?;
//! let (sources, now) = ([Source::Skyhooks, Source::Nodes], || "2026-11-28T12:00:00Z".parse().expect("a time"));
//! let cluster = live::load(&connected.client, &sources, NodeFields::All, None, None, None, &now).await;
//! assert!(cluster.is_err());
//! # Ok::<(), connect::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modules are declared in the order in which data flows: each uses only modules declared before it.

pub(crate) use nodewright::{api, bounded, error, model, redact, text};
pub(crate) use nodewright_diagnosis::plan;

pub mod args;
pub mod connect;

pub mod cluster;

pub mod apply;
