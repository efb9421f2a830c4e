//! Selection of the kubeconfig and the context.

use serde_json::json;
use tempfile::tempdir;

use super::{connected, environment, fake, file, nodes, refused};
use crate::support::fake_api::kubeconfig;
use kubectl_skyhook::cluster::Read;

#[tokio::test]
async fn kubeconfig_files_are_merged_and_the_first_wins() {
    let (fake, home) = (fake(), tempdir().expect("a directory"));
    let served = fake.serve();
    // The context is in one file and its cluster in the other; the first current context wins.
    let first = json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "there", "namespace": "gpu"}}],
    });
    let mut second = kubeconfig(&served.url, "there");
    second["contexts"] = json!([{"name": "here", "context": {"cluster": "nowhere"}}]);
    let first = file(home.path(), "first", &first.to_string());
    let second = file(home.path(), "second", &second.to_string());
    let missing = home.path().join("missing").display().to_string();
    let environment = environment(home.path(), &format!("{missing}:{first}::{second}"));
    let connected = connected(&environment, &[]).await;
    assert_eq!(connected.server, served.url);
    assert_eq!(connected.client.default_namespace(), "gpu");
    assert_eq!(connected.namespace, None);
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
}

#[tokio::test]
async fn kubeconfig_flag_overrides_variable_overrides_home() {
    let home = tempdir().expect("a directory");
    std::fs::create_dir(home.path().join(".kube")).expect("a directory");
    let write = |name: &str, host: &str| {
        let config = kubeconfig(&format!("https://{host}:6443"), host);
        file(home.path(), name, &config.to_string())
    };
    write(".kube/config", "home");
    let (variable, flag) = (write("variable", "variable"), write("flag", "flag"));
    let in_variable = environment(home.path(), &variable);
    let args = ["--kubeconfig", flag.as_str()];
    assert_eq!(connected(&in_variable, &args).await.server, "https://flag:6443");
    assert_eq!(connected(&in_variable, &[]).await.server, "https://variable:6443");
    let in_home = environment(home.path(), "");
    assert_eq!(connected(&in_home, &[]).await.server, "https://home:6443");
}

#[tokio::test]
async fn missing_kubeconfig_is_reported() {
    let home = tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name).display().to_string();
    let (none, a, b) = (environment(home.path(), ""), path("a"), path("b"));
    let expected =
        format!("no kubeconfig found at {}; set KUBECONFIG, or pass --kubeconfig FILE", path(".kube/config"));
    assert_eq!(refused(&none, &[]).await, expected);
    let expected = format!("kubeconfig {a} does not exist; check --kubeconfig");
    assert_eq!(refused(&none, &["--kubeconfig", &a]).await, expected);
    let mut listed = environment(home.path(), &format!("{a}:{b}"));
    // Even in a pod, a wrong KUBECONFIG does not fall back to another cluster.
    listed.in_cluster = Some(("10.0.0.1".into(), "443".into()));
    let expected = format!(
        "no file listed in KUBECONFIG exists: {a}, {b}; correct KUBECONFIG, or pass --kubeconfig FILE"
    );
    assert_eq!(refused(&listed, &[]).await, expected);
}

#[tokio::test]
async fn unreadable_kubeconfig_is_named_but_not_quoted() {
    let home = tempdir().expect("a directory");
    let none = environment(home.path(), "");
    let dir = home.path().display().to_string();
    let expected = format!("cannot read kubeconfig {dir}: is a directory");
    assert_eq!(refused(&none, &["--kubeconfig", &dir]).await, expected);

    let text = "users:\n- name: a\n  user: {token: hunter2\n";
    let broken = file(home.path(), "broken", text);
    let expected =
        format!("kubeconfig {broken} is not valid (line 3); correct it, or pass another with --kubeconfig");
    assert_eq!(refused(&none, &["--kubeconfig", &broken]).await, expected);

    let wrong = file(home.path(), "wrong", "users:\n- name: a\n  user: {token: [hunter2]}\n");
    let expected =
        format!("kubeconfig {wrong} is not valid (line 3); correct it, or pass another with --kubeconfig");
    assert_eq!(refused(&none, &["--kubeconfig", &wrong]).await, expected);
}

#[tokio::test]
async fn unknown_kubeconfig_names_get_suggestions() {
    let home = tempdir().expect("a directory");
    let mut config = kubeconfig("https://host:6443", "production");
    let path = file(home.path(), "config", &config.to_string());
    let here = environment(home.path(), &path);
    for (args, message) in [
        (["--context", "prodution"], r#"no context "prodution" in the kubeconfig"#),
        (["--context", "dev"], r#"no context "dev" in the kubeconfig"#),
        (["--cluster", "dev"], r#"no cluster "dev" in the kubeconfig"#),
        (["--user", "productio"], r#"no user "productio" in the kubeconfig"#),
    ] {
        assert_eq!(refused(&here, &args).await, message);
    }
    config["current-context"] = "".into();
    file(home.path(), "config", &config.to_string());
    let message = "the kubeconfig sets no current context; pass --context NAME; `kubectl config get-contexts` lists the names";
    assert_eq!(refused(&here, &[]).await, message);
}

#[tokio::test]
async fn pod_without_kubeconfig_uses_in_cluster_config() {
    let home = tempdir().expect("a directory");
    let mut pod = environment(home.path(), "");
    pod.in_cluster = Some(("10.0.0.1".into(), "443".into()));
    let message = "cannot use the certificate authority: \
                   /var/run/secrets/kubernetes.io/serviceaccount/ca.crt: no such file or directory";
    assert_eq!(refused(&pod, &[]).await, message);
    // `--server` has priority, and needs no kubeconfig.
    let named = connected(&pod, &["--server", "http://other:8080"]).await;
    assert_eq!(named.server, "http://other:8080");
}

/// As in Go, an empty value counts as unset.
#[tokio::test]
async fn empty_kubeconfig_values_count_as_unset() {
    let (fake, home) = (fake(), tempdir().expect("a directory"));
    let served = fake.serve();
    let first = json!({"current-context": "", "contexts": null, "clusters": [], "users": []});
    let mut second = kubeconfig(&served.url, "there");
    second["clusters"][0]["cluster"]["certificate-authority"] = "".into();
    second["users"][0]["user"] = json!({
        "token": "", "tokenFile": "", "client-certificate": "", "client-key-data": "", "username": "", "as": "",
    });
    let first = file(home.path(), "first", &first.to_string());
    let second = file(home.path(), "second", &second.to_string());
    let here = environment(home.path(), &format!("{first}:{second}"));
    let connected = connected(&here, &[]).await;
    assert_eq!(connected.server, served.url);
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
}

#[tokio::test]
async fn empty_file_is_an_empty_kubeconfig() {
    let (fake, home) = (fake(), tempdir().expect("a directory"));
    let served = fake.serve();
    let first = file(home.path(), "first", "");
    let second = file(home.path(), "second", &kubeconfig(&served.url, "there").to_string());
    let here = environment(home.path(), &format!("{first}:{second}"));
    assert_eq!(connected(&here, &[]).await.server, served.url);
}

#[tokio::test]
async fn empty_ca_data_falls_back_to_the_ca_file() {
    let fake = fake();
    let served = fake.serve_tls();
    let mut config = kubeconfig(&served.url, "fake");
    let authority = served.dir().join("ca.crt").display().to_string();
    config["clusters"][0]["cluster"]["certificate-authority"] = authority.into();
    config["clusters"][0]["cluster"]["certificate-authority-data"] = "".into();
    let path = file(served.dir(), "config", &config.to_string());
    let here = environment(served.dir(), &path);
    let connected = connected(&here, &["--tls-server-name=fake.example"]).await;
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
}

/// Without its user, a context would connect anonymously, and the server's error would not name the cause.
#[tokio::test]
async fn context_with_missing_user_or_cluster_is_reported() {
    let home = tempdir().expect("a directory");
    let mut config = kubeconfig("https://host:6443", "production");
    config["contexts"] = json!([
        {"name": "a", "context": {"cluster": "production", "user": "productoin"}},
        {"name": "b", "context": {"cluster": "staging", "user": "production"}},
        {"name": "none", "context": {"cluster": "production"}},
    ]);
    let path = file(home.path(), "config", &config.to_string());
    let here = environment(home.path(), &path);
    let expected =
        format!(r#"context "a" uses the user "productoin", which is not in the kubeconfig {path}"#);
    assert_eq!(refused(&here, &["--context", "a"]).await, expected);
    let expected =
        format!(r#"context "b" uses the cluster "staging", which is not in the kubeconfig {path}"#);
    assert_eq!(refused(&here, &["--context", "b"]).await, expected);
    // No user of the kubeconfig is needed if flags contain credentials or if the context has no user.
    connected(&here, &["--context", "a", "--token", "t"]).await;
    connected(&here, &["--context", "a", "--user", "production"]).await;
    connected(&here, &["--context", "none"]).await;
    config["users"] = json!([]);
    file(home.path(), "config", &config.to_string());
    let expected =
        format!(r#"context "a" uses the user "productoin", which is not in the kubeconfig {path}"#);
    assert_eq!(refused(&here, &["--context", "a"]).await, expected);
}
