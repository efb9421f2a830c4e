//! What is wrong with a rollout of NodeWright, and how to change it.
//!
//! [`rules`] finds causes and effects in a cluster, with evidence and remedies; [`plan`] has changes as data, which say
//! what they do before they are applied; [`wait`] judges whether a goal is reached or blocked; [`lint`] checks manifests.
//! Everything is pure, except that `lint` reads files.
//!
//! ```
//! use nodewright::dump;
//! use nodewright_diagnosis::rules::{self, Scope};
//!
//! let cluster = dump::load(&["../../tests/clusters/deleted-while-erroring".into()], None)?;
//! let report = rules::diagnose(&cluster, &Scope::default());
//! for finding in &report.findings {
//!     println!("{} {}", finding.rule.code, finding.rule.name);
//!     for remedy in finding.remedies() {
//!         println!("  {}", remedy.argv.join(" "));
//!     }
//! }
//! assert!(!report.findings.is_empty());
//! # Ok::<(), dump::DumpError>(())
//! ```
//!
//! Modules are declared in the order in which data flows: each uses only modules declared before it.

pub(crate) use nodewright::{api, bounded, cluster, error, model, redact, text};

pub mod plan;
pub mod rules;

pub mod outlook;

pub mod wait;

pub mod lint;
