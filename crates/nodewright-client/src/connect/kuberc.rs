//! The policy for credential plugins in kubectl's preferences (kuberc): a plugin that kubectl may not run does not run
//! here, either.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Environment;
use super::error::Error;
use crate::reason::{first_line, plain_reason};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preference {
    credential_plugin_policy: String,
    credential_plugin_allowlist: Option<Vec<Allowed>>,
}

/// An allowed plugin: a path, or a name that is searched in `PATH`. Kubernetes 1.35 calls the field `name`, later
/// versions `command`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Allowed {
    name: String,
    command: String,
}

/// Refuses a plugin that the user's policy forbids.
///
/// # Errors
///
/// The policy forbids the plugin; or it cannot be read, so that it may forbid the plugin.
pub(super) fn allows(environment: &Environment, plugin: &str) -> Result<(), Error> {
    let Some(path) = path(environment) else {
        return Ok(());
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(&path, plain_reason(&error))),
    };
    let documents: Vec<Preference> = serde_saphyr::from_multiple(&text)
        .map_err(|error| unusable(&path, first_line(&error.to_string())))?;
    let policy = documents.iter().find(|document| !document.credential_plugin_policy.is_empty());
    let listed = documents.iter().any(|document| document.credential_plugin_allowlist.is_some());
    let forbidden = |policy: &str| {
        Err(Error::PluginForbidden {
            command: plugin.to_owned(),
            policy: policy.to_owned(),
            path: path.clone(),
        })
    };
    match policy.map(|document| document.credential_plugin_policy.as_str()) {
        None | Some("AllowAll") if listed => {
            Err(unusable(&path, "credentialPluginAllowlist requires the policy Allowlist".to_owned()))
        }
        None | Some("AllowAll") => Ok(()),
        Some("Allowlist") => {
            let lists = documents.iter().filter_map(|document| document.credential_plugin_allowlist.as_ref());
            let program = found(environment, plugin);
            let mut names = lists.flatten().flat_map(|allowed| [&allowed.name, &allowed.command]);
            let is_listed = program.is_some()
                && names.any(|name| !name.is_empty() && found(environment, name) == program);
            if is_listed { Ok(()) } else { forbidden("Allowlist") }
        }
        Some("DenyAll") => forbidden("DenyAll"),
        Some(other) => Err(unusable(&path, format!("unknown credentialPluginPolicy {other:?}"))),
    }
}

/// The file with the preferences; `None` if kubectl would not read one.
fn path(environment: &Environment) -> Option<PathBuf> {
    match environment.kuberc.as_deref() {
        Some(off) if off == "off" => None,
        Some(path) => Some(path.into()),
        None => Some(environment.home.as_ref()?.join(".kube/kuberc")),
    }
}

/// The program that a command runs: a path, or the first of that name in `PATH`.
fn found(environment: &Environment, command: &str) -> Option<PathBuf> {
    if Path::new(command).components().count() > 1 {
        return Some(command.into());
    }
    let directories = environment.path.as_deref()?;
    std::env::split_paths(directories).map(|directory| directory.join(command)).find(|path| path.is_file())
}

fn unusable(path: &Path, why: String) -> Error {
    Error::KubercUnusable { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a policy for the plugin `login`, which `PATH` has as `bin/login`.
    fn refused(kuberc: &str) -> Option<String> {
        let home = tempfile::tempdir().expect("a directory");
        let bin = home.path().join("bin");
        for directory in [&bin, &home.path().join(".kube")] {
            std::fs::create_dir(directory).expect("a directory");
        }
        std::fs::write(bin.join("login"), "").expect("a program");
        let kuberc = kuberc.replace("BIN", &bin.display().to_string());
        std::fs::write(home.path().join(".kube/kuberc"), kuberc).expect("a file");
        let environment = Environment {
            home: Some(home.path().to_owned()),
            path: Some(bin.into()),
            ..Environment::default()
        };
        let error = allows(&environment, "login").err()?.to_string();
        Some(error.replace(&home.path().display().to_string(), "~"))
    }

    #[test]
    fn the_policy_of_kubectl_decides() {
        let head = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
        let forbidden = |policy: &str| {
            Some(format!(
                "credential plugin \"login\" is forbidden: ~/.kube/kuberc sets credentialPluginPolicy to {policy}"
            ))
        };
        for (policy, error) in [
            ("", None),
            ("credentialPluginPolicy: AllowAll\n", None),
            ("credentialPluginPolicy: DenyAll\n", forbidden("DenyAll")),
            ("credentialPluginPolicy: Allowlist\n", forbidden("Allowlist")),
            ("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: login\n", None),
            ("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: BIN/login\n", None),
            (
                "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: other\n- command: /opt/login\n",
                forbidden("Allowlist"),
            ),
            (
                "credentialPluginAllowlist:\n- name: login\n",
                Some(
                    "cannot use ~/.kube/kuberc: credentialPluginAllowlist requires the policy Allowlist"
                        .to_owned(),
                ),
            ),
            (
                "credentialPluginPolicy: Most\n",
                Some("cannot use ~/.kube/kuberc: unknown credentialPluginPolicy \"Most\"".to_owned()),
            ),
        ] {
            assert_eq!(refused(&format!("{head}{policy}")), error, "{policy}");
        }
        assert!(refused(": [").expect("an error").starts_with("cannot use ~/.kube/kuberc: "));
    }

    #[test]
    fn without_preferences_all_plugins_run() {
        let home = tempfile::tempdir().expect("a directory");
        let environment = Environment { home: Some(home.path().to_owned()), ..Environment::default() };
        assert_eq!(allows(&environment, "login").map_err(|error| error.to_string()), Ok(()));
        let off = Environment { kuberc: Some("off".into()), ..environment };
        assert_eq!(allows(&off, "login").map_err(|error| error.to_string()), Ok(()));
    }
}
