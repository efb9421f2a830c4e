//! (edge) The user's own diff program, called as by `kubectl diff`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::plan::{Plan, Target};
use crate::view::diff::objects;

/// The environment variable that names the program, as for kubectl.
const VARIABLE: &str = "KUBECTL_EXTERNAL_DIFF";

/// The program and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct External {
    program: String,
    words: Vec<String>,
}

impl External {
    /// The program that the environment names, if any.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<External> {
        variable(VARIABLE).map(|text| External::parse(&text))
    }

    /// Splits the program from its arguments. Arguments with characters other than letters, digits, `-` and `=` are
    /// dropped.
    fn parse(text: &str) -> External {
        let mut words = text.split(' ');
        let program = words.next().unwrap_or_default().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=');
        let words = words.filter(|w| !w.is_empty() && w.chars().all(plain));
        External { program, words: words.map(str::to_owned).collect() }
    }

    /// Runs the program on two directories with a file per object: current and planned. Its output goes to standard
    /// output or standard error.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or exits with more than 1 (1 reports differences).
    pub fn show(&self, plan: &Plan, to_stderr: bool) -> Result<()> {
        let objects = objects(plan);
        let live = directory("LIVE-", objects.iter().map(|(t, before, _)| (*t, before)))?;
        let merged = directory("MERGED-", objects.iter().map(|(t, _, after)| (*t, after)))?;
        let mut command = Command::new(&self.program);
        command.arg(live.path()).arg(merged.path()).args(&self.words);
        if to_stderr {
            command.stdout(Stdio::from(std::io::stderr()));
        }
        let ended = command.status().map_err(|error| {
            Error::failed(format!("cannot run {:?}: {error}; nothing was changed", self.program))
                .hint(format!("{VARIABLE} sets the diff program"))
        })?;
        match ended.code() {
            Some(0 | 1) => Ok(()),
            _ => Err(Error::failed(format!(
                "diff program {:?} failed: {ended}; nothing was changed",
                self.program
            ))
            .hint(format!("{VARIABLE} sets the diff program"))),
        }
    }
}

/// A temporary directory with a file for each object, also for absent ones; removed on drop.
fn directory<'a>(
    prefix: &str,
    objects: impl Iterator<Item = (&'a Target, &'a String)>,
) -> anyhow::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir();
    let directory = directory.context("cannot create a temporary directory for the diff")?;
    for (target, text) in objects {
        write(&directory.path().join(file_name(target)), text)?;
    }
    Ok(directory)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Group, version, kind, namespace and name, as in kubectl's file names.
fn file_name(target: &Target) -> String {
    let (group, version, _) = target.kind.resource();
    let group = match group {
        "" => String::new(),
        group => format!("{group}."),
    };
    let namespace = target.namespace.as_deref().unwrap_or_default();
    format!("{group}{version}.{}.{namespace}.{}", target.kind.kind(), target.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiFlavor;
    use crate::plan::Kind;

    #[test]
    fn words_are_kept_as_kubectl_keeps_them() {
        for (text, program, words) in [
            ("diff", "diff", &[][..]),
            ("colordiff -N -u", "colordiff", &["-N", "-u"]),
            ("dyff between  --omit-header=true", "dyff", &["between", "--omit-header=true"]),
            (
                "/opt/my_diff -U5 a;b $(x) --color=always \"-u\" --a_b",
                "/opt/my_diff",
                &["-U5", "--color=always"],
            ),
        ] {
            let external = External::parse(text);
            assert_eq!(
                (external.program.as_str(), external.words.as_slice()),
                (program, words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>().as_slice()),
                "{text}"
            );
        }
        assert_eq!(External::of(|_| None), None);
    }

    #[test]
    fn files_are_named_as_kubectl_names_them() {
        let policy = format!("{}.v1alpha1.DeploymentPolicy..slow", ApiFlavor::Skyhook.group());
        for (target, name) in [
            (Target::node("gpu-1", None), "v1.Node..gpu-1"),
            (Target::inside(Kind::Job, "skyhook", "driver", None), "batch.v1.Job.skyhook.driver"),
            (Target::policy(ApiFlavor::Skyhook, "slow", None), policy.as_str()),
        ] {
            assert_eq!(file_name(&target), name);
        }
    }
}
