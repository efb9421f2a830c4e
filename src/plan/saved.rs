//! A plan as a file, and the digest that binds what was shown to what is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{ClusterIdentity, Plan, ReadSpec};

/// The format of the file. A later one that readers of this one cannot take gets another number.
pub const FORMAT: &str = "kubectl-skyhook/plan/v1";

/// Why text is not a plan.
#[derive(Debug, Error)]
pub enum SavedError {
    #[error("not a plan file written by --plan-out")]
    Syntax(#[from] serde_json::Error),
    #[error("unsupported plan format {0:?}; this version reads only {FORMAT:?}")]
    Format(String),
    #[error("the changes do not match the digest: the file was edited or truncated")]
    Digest,
    #[error("a stage depends on itself or on a later stage")]
    Order,
}

/// A plan as `--plan-out` writes it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SavedPlan {
    format: String,
    digest: String,
    /// The cluster that it was made for; missing where it was made from files, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// The custom resources on whose specs its effects depend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specs: Vec<ReadSpec>,
    #[serde(flatten)]
    pub plan: Plan,
}

impl SavedPlan {
    /// A plan for a cluster, if it is for a certain one, made from these custom resources.
    pub fn of(plan: &Plan, cluster: Option<ClusterIdentity>, specs: Vec<ReadSpec>) -> SavedPlan {
        SavedPlan {
            format: FORMAT.to_owned(),
            digest: plan.digest(),
            cluster,
            specs: ReadSpec::of_plan(specs, plan),
            plan: plan.clone(),
        }
    }

    /// The text of a file.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan is JSON");
        text.push('\n');
        text
    }

    /// Reads what [`SavedPlan::text`] wrote.
    ///
    /// # Errors
    ///
    /// It is something else, of another format, or was edited.
    pub fn parse(text: &str) -> Result<SavedPlan, SavedError> {
        let format: Format = serde_json::from_str(text)?;
        if format.format != FORMAT {
            return Err(SavedError::Format(format.format));
        }
        let saved: SavedPlan = serde_json::from_str(text)?;
        if saved.plan.digest() != saved.digest {
            return Err(SavedError::Digest);
        }
        if !saved.plan.is_in_order() {
            return Err(SavedError::Order);
        }
        Ok(saved)
    }
}

impl Plan {
    /// Names what the plan does: its targets, guards and changes, and in which order of stages.
    pub fn digest(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            for step in &stage.steps {
                let all = (number, &step.target, &step.guard, &step.change);
                lines.push(serde_json::to_string(&all).expect("a step is JSON"));
            }
            let until = serde_json::to_string(&(number, &stage.until)).expect("it is JSON");
            lines.push(until);
            if let Some(after) = &stage.after {
                lines.push(format!("{number} after {after:?}"));
            }
            if !stage.requires.is_empty() {
                lines.push(format!("{number} requires {:?}", stage.requires));
            }
        }
        lines.sort_unstable();
        let digest = ring::digest::digest(&ring::digest::SHA256, lines.join("\n").as_bytes());
        let hex = |byte: &u8| format!("{byte:02x}");
        digest.as_ref()[..DIGEST_BYTES].iter().map(hex).collect()
    }
}

#[derive(Deserialize)]
struct Format {
    format: String,
}

/// Enough that no two plans meet by chance, and short enough to compare by eye.
const DIGEST_BYTES: usize = 12;
