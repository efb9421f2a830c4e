//! Where the servers, the operator and upstream's CLI are; `tools/build` provides them.

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
    /// Builds what is missing, which takes minutes the first time and nothing afterwards.
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

    /// KUBEBUILDER_ASSETS goes first, as with every user of envtest.
    pub fn program(&self, name: &str) -> PathBuf {
        std::env::var_os("KUBEBUILDER_ASSETS")
            .map(|dir| Path::new(&dir).join(name))
            .filter(|path| path.is_file())
            .unwrap_or_else(|| self.cache.join("bin").join(name))
    }

    /// A file of the operator's own `config` directory, as its module has it: CRDs, roles.
    pub fn operator_config(&self, version: &str, file: &str) -> Result<String> {
        let path = self.cache.join(format!("config-{version}")).join(file);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }
}

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e")
}
