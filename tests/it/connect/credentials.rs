//! Credential plugins, token files, and rejected credentials.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::tempdir;

use super::{connected, environment, fake, file, nodes, refused, with_user};
use crate::support::fake_api::Served;
use crate::support::terminal::Terminal;
use kubectl_skyhook::cluster::Read;
use kubectl_skyhook::connect::Environment;

/// A user with a credential plugin, a shell script that counts its runs.
fn plugin(dir: &Path, script: &str) -> Value {
    let runs = dir.join("runs").display().to_string();
    let script = format!("echo run >> {runs}\n{script}\n");
    let path = file(dir, "plugin.sh", &script);
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": [path],
        "env": [{"name": "TOKEN", "value": "hunter2"}],
        "interactiveMode": "Never",
        "installHint": "\nget sh from your distribution\nor elsewhere",
    }})
}

fn runs(dir: &Path) -> usize {
    let runs = std::fs::read_to_string(dir.join("runs"));
    runs.map_or(0, |text| text.lines().count())
}

/// A server that requires the token `hunter2`, and an environment whose kubeconfig has this user.
fn locked(user: impl FnOnce(&Path) -> Value) -> (Served, Environment) {
    let served = fake().require_token("hunter2").serve();
    let user = user(served.dir());
    let path = file(served.dir(), "config", &with_user(&served.url, &user));
    let environment = environment(served.dir(), &path);
    (served, environment)
}

const CREDENTIAL: &str = r#"echo "{\"apiVersion\": \"client.authentication.k8s.io/v1\",
    \"kind\": \"ExecCredential\", \"status\": {\"token\": \"$TOKEN\"EXPIRY}}""#;

#[tokio::test]
async fn plugin_runs_once_and_its_token_is_sent() {
    for expiry in ["", r#", \"expirationTimestamp\": \"2999-01-01T00:00:00Z\""#] {
        let script = CREDENTIAL.replace("EXPIRY", expiry);
        let (served, here) = locked(|dir| plugin(dir, &script));
        let connected = connected(&here, &[]).await;
        assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
        assert_eq!(runs(served.dir()), 1, "{expiry}");
    }
}

#[tokio::test]
async fn expired_token_is_renewed() {
    let script = CREDENTIAL.replace("EXPIRY", r#", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\""#);
    let (served, here) = locked(|dir| plugin(dir, &script));
    let connected = connected(&here, &[]).await;
    assert_eq!(runs(served.dir()), 1);
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
    // One more run for each request: two of discovery, the operator, the nodes.
    assert_eq!(runs(served.dir()), 5);
}

/// The token expires sooner than tokens are usually renewed ahead.
#[tokio::test]
async fn short_lived_token_is_used_for_several_requests() {
    let expires = kubectl_skyhook::ctx::now() + jiff::SignedDuration::from_secs(25);
    let script = CREDENTIAL.replace("EXPIRY", &format!(r#", \"expirationTimestamp\": \"{expires}\""#));
    let (served, here) = locked(|dir| plugin(dir, &script));
    let connected = connected(&here, &[]).await;
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
    assert_eq!(runs(served.dir()), 1);
}

#[tokio::test]
async fn failed_token_renewal_names_the_plugin() {
    let script = CREDENTIAL.replace("EXPIRY", r#", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\""#);
    let (_served, here) = locked(|dir| {
        let once = format!("test -e {0}/once && exit 4; touch {0}/once", dir.display());
        plugin(dir, &format!("{once}\n{script}"))
    });
    let connected = connected(&here, &[]).await;
    let message = r#"cannot get credentials: credential plugin "sh" failed: exit status: 4; run it manually to see why"#;
    assert_eq!(nodes(&connected).await, Err(message.to_owned()));
}

#[tokio::test]
async fn plugin_client_certificate_is_used() {
    let fake = fake();
    let served = fake.serve_tls();
    let read = |name| std::fs::read_to_string(served.dir().join(name)).expect("a client's file");
    let credential = json!({"kind": "ExecCredential", "status": {
        "clientCertificateData": read("client.crt"),
        "clientKeyData": read("client.key"),
    }});
    let printed = file(served.dir(), "credential", &credential.to_string());
    let user = plugin(served.dir(), &format!("cat {printed}"));
    let path = file(served.dir(), "config", &with_user(&served.url, &user));
    let here = environment(served.dir(), &path);
    let authority = format!("--certificate-authority={}", served.dir().join("ca.crt").display());
    let args = [authority.as_str(), "--tls-server-name=fake.example"];
    assert_eq!(nodes(&connected(&here, &args).await).await, Ok(Read::Ok(1)));
    let requests = fake.requests();
    assert!(requests.iter().all(|r| r.header("x-client-certificate") == "shown"));
    assert_eq!(runs(served.dir()), 1);
}

#[tokio::test]
async fn plugin_gets_the_cluster_info_it_asks_for() {
    let dir = tempdir().expect("a directory");
    let mut user = plugin(dir.path(), "echo \"$KUBERNETES_EXEC_INFO\" >&2; exit 1");
    user["exec"]["provideClusterInfo"] = true.into();
    let path = file(dir.path(), "config", &with_user("https://host:6443", &user));
    let info = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": false, "cluster": {"server": "https://host:6443"}},
    });
    let message =
        format!(r#"credential plugin "sh" failed: exit status: 1 ({info}); run it manually to see why"#);
    assert_eq!(refused(&environment(dir.path(), &path), &[]).await, message);
}

#[tokio::test]
async fn plugin_failure_hides_what_the_plugin_printed() {
    let dir = tempdir().expect("a directory");
    let here = |user: &Value| {
        let path = file(dir.path(), "config", &with_user("http://host", user));
        environment(dir.path(), &path)
    };
    let fails = plugin(dir.path(), "echo hunter2; echo 'session expired' >&2; exit 3");
    let message =
        r#"credential plugin "sh" failed: exit status: 3 (session expired); run it manually to see why"#;
    assert_eq!(refused(&here(&fails), &[]).await, message);

    let babbles = plugin(dir.path(), "echo token: hunter2");
    let message = r#"credential plugin "sh" failed: its output is not an ExecCredential with a status; run it manually to see why"#;
    assert_eq!(refused(&here(&babbles), &[]).await, message);

    let mut missing = plugin(dir.path(), "");
    missing["exec"]["command"] = "no-such-plugin".into();
    let message = r#"credential plugin "no-such-plugin" could not be started: no such file or directory; get sh from your distribution"#;
    assert_eq!(refused(&here(&missing), &[]).await, message);
}

#[tokio::test]
async fn token_file_path_is_relative_to_the_kubeconfig() {
    let (served, here) = locked(|dir| {
        file(dir, "token", "hunter2\n");
        json!({"tokenFile": "token"})
    });
    assert_eq!(nodes(&connected(&here, &[]).await).await, Ok(Read::Ok(1)));
    let token = served.dir().join("token");
    std::fs::remove_file(&token).expect("a file to remove");
    let message = format!("cannot use the token file: {}: no such file or directory", token.display());
    assert_eq!(refused(&here, &[]).await, message);
}

#[tokio::test]
async fn rejected_token_is_an_error_without_the_token() {
    let fake = fake().require_token("hunter2");
    let (served, home) = (fake.serve(), tempdir().expect("a directory"));
    let args = ["--server", served.url.as_str(), "--token", "hunter3"];
    let connected = connected(&environment(home.path(), ""), &args).await;
    let message = format!(
        "the API server at {} does not accept the credentials (401 Unauthorized); log in again, or \
         check the kubeconfig's user and --token",
        served.url
    );
    assert_eq!(nodes(&connected).await, Err(message));
}

/// A newline in a header value would start another header, and makes the HTTP library panic.
#[tokio::test]
async fn credential_invalid_in_a_header_is_an_error() {
    let dir = tempdir().expect("a directory");
    let here = |user: &Value| {
        let path = file(dir.path(), "config", &with_user("http://host", user));
        environment(dir.path(), &path)
    };
    let says = |what: &str| {
        format!(
            "cannot use the {what}: it contains a line break or another character that is not allowed in an HTTP header"
        )
    };
    for token in ["a\nb", "a\n", "a\u{1}b", "a\r\nX-Admin: yes"] {
        let inline = here(&json!({"token": token}));
        assert_eq!(refused(&inline, &[]).await, says("token"), "{token:?}");
        let none = here(&json!({}));
        let flag = format!("--token={token}");
        assert_eq!(refused(&none, &[&flag]).await, says("token"), "{token:?}");
        let acting = here(&json!({"token": "t", "as": token}));
        let what = "user to impersonate";
        assert_eq!(refused(&acting, &[]).await, says(what), "{token:?}");
    }
    file(dir.path(), "token", "a\nb");
    let in_file = here(&json!({"tokenFile": "token"}));
    assert_eq!(refused(&in_file, &[]).await, says("token file"));
    for expires in [None, Some("2999-01-01T00:00:00Z")] {
        let status = json!({"token": "a\nb", "expirationTimestamp": expires});
        let credential = json!({"kind": "ExecCredential", "status": status});
        let printed = file(dir.path(), "credential", &credential.to_string());
        let user = plugin(dir.path(), &format!("cat {printed}"));
        let what = "credential plugin's token";
        assert_eq!(refused(&here(&user), &[]).await, says(what));
    }
}

#[tokio::test]
async fn token_file_overrides_inline_token() {
    let (served, here) = locked(|dir| {
        file(dir, "token", "hunter2\n");
        json!({"tokenFile": "token", "token": "old"})
    });
    assert_eq!(nodes(&connected(&here, &[]).await).await, Ok(Read::Ok(1)));
    drop(served);
    // Without the file, the inline token is used.
    let (_served, here) = locked(|_| json!({"tokenFile": "token", "token": "hunter2"}));
    assert_eq!(nodes(&connected(&here, &[]).await).await, Ok(Read::Ok(1)));
}

#[tokio::test]
async fn hanging_plugin_is_killed() {
    let dir = tempdir().expect("a directory");
    let hangs = plugin(dir.path(), "exec sleep 60");
    let path = file(dir.path(), "config", &with_user("http://host", &hangs));
    let here = environment(dir.path(), &path);
    let message = r#"credential plugin "sh" did not finish within 300ms; run it manually to see why, or allow more time with --request-timeout"#;
    let begun = std::time::Instant::now();
    assert_eq!(refused(&here, &["--request-timeout=300ms"]).await, message);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}

/// Ctrl-C on a terminal also reaches the plugin, and the cursor is restored.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_hanging_plugin() {
    let dir = tempdir().expect("a directory");
    let pid = dir.path().join("pid");
    let hangs = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", pid.display());
    let hangs = plugin(dir.path(), &hangs);
    let path = file(dir.path(), "config", &with_user("http://127.0.0.1:1", &hangs));
    // Tests started in the background ignore SIGINT, and a shell cannot restore it.
    let mut shell = Command::new("env");
    let script = r#"trap : INT; (while ! test -e "$PID"; do sleep 0.1; done; echo hangs) & "$0" status; echo "ended $?""#;
    shell
        .args(["--default-signal=INT", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_kubectl-skyhook"))
        .env("PID", &pid)
        .env("HOME", dir.path())
        .env("KUBECONFIG", &path);
    let begun = Instant::now();
    let (output, _) = Terminal::running(shell, "hangs").answer(b"\x03");
    assert!(begun.elapsed() < Duration::from_secs(30), "{output}");
    assert!(output.contains("ended 130"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output:?}");
    let pid = std::fs::read_to_string(&pid).expect("a number");
    let there = format!("/proc/{}/cmdline", pid.trim());
    let runs = || std::fs::read_to_string(&there).is_ok_and(|line| line.contains("sleep"));
    // On a busy machine the signal may reach the plugin after the program.
    while runs() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{pid}: {output}");
        std::thread::yield_now();
    }
}

/// Concurrent requests share one failure; the plugin does not run for each of them.
#[tokio::test]
async fn failed_plugin_is_not_run_again_at_once() {
    let script = CREDENTIAL.replace("EXPIRY", r#", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\""#);
    let (served, here) = locked(|dir| {
        let once = format!("test -e {0}/once && exit 4; touch {0}/once", dir.display());
        plugin(dir, &format!("{once}\n{script}"))
    });
    let connected = connected(&here, &[]).await;
    for _ in 0..3 {
        assert!(nodes(&connected).await.is_err());
    }
    assert_eq!(runs(served.dir()), 2);
}
