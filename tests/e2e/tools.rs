//! Paths of the servers, the operator and upstream's CLI, which `tools/build` provides.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

#[derive(Clone)]
pub struct Tools {
    cache: PathBuf,
}

impl Tools {
    /// Builds missing programs, which takes minutes the first time.
    pub fn provide() -> Result<Self> {
        let script = here().join("tools/build");
        let out = Command::new(&script)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("running {}", script.display()))?;
        if !out.status.success() {
            bail!("what the end-to-end tests run could not be provided");
        }
        let cache = String::from_utf8(out.stdout)?.trim().into();
        Ok(Self { cache })
    }

    /// Path of a program; KUBEBUILDER_ASSETS takes precedence, as in envtest.
    pub fn program(&self, name: &str) -> PathBuf {
        std::env::var_os("KUBEBUILDER_ASSETS")
            .map(|dir| Path::new(&dir).join(name))
            .filter(|path| path.is_file())
            .unwrap_or_else(|| self.cache.join("bin").join(name))
    }

    /// Reads a file (a CRD, a role) from the `config` directory of the operator's Go module.
    pub fn operator_config(&self, version: &str, file: &str) -> Result<String> {
        let path = self.cache.join(format!("config-{version}")).join(file);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }
}

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e")
}
