//! A plan as a file, and the digest that binds what was shown to what is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Plan;

/// The format of the file. A later one that readers of this one cannot take gets another number.
pub const FORMAT: &str = "kubectl-skyhook/plan/v1";

/// Why text is not a plan.
#[derive(Debug, Error)]
pub enum SavedError {
    #[error("not what --plan-out writes")]
    Syntax(#[from] serde_json::Error),
    #[error("a plan of format {0:?}, which this version does not know; it reads {FORMAT:?}")]
    Format(String),
    #[error("its changes do not fit its digest: it was edited or cut short")]
    Digest,
}

/// A plan as `--plan-out` writes it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    format: String,
    digest: String,
    #[serde(flatten)]
    plan: Plan,
}

impl Plan {
    /// The plan as the text of a file.
    pub fn save(&self) -> String {
        let saved = Saved {
            format: FORMAT.to_owned(),
            digest: self.digest(),
            plan: self.clone(),
        };
        let mut text = serde_json::to_string_pretty(&saved).expect("a plan is JSON");
        text.push('\n');
        text
    }

    /// Reads what [`Plan::save`] wrote.
    pub fn load(text: &str) -> Result<Plan, SavedError> {
        let format: Format = serde_json::from_str(text)?;
        if format.format != FORMAT {
            return Err(SavedError::Format(format.format));
        }
        let saved: Saved = serde_json::from_str(text)?;
        if saved.plan.digest() == saved.digest {
            Ok(saved.plan)
        } else {
            Err(SavedError::Digest)
        }
    }

    /// Names what the plan does: its targets, guards and changes, whatever their order.
    pub fn digest(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            for step in &stage.steps {
                let all = (number, &step.target, &step.guard, &step.change);
                lines.push(serde_json::to_string(&all).expect("a step is JSON"));
            }
            let until = serde_json::to_string(&(number, &stage.until)).expect("it is JSON");
            lines.push(until);
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
