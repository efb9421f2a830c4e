//! Plans in files.

use std::path::Path;

use anyhow::Context;

use crate::plan::Plan;

/// Writes a plan to a file.
pub fn write(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, plan.save()).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a plan from a file.
pub fn read(path: &Path) -> anyhow::Result<Plan> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Plan::load(&text).with_context(|| name.to_string())
}
