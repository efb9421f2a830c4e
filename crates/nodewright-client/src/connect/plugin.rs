//! Credential plugins: programs in the kubeconfig that print a token or a certificate.
//!
//! This module runs plugins instead of kube: kube would run a plugin three times for one client, and a plugin
//! may prompt its user for a password.

use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tower::BoxError;

use super::Environment;
use super::error::{Error, unsendable};
use crate::error::{first_line, plain_reason};

/// A token is renewed this long before it expires, and a short-lived one after four fifths of its lifetime.
const AHEAD: SignedDuration = SignedDuration::from_secs(30);

/// The time limit of a non-interactive plugin, unless `--request-timeout` sets another.
const LIMIT: Duration = Duration::from_secs(60);
/// The time limit of an interactive plugin, whose user may have to log in elsewhere.
const LIMIT_OF_A_LOGIN: Duration = Duration::from_secs(600);
/// Time after a failure during which the plugin is not run again: concurrent requests would all run into the
/// same error.
const REST: Duration = Duration::from_secs(10);

/// The output of a plugin.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<Timestamp>,
}

/// Runs the user's credential plugin, if any, and uses its credentials.
///
/// An expiring token is returned as a [`Renewal`], which authorizes every request.
pub(super) async fn resolve(
    user: &mut AuthInfo,
    environment: &Environment,
    limit: Option<Duration>,
) -> Result<Option<Renewal>, Error> {
    // Other credentials take precedence, as in kubectl; the plugin is not run then.
    let other = user.token.is_some() || user.token_file.is_some() || user.auth_provider.is_some();
    let basic = user.username.is_some() && user.password.is_some();
    let Some(exec) = user.exec.take().filter(|_| !other && !basic) else {
        return Ok(None);
    };
    allows(environment, exec.command.as_deref().unwrap_or_default())?;
    let status = run(&exec, limit).await?;
    if let (Some(certificate), Some(key)) = (status.client_certificate_data, status.client_key_data) {
        user.client_certificate_data = Some(STANDARD.encode(certificate));
        user.client_key_data = Some(STANDARD.encode(key).into());
    }
    match (status.token, status.expiration_timestamp) {
        (Some(token), Some(expires)) => Ok(Some(Renewal {
            exec: Arc::new(exec),
            limit,
            current: Arc::new(Mutex::new(Current {
                header: header(&token)?,
                renewed_at: renewed_at(now(), expires),
                failed: None,
            })),
        })),
        (Some(token), None) => {
            header(&token)?;
            user.token = Some(SecretString::from(token));
            Ok(None)
        }
        (None, _) => Ok(None),
    }
}

/// A token that is renewed before it expires.
#[derive(Clone)]
pub(super) struct Renewal {
    exec: Arc<ExecConfig>,
    limit: Option<Duration>,
    current: Arc<Mutex<Current>>,
}

struct Current {
    header: HeaderValue,
    /// The time at which the token is renewed.
    renewed_at: Timestamp,
    /// The time and error of the last renewal, if it failed.
    failed: Option<(Instant, Error)>,
}

impl Renewal {
    /// Adds the token to a request; renews the token first if it is about to expire.
    pub async fn authorize<B>(self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        let mut current = self.current.lock().await;
        if now() >= current.renewed_at {
            match &current.failed {
                Some((at, error)) if at.elapsed() < REST => return Err(error.clone().into()),
                _ => {}
            }
            if let Err(error) = current.renew(&self.exec, self.limit).await {
                current.failed = Some((Instant::now(), error.clone()));
                return Err(error.into());
            }
        }
        request.headers_mut().insert(AUTHORIZATION, current.header.clone());
        Ok(request)
    }
}

impl Current {
    async fn renew(&mut self, exec: &ExecConfig, limit: Option<Duration>) -> Result<(), Error> {
        let status = run(exec, limit).await?;
        if let Some(token) = status.token {
            self.header = header(&token)?;
            // A token without an expiry is never renewed.
            let expires = status.expiration_timestamp;
            self.renewed_at = expires.map_or(Timestamp::MAX, |expires| renewed_at(now(), expires));
        }
        Ok(())
    }
}

fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "credentials expire by the clock")]
    Timestamp::now()
}

/// The time at which a token that was issued now is renewed.
fn renewed_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let lifetime = expires.duration_since(now);
    let used = lifetime.saturating_sub(AHEAD).max(lifetime / 5 * 4);
    now.saturating_add(used).expect("a duration in seconds can be added")
}

fn header(token: &str) -> Result<HeaderValue, Error> {
    let value = format!("Bearer {token}");
    let mut value = HeaderValue::try_from(value).map_err(|_| unsendable("credential plugin's token"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn run(exec: &ExecConfig, limit: Option<Duration>) -> Result<Status, Error> {
    let name = exec.command.clone().unwrap_or_default();
    let failed = |why: String| Error::PluginFailed { command: name.clone(), why };
    let terminal = std::io::stdin().is_terminal();
    let interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !terminal => {
            return Err(failed("it requires input, but there is no terminal".to_owned()));
        }
        _ => terminal,
    };
    let limit = if interactive { LIMIT_OF_A_LOGIN } else { limit.unwrap_or(LIMIT) };
    let output = timeout(limit, command(exec, interactive).output())
        .await
        .map_err(|_| Error::PluginTimedOut { command: name.clone(), limit })?
        .map_err(|error| Error::PluginMissing {
            command: name.clone(),
            why: crate::error::plain_reason(&error),
            hint: exec.install_hint.clone().unwrap_or_default(),
        })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(failed(match first_line(&stderr) {
            stderr if stderr.is_empty() => output.status.to_string(),
            stderr => format!("{} ({stderr})", output.status),
        }));
    }
    // The output may be a token, so the parser's message, which quotes it, is dropped.
    let printed: Option<ExecCredential> =
        std::str::from_utf8(&output.stdout).ok().and_then(|text| serde_saphyr::from_str(text).ok());
    printed
        .and_then(|credential| credential.status)
        .ok_or_else(|| failed("its output is not an ExecCredential with a status".to_owned()))
}

fn command(exec: &ExecConfig, interactive: bool) -> Command {
    let mut command = Command::new(exec.command.as_deref().unwrap_or_default());
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let mut info = json!({
        "apiVersion": exec.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": interactive},
    });
    if let Some(cluster) = &exec.cluster {
        info["spec"]["cluster"] = json!(cluster);
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command.kill_on_drop(true);
    if interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
    }
    command.stdout(Stdio::piped());
    command
}

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

    #[test]
    fn a_token_is_renewed_before_it_expires_and_not_for_each_request() {
        let now: Timestamp = "2026-11-28T10:00:00Z".parse().expect("a time");
        for (lifetime, used) in [(3600, 3570), (150, 120), (60, 48), (20, 16), (0, 0), (-600, -480)] {
            let renewed = renewed_at(now, now + SignedDuration::from_secs(lifetime));
            assert_eq!(renewed.duration_since(now).as_secs(), used, "{lifetime}");
        }
        assert_eq!(renewed_at(now, Timestamp::MAX), Timestamp::MAX - AHEAD);
    }

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
