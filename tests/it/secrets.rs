//! No secret on the command line or in the configuration is printed or stored.

use std::path::Path;

use kubectl_skyhook::args::redacted::SECRETS;
use kubectl_skyhook::program::Program;
use serde_json::{Value, json};

use crate::support::run::{Run, RunOutput};
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;

const SECRET: &str = "hunter2-canary";

/// Words before and after a command that contain a secret. SCHEME and HOST are those of the server.
const SECRET_ARGUMENTS: &[(&str, &str)] = &[
    ("", "--token SECRET"),
    ("", "--token=SECRET"),
    ("--token SECRET", ""),
    ("--token=SECRET", ""),
    ("--token SECRET", "--token=other"),
    ("", "-s SCHEMEme:SECRET@HOST"),
    ("", "-sSCHEMEme:SECRET@HOST"),
    ("", "-s=SCHEMEme:SECRET@HOST"),
    ("", "-vs SCHEMEme:SECRET@HOST"),
    ("-s SCHEMEme:SECRET@HOST", ""),
    ("", "--server SCHEMEme:SECRET@HOST"),
    ("", "--server=SCHEMEme:SECRET@HOST"),
    ("", "--server me:SECRET@HOST"),
    ("", "--server SCHEMESECRET@HOST"),
    ("", "-s SCHEMEHOST?token=SECRET"),
    ("", "-sSCHEMEHOST/?SECRET"),
    ("", "--server=SCHEMEHOST/?a=b&c=SECRET"),
];

/// The commands to run, one after the other.
const COMMANDS: &[&str] = &[
    "status",
    "diagnose -v=10",
    "pause gpu-tune -y --reason night",
    "pause gpu-tune --dry-run=server",
    "pause gpu-tune --plan-out PLAN",
    "journal list -o json",
    "journal list -o wide",
    "journal show",
    "journal show -o yaml",
    "undo --dry-run -v=9",
    "undo -y",
    "package logs driver --skyhook gpu-tune",
];

fn words(text: &str, test_cluster: &TestCluster) -> Vec<String> {
    let host = test_cluster.served.url.trim_start_matches("http://");
    let plan = test_cluster.state.path().join("plan.json").display().to_string();
    let filled = text
        .replace("SCHEME", "http://")
        .replace("HOST", host)
        .replace("SECRET", SECRET)
        .replace("PLAN", &plan);
    filled.split_whitespace().map(str::to_owned).collect()
}

fn run(test_cluster: &TestCluster, words: &[String]) -> RunOutput {
    Run::new(words)
        .kubeconfig(&test_cluster.served.kubeconfig())
        .env("XDG_STATE_HOME", test_cluster.state.path())
        .output()
}

/// The files below a directory, with their content.
fn files(directory: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                let text = std::fs::read(&path).expect("a file");
                let text = String::from_utf8_lossy(&text).into_owned();
                vec![(path.display().to_string(), text)]
            }
        })
        .collect()
}

fn says_nothing(ran: &RunOutput, test_cluster: &TestCluster) {
    let transcript = ran.transcript();
    // The first line is the command line.
    let transcript = transcript.split_once('\n').map_or("", |(_, transcript)| transcript);
    assert!(!transcript.contains(SECRET), "{}", ran.transcript());
    for (path, text) in files(test_cluster.state.path()) {
        assert!(!text.contains(SECRET), "{path}: {text}\n{}", ran.transcript());
    }
}

#[test]
fn secrets_on_the_command_line_are_hidden() {
    for (before, after) in some(SECRET_ARGUMENTS, 4) {
        let test_cluster = TestCluster::from_capture("complete");
        for done in COMMANDS {
            let words = words(&format!("{before} {done} {after}"), &test_cluster);
            let ran = run(&test_cluster, &words);
            assert_ne!(ran.code, Some(64), "{}", ran.transcript());
            says_nothing(&ran, &test_cluster);
        }
        let journals = files(&test_cluster.state.path().join("kubectl-skyhook/journal"));
        assert_eq!(journals.len(), 2, "{before} {after}: one of pause, one of undo");
    }
}

#[test]
fn secrets_are_hidden_in_connection_errors() {
    let test_cluster = TestCluster::from_capture("complete");
    for server in [
        "http://me:SECRET@127.0.0.1:1",
        "http://127.0.0.1:1?token=SECRET",
        "https://me:SECRET@HOST",
        "http://me:SECRET@no.such.host.invalid",
        "ftp://me:SECRET@HOST",
        "http://me:SECRET@",
        "http://[me:SECRET@HOST",
        "http://HOST:x?a=SECRET",
    ] {
        for done in ["status", "pause gpu-tune -y", "undo -y", "diagnose -v=10"] {
            let words = words(&format!("{done} --server {server}"), &test_cluster);
            let ran = run(&test_cluster, &words);
            assert_ne!(ran.code, Some(0), "{}", ran.transcript());
            says_nothing(&ran, &test_cluster);
        }
    }
}

#[test]
fn secrets_in_kubeconfig_and_environment_are_hidden() {
    let test_cluster = TestCluster::from_capture("complete");
    let url = &test_cluster.served.url;
    let host = url.trim_start_matches("http://");
    let proxy = format!("http://me:{SECRET}@127.0.0.1:1");
    let config = |server: String, cluster: Value, user: Value| {
        let mut cluster = cluster;
        cluster["server"] = json!(server);
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}], "users": [{"name": "x", "user": user}]})
        .to_string()
    };
    let failing = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
        "args": ["-c", format!("echo 'GET https://me:{SECRET}@idp/?token={SECRET} failed' >&2; exit 1")]});
    for (n, (config, proxied)) in [
        (config(format!("http://me:{SECRET}@{host}"), json!({}), json!({})), ""),
        (config(format!("{url}?token={SECRET}"), json!({}), json!({})), ""),
        (config(url.clone(), json!({}), json!({"token": SECRET})), ""),
        (config(url.clone(), json!({}), json!({"username": "me", "password": SECRET})), ""),
        (config(url.clone(), json!({"proxy-url": proxy}), json!({})), ""),
        (config(url.clone(), json!({"proxy-url": format!("gopher://me:{SECRET}@x")}), json!({})), ""),
        (config("http://cluster.invalid".into(), json!({}), json!({})), &*proxy),
        (config(url.clone(), json!({}), json!({"exec": failing})), ""),
    ]
    .into_iter()
    .enumerate()
    {
        let path = test_cluster.served.dir().join(format!("config-{n}"));
        std::fs::write(&path, config).expect("a file");
        for done in ["status", "pause gpu-tune -y", "journal show -o json", "undo -y", "diagnose -v=10"] {
            let ran = Run::new(done.split(' '))
                .kubeconfig(&path)
                .env("XDG_STATE_HOME", test_cluster.state.path())
                .env("HTTP_PROXY", proxied)
                .output();
            says_nothing(&ran, &test_cluster);
        }
    }
}

/// A secret in the journal of an older version stays there, and is not shown.
#[test]
fn secrets_in_an_old_journal_are_hidden() {
    let test_cluster = TestCluster::from_capture("complete");
    assert_eq!(test_cluster.run("pause gpu-tune -y").code, Some(0));
    let (path, text) = files(test_cluster.state.path()).remove(0);
    let (begun, rest) = text.split_once('\n').expect("lines");
    let mut begun: Value = serde_json::from_str(begun).expect("JSON");
    begun["begun"]["command"] = json!([
        "kubectl-skyhook",
        "pause",
        "gpu-tune",
        "--token",
        SECRET,
        format!("-shttp://me:{SECRET}@host"),
        "-y"
    ]);
    begun["begun"]["server"] = json!(format!("{}?token={SECRET}", test_cluster.served.url));
    std::fs::write(path, format!("{begun}\n{rest}")).expect("a file");
    for words in [
        "journal list -o wide",
        "journal list -o json",
        "journal list -o jsonpath={.items[*].command}",
        "journal show",
        "journal show -o json",
        "journal show -o yaml",
        "journal show -o custom-columns=C:.begun.command,S:.begun.server",
        "undo --dry-run",
        "undo -y",
    ] {
        let ran = test_cluster.run(words);
        ran.expect_code(0);
        assert!(!ran.transcript().contains(SECRET), "{}", ran.transcript());
    }
    let shown = test_cluster.run("journal list -o json").json();
    assert_eq!(
        shown["items"][1]["command"],
        json!(["kubectl-skyhook", "pause", "gpu-tune", "--token", "<masked>", "-shttp://host", "-y"])
    );
    assert_eq!(shown["items"][1]["server"], json!(test_cluster.served.url));
}

/// Each flag that takes a URL or a credential must be in `SECRETS`.
#[test]
fn no_secret_flag_is_forgotten() {
    fn walk(command: &clap::Command, wrong: &mut Vec<String>) {
        for arg in command.get_arguments() {
            let names = arg.get_value_names().unwrap_or_default().join(" ");
            let secret = ["URL", "TOKEN", "PASSWORD", "SECRET", "KEY=VALUE"];
            let known = SECRETS.iter().any(|(id, _)| *id == arg.get_id());
            if secret.iter().any(|word| names.contains(word)) && !known {
                wrong.push(arg.to_string());
            }
        }
        command.get_subcommands().for_each(|sub| walk(sub, wrong));
    }
    let mut wrong = Vec::new();
    walk(&Program::SKYHOOK.tree(), &mut wrong);
    assert_eq!(wrong, [""; 0], "add flags with secret values to SECRETS");
}
