//! Plan files, and the digest over their whole content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::{ClusterIdentity, Plan, ReadSpec};

/// The format of the file. Increment the version with every change that makes older files unreadable.
pub const FORMAT: &str = "kubectl-skyhook/plan/v3";

/// Why text is not a plan.
#[derive(Debug, Error)]
pub enum SavedError {
    #[error("not a plan file written by --plan-out")]
    Syntax(#[from] serde_json::Error),
    #[error("unsupported plan format {0:?}; this version reads only {FORMAT:?}")]
    Format(String),
    #[error("the plan does not match its digest: the file was edited or truncated")]
    Digest,
    #[error("a stage depends on itself or on a later stage")]
    Order,
}

/// A plan file, as written by `--plan-out`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlan {
    /// The version of the file format.
    format: String,
    /// The first 12 bytes of the SHA-256 of all other fields, in hexadecimal.
    digest: String,
    /// The cluster that the plan was made for; absent if the plan was made from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// The custom resources whose specs determine the side effects; `apply-plan` refuses the plan if one has
    /// changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specs: Vec<ReadSpec>,
    #[serde(flatten)]
    pub plan: Plan,
}

impl SavedPlan {
    /// The file for a plan; `cluster` is `None` for a plan from files, and `specs` are all custom resources
    /// that were read.
    pub fn of(plan: &Plan, cluster: Option<ClusterIdentity>, specs: Vec<ReadSpec>) -> SavedPlan {
        let mut saved = SavedPlan {
            format: FORMAT.to_owned(),
            digest: String::new(),
            cluster,
            specs: ReadSpec::of_plan(specs, plan),
            plan: plan.clone(),
        };
        let mut document = serde_json::to_value(&saved).expect("a plan is JSON");
        saved.digest = digest(&mut document);
        saved
    }

    /// The digest, which covers all data that is displayed, confirmed and checked.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The text of the plan file.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan is JSON");
        text.push('\n');
        text
    }

    /// Reads the text that [`SavedPlan::text`] wrote.
    ///
    /// # Errors
    ///
    /// The text is not a plan, has another format, was edited, or has a stage that depends on a later one.
    pub fn parse(text: &str) -> Result<SavedPlan, SavedError> {
        let mut document: Value = serde_json::from_str(text)?;
        let Header { format, digest: written } = Header::deserialize(&document)?;
        if format != FORMAT {
            return Err(SavedError::Format(format));
        }
        if digest(&mut document) != written {
            return Err(SavedError::Digest);
        }
        document["digest"] = Value::from(written);
        let saved: SavedPlan = serde_json::from_value(document)?;
        if !saved.plan.is_in_order() {
            return Err(SavedError::Order);
        }
        Ok(saved)
    }
}

#[derive(Deserialize)]
struct Header {
    format: String,
    #[serde(default)]
    digest: String,
}

/// Length of the digest in bytes: long enough to avoid collisions, short enough to compare by eye.
const DIGEST_BYTES: usize = 12;

/// The digest of the whole document in its canonical form: without its own digest, members sorted by name.
fn digest(document: &mut Value) -> String {
    if let Some(members) = document.as_object_mut() {
        members.shift_remove("digest");
    }
    document.sort_all_objects();
    let digest = ring::digest::digest(&ring::digest::SHA256, document.to_string().as_bytes());
    let hex = |byte: &u8| format!("{byte:02x}");
    digest.as_ref()[..DIGEST_BYTES].iter().map(hex).collect()
}
