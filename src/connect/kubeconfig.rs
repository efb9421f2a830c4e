//! Finds, reads and merges kubeconfig files, as kubectl does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{Kubeconfig, KubeconfigError};

use super::Environment;
use super::error::Error;

/// The kubeconfig that the flag or the environment names; `None` if there is none at all.
///
/// `--kubeconfig` names one file, which must exist. `KUBECONFIG` names a list, of which files that
/// do not exist are passed over, but not all of them: falling back to another cluster than the one
/// that was meant is worse than an error.
pub(super) fn read(
    flag: Option<&Path>,
    environment: &Environment,
) -> Result<Option<Kubeconfig>, Error> {
    if let Some(path) = flag {
        let missing = || Error::KubeconfigMissing(path.to_owned());
        return read_file(path)?.ok_or_else(missing).map(Some);
    }
    let paths = listed(environment);
    if paths.is_empty() {
        return match default_path(environment) {
            Some(path) => read_file(&path),
            None => Ok(None),
        };
    }
    let mut merged: Option<Kubeconfig> = None;
    for path in &paths {
        let Some(config) = read_file(path)? else {
            continue;
        };
        merged = Some(match merged {
            Some(first) => first
                .merge(config)
                .map_err(|e| Error::Merge(e.to_string()))?,
            None => config,
        });
    }
    let none = || Error::NoneExists(spell(&paths));
    merged.ok_or_else(none).map(Some)
}

/// Where a kubeconfig was looked for, for messages.
pub(super) fn looked_at(environment: &Environment) -> String {
    match default_path(environment) {
        Some(path) => path.display().to_string(),
        None => "~/.kube/config".to_owned(),
    }
}

fn listed(environment: &Environment) -> Vec<PathBuf> {
    let list = environment.kubeconfig.clone().unwrap_or_default();
    std::env::split_paths(&list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect()
}

fn default_path(environment: &Environment) -> Option<PathBuf> {
    let home = environment.home.as_deref()?;
    Some(home.join(".kube").join("config"))
}

fn spell(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
}

/// One file; `None` if it does not exist.
fn read_file(path: &Path) -> Result<Option<Kubeconfig>, Error> {
    match Kubeconfig::read_from(path) {
        Ok(config) => Ok(Some(config)),
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        Err(KubeconfigError::ReadConfig(error, _)) => Err(Error::ReadKubeconfig {
            path: path.to_owned(),
            why: crate::reason::plain_reason(&error),
        }),
        // The parser's own message quotes the file, and with it perhaps a token.
        Err(KubeconfigError::Parse(error)) => Err(Error::ParseKubeconfig {
            path: path.to_owned(),
            line: error.location().map(|at| at.line()),
        }),
        Err(_) => Err(Error::ParseKubeconfig {
            path: path.to_owned(),
            line: None,
        }),
    }
}
