//! Builds kustomizations with kubectl.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::error::{Error, Result};

/// The manifests that `kubectl kustomize DIRECTORY` prints.
///
/// # Errors
///
/// kubectl is not on the PATH, or does not build the kustomization.
pub(super) async fn build(directory: &Path) -> Result<String> {
    let name = directory.display();
    let mut command = Command::new("kubectl");
    command.arg("kustomize").arg(directory).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| {
        let hint =
            format!("-k requires kubectl; or build {name} with kustomize and lint its output with -f -");
        Error::failed(format!("cannot run kubectl: {}", crate::reason::plain_reason(&error))).hint(hint)
    })?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Error::failed(format!("cannot build {name}: {}", reason.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
