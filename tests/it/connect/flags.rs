//! The effect of flags on requests.

use tempfile::tempdir;

use super::{connected, environment, fake, file, nodes, refused, with_user};
use crate::support::fake_api::{FakeApi, Logged, kubeconfig};
use kubectl_skyhook::cluster::Read;
use serde_json::json;

/// The request for nodes that is sent with these flags.
async fn request(args: &[&str]) -> Logged {
    let (fake, home) = (fake(), tempdir().expect("a directory"));
    let served = fake.serve();
    let user = json!({"username": "from-file", "password": "hunter2"});
    let path = file(home.path(), "config", &with_user(&served.url, &user));
    let environment = environment(home.path(), &path);
    let connected = connected(&environment, args).await;
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
    node_request(&fake)
}

fn node_request(fake: &FakeApi) -> Logged {
    let mut requests = fake.requests().into_iter();
    let found = requests.find(|r| r.path == "/api/v1/nodes");
    found.expect("a request for nodes")
}

#[tokio::test]
async fn user_agent_names_version_os_and_verb() {
    let agent = request(&[]).await.header("user-agent");
    let (name, rest) = agent.split_once(" (").expect("a system in parentheses");
    let (system, verb) = rest.split_once(") ").expect("a verb after the system");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(name, format!("kubectl-skyhook/{version}"));
    assert_eq!(system.split('/').count(), 2);
    assert_eq!(verb, "diagnose stuck");
}

#[tokio::test]
async fn token_flag_overrides_the_kubeconfig() {
    let basic = "Basic ZnJvbS1maWxlOmh1bnRlcjI=";
    assert_eq!(request(&[]).await.header("authorization"), basic);
    let token = request(&["--token", "t"]).await;
    assert_eq!(token.header("authorization"), "Bearer t");
}

#[tokio::test]
async fn impersonation_sends_user_uid_groups_and_extra() {
    let request = request(&[
        "--as=jane",
        "--as-uid=7",
        "--as-group=a",
        "--as-group=b",
        "--as-user-extra=scopes=x",
        "--as-user-extra=scopes=y",
        "--as-user-extra=example.com/k=z",
    ])
    .await;
    let headers = ["user", "uid", "group", "extra-scopes", "extra-example.com%2fk"]
        .map(|name| request.header(&format!("impersonate-{name}")));
    assert_eq!(headers, ["jane", "7", "a,b", "x,y", "z"]);
}

#[tokio::test]
async fn disable_compression_flag_is_honored() {
    // Both values are correct: the choice depends on the timing of the first responses.
    let accepted = request(&[]).await.header("accept-encoding");
    assert!(["gzip", "identity"].contains(&accepted.as_str()), "{accepted}");
    let plain = request(&["--disable-compression"]).await;
    assert_eq!(plain.header("accept-encoding"), "");
}

#[tokio::test]
async fn conflicting_or_incomplete_flags_are_refused() {
    let home = tempdir().expect("a directory");
    let config = kubeconfig("https://host:6443", "fake");
    let path = file(home.path(), "config", &config.to_string());
    let here = environment(home.path(), &path);
    for (args, message) in [
        (
            &["--insecure-skip-tls-verify", "--certificate-authority=ca"][..],
            "a certificate authority and --insecure-skip-tls-verify are mutually exclusive; use only \
             one of them",
        ),
        (&["--client-certificate=crt"], "a client certificate also requires --client-key"),
        (&["--client-key=key"], "a client key also requires --client-certificate"),
        (
            &["--as-group=admins"],
            "impersonating a group, uid or extra field also requires a user; pass --as USER",
        ),
        (
            &["--certificate-authority=/none/ca"],
            "cannot use the certificate authority: /none/ca: no such file or directory",
        ),
        (
            &["--client-certificate=/none/crt", "--client-key=/none/key"],
            "cannot use the client certificate: /none/crt: no such file or directory",
        ),
        (
            &["--server=https://"],
            r#""https://" is not a valid server address; expected a URL such as https://HOST:6443"#,
        ),
        (
            &["--server=ftp://me:hunter2@host"],
            r#""ftp://host" is not a valid server address; expected a URL such as https://HOST:6443"#,
        ),
    ] {
        assert_eq!(refused(&here, args).await, message);
    }
}

#[tokio::test]
async fn tls_flags_override_kubeconfig_tls_settings() {
    let home = tempdir().expect("a directory");
    let mut config = kubeconfig("https://host:6443", "fake");
    config["clusters"][0]["cluster"]["certificate-authority"] = "/none/ca".into();
    let path = file(home.path(), "config", &config.to_string());
    let here = environment(home.path(), &path);
    let message = "cannot use the certificate authority: /none/ca: no such file or directory";
    assert_eq!(refused(&here, &[]).await, message);
    let insecure = connected(&here, &["--insecure-skip-tls-verify"]).await;
    assert_eq!(insecure.server, "https://host:6443");
}
