//! Output to terminals and pipes, colors, progress and verbosity.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use expectrl::{Eof, Expect, Session};

use crate::support::fake_api::FakeApi;
use crate::support::run::{Child, RunOutput, run};
use crate::support::test_cluster::{CR, TestCluster};

const FROM: &str = "--from tests/clusters/apply-erroring";

/// Commands that only read, on files.
fn reading() -> Vec<String> {
    [
        "status",
        "status -o json",
        "diagnose stuck",
        "diagnose stuck -o json",
        "node status",
        "node status -o wide",
        "node list --skyhook gpu-tune",
        "package status --skyhook gpu-tune",
        "status gpu-tune",
        "version",
        "explain",
        "explain SKY101",
        "schema",
        "schema Diagnosis",
        "rbac",
        "completion bash",
        "--help",
    ]
    .map(|words| match words.split(' ').next() {
        Some("explain" | "schema" | "rbac" | "completion" | "--help") => words.to_owned(),
        _ => format!("{words} {FROM}"),
    })
    .to_vec()
}

/// As in `| head -1`: nothing reads the rest of the output.
#[test]
fn closed_pipe_ends_silently() {
    for words in reading() {
        let whole = run(&words).output();
        let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-skyhook"))
            .args(words.split_whitespace())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let mut text = String::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut text).expect("text");
        let code = child.wait().expect("the binary ends").code();
        assert_eq!((code, text), (whole.code, whole.stderr), "{words}");
    }
}

#[test]
fn pipe_closed_after_one_line_ends_silently() {
    let whole = run(&format!("node status {FROM}")).output();
    let line = format!(
        "'{}' node status {FROM} | head -1; echo \"${{PIPESTATUS[0]}}\"",
        env!("CARGO_BIN_EXE_kubectl-skyhook")
    );
    let output = Command::new("bash")
        .args(["-c", &line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a shell");
    let first = whole.stdout.lines().next().expect("a line");
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.stderr),
        (format!("{first}\n0\n"), Vec::new())
    );
}

#[test]
fn color_settings_are_honored() {
    let coloured = |ran: RunOutput| ran.stdout.contains("\x1b[");
    let words = format!("diagnose stuck {FROM}");
    let call = |more: &str| run(&format!("{words} {more}"));
    assert!(!coloured(call("").output()));
    assert!(coloured(call("--color=always").output()));
    assert!(coloured(call("").env("CLICOLOR_FORCE", "1").output()));
    assert!(coloured(call("").env("FORCE_COLOR", "1").output()));
    assert!(!coloured(call("").env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output()));
    assert!(!coloured(call("--color=never").env("CLICOLOR_FORCE", "1").output()));
    assert!(coloured(call("--color=always").env("NO_COLOR", "1").output()));
    // Without colors no information is missing.
    let bare = call("").output().stdout;
    let mut stripped = String::new();
    let painted = call("--color=always").output().stdout;
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a colour ends").1;
    }
    assert_eq!(stripped + rest, bare);
}

/// The output on a terminal of this width.
pub fn on_terminal(columns: usize, words: &str) -> String {
    let mut command = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_kubectl-skyhook");
    command
        .args([
            "-c",
            &format!("read line; stty -echo cols {columns}; '{binary}' {words}; echo '-- end'; read line"),
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("NO_COLOR", "1")
        .env("TERM", "xterm");
    let mut session = Session::spawn(command).expect("the shell starts on a terminal");
    // Fifteen thousand nodes take a minute where all tests run at once.
    session.set_expect_timeout(Some(Duration::from_secs(300)));
    // The script waits for this line before it sets the width.
    session.send_line("").expect("the shell reads input");
    // A terminal discards unread output when its last writer exits, so the shell waits until it was read.
    let output = session.expect("-- end").expect("the command ends");
    let output = String::from_utf8_lossy(output.before()).replace("\r\n", "\n");
    session.send_line("").expect("the shell reads input");
    session.expect(Eof).expect("the shell ends");
    output
}

#[test]
fn tables_follow_the_terminal_width() {
    let widest = |text: &str| text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let (narrow, wide) = (on_terminal(80, "explain"), on_terminal(200, "explain"));
    assert!((60..=80).contains(&widest(&narrow)), "{narrow}");
    assert!(widest(&wide) > 80, "{wide}");
    let lines = |text: &str| text.lines().count();
    assert!(lines(&narrow) > lines(&wide), "{narrow}\n{wide}");
    // Nothing is truncated.
    let words = |text: &str| text.split_whitespace().count();
    assert_eq!(words(&narrow), words(&wide), "{narrow}\n{wide}");
}

/// The most used tables fit the most common width.
#[test]
fn default_tables_fit_80_columns() {
    for words in
        ["node status", "node list --skyhook gpu-tune", "package status --skyhook gpu-tune", "status"]
    {
        for cluster in ["apply-erroring", "finalizer-stripped", "uninstall-erroring"] {
            let shown = on_terminal(80, &format!("{words} --from tests/clusters/{cluster}"));
            let wide = shown.lines().filter(|l| l.chars().count() > 80);
            let wide: Vec<&str> = wide.collect();
            assert!(wide.is_empty(), "{words} of {cluster}: {}", wide.join("\n"));
            assert!(!shown.is_empty(), "{words} of {cluster}");
        }
    }
}

#[test]
fn label_columns_are_shown_on_request() {
    for words in ["node status", "node list --skyhook gpu-tune"] {
        let plain = run(&format!("{words} {FROM}")).output();
        assert!(!plain.stdout.contains("LABELS"), "{}", plain.stdout);
        for wide in ["", "-o wide"] {
            let ran = run(&format!("{words} --show-labels {wide} {FROM}")).output();
            let mut lines = ran.stdout.lines();
            assert!(lines.next().expect("headings").ends_with("  LABELS"));
            assert!(lines.all(|l| l.contains("kubernetes.io/hostname=node-")), "{}", ran.stdout);
        }
    }
}

#[test]
fn sort_by_sorts_lists() {
    let names = |words: &str| run(&format!("{words} -o name {FROM}")).output();
    let by = |path: &str| names(&format!("node status --sort-by {path}")).stdout;
    let first = by(".node");
    assert_eq!(first, "node/node-1\nnode/node-2\nnode/node-3\n");
    let status =
        run(&format!("node status --sort-by {{.status}} -o jsonpath={{.items[*].status}} {FROM}")).output();
    let mut sorted: Vec<&str> = status.stdout.split(' ').collect();
    sorted.sort_unstable();
    assert_eq!(status.stdout, sorted.join(" "));
    let ran = run(&format!("node list --skyhook gpu-tune --sort-by .nope {FROM}")).output();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.ends_with(
            "error: --sort-by .nope matches nothing in any item; the fields are node, status, packagesComplete, packagesTotal, restarts, selected, ignored, malformed\n"
        ),
        "{}",
        ran.stderr
    );
}

#[test]
fn templates_can_be_read_from_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let path = file("t", "{range .items[*]}{.node} {.status}\n{end}");
    let ran = run(&format!("node status -o jsonpath-file={path} {FROM}")).output();
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stdout.lines().count(), 3, "{}", ran.stdout);
    assert!(ran.stdout.starts_with("node-1 "), "{}", ran.stdout);
    let path = file("c", "NODE   IS\n.node   .status\n");
    let by_file = run(&format!("node status -o custom-columns-file={path} {FROM}")).output();
    let inline = run(&format!("node status -o custom-columns=NODE:.node,IS:.status {FROM}")).output();
    assert_eq!((by_file.code, by_file.stdout), (Some(0), inline.stdout));
    let bad = file("b", "NODE IS\n.name\n");
    for format in [
        format!("custom-columns-file={bad}"),
        "jsonpath-file=/nonexistent/t".to_owned(),
        "jsonpath-file=".to_owned(),
    ] {
        let ran = run(&format!("node status -o {format} {FROM}")).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{format}");
    }
}

const TOKEN: &str = "s3cr3t-t0ken";

fn traced(level: &str) -> RunOutput {
    let fake = FakeApi::new().serving(kubectl_skyhook::api::ApiFlavor::Skyhook).require_token(TOKEN);
    let served = fake.serve();
    // A secret in a server response.
    fake.load(serde_json::json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "annotations": {"registry-token": "node-s3cr3t"}},
    }));
    let url = served.url.clone();
    let mut ran =
        run(&format!("package status --token {TOKEN} {level}")).kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(0);
    ran.stderr = ran.stderr.replace(&url, "http://SERVER");
    ran
}

/// The lines without durations.
fn timeless(text: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once(" in ") {
        Some((before, _)) if before.contains(" http") => format!("{before} in N milliseconds"),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect()
}

#[test]
fn verbosity_6_logs_each_request() {
    let requests = |ran: &RunOutput| {
        let mut lines: Vec<String> = timeless(&ran.stderr);
        lines.retain(|line| line.ends_with(" milliseconds"));
        lines.sort();
        lines
    };
    let expected = [
        "GET http://SERVER/api/v1/namespaces?fieldSelector=metadata.name%3Dskyhook&limit=500 200 OK in N milliseconds",
        "GET http://SERVER/api/v1/nodes?limit=500 200 OK in N milliseconds",
        "GET http://SERVER/api/v1/pods?labelSelector=skyhook.nvidia.com%2Fname&limit=500 200 OK in N milliseconds",
        "GET http://SERVER/apis/apps/v1/deployments?labelSelector=control-plane%3Dcontroller-manager&limit=500 200 OK in N milliseconds",
        "GET http://SERVER/apis/nodewright.nvidia.com/v1alpha1 404 Not Found in N milliseconds",
        "GET http://SERVER/apis/skyhook.nvidia.com/v1alpha1 200 OK in N milliseconds",
        "GET http://SERVER/apis/skyhook.nvidia.com/v1alpha1/skyhooks?limit=500 200 OK in N milliseconds",
    ];
    for level in ["-v=6", "-v6", "--v=6", "--verbose=6", "-v 6"] {
        let ran = traced(level);
        assert_eq!(requests(&ran), expected, "{level}: {}", ran.stderr);
        assert!(!ran.stderr.contains("headers"), "{}", ran.stderr);
        assert_eq!(ran.stdout, traced("").stdout);
    }
    for level in ["", "-v", "-v=true", "-v=false", "-v=5", "-v=0"] {
        let ran = traced(level);
        assert!(requests(&ran).is_empty(), "{level}: {}", ran.stderr);
    }
    let is_traced = |level| traced(level).stderr.contains("acting on");
    assert!(is_traced("-v") && is_traced("-v=true") && is_traced("-v=1") && is_traced("-v=6"));
    assert!(!is_traced("-v=false") && !is_traced("-v=0") && !is_traced(""));
}

#[test]
fn verbosity_8_logs_all_headers_and_no_secrets() {
    let ran = traced("-v=7");
    assert!(ran.stderr.contains("Request headers:\n    accept: application/json"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("Response"), "{}", ran.stderr);
    for level in ["-v=8", "-v=9", "-v=10"] {
        let ran = traced(level);
        assert!(ran.stderr.contains("Response headers:\n"), "{}", ran.stderr);
        for secret in [TOKEN, "s3cr3t"] {
            assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        }
    }
}

/// Neither the token of a credential plugin nor its output is logged.
#[test]
fn plugin_tokens_are_not_logged() {
    let fake = FakeApi::new().serving(kubectl_skyhook::api::ApiFlavor::Skyhook).require_token(TOKEN);
    let served = fake.serve();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let credential = format!(
        "{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{TOKEN}\"}}}}"
    );
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": served.url.clone()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential],
            "interactiveMode": "Never",
        }}}],
    });
    std::fs::write(&path, config.to_string()).expect("a file");
    let ran = run("node status -v=10").kubeconfig(&path).output();
    ran.expect_code(0);
    assert!(ran.stderr.contains("Response headers:\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("s3cr3t"), "{}", ran.stderr);
}

/// Output to a pipe has no progress line and no escape sequences.
#[test]
fn progress_is_shown_only_on_terminals() {
    let test_cluster = TestCluster::from_capture("apply-erroring");
    let ran = test_cluster.run(&format!("reset {CR} --confirm --no-pause"));
    ran.expect_code(0);
    let odd = |text: &str| text.contains(['\r', '\x1b']) || text.contains("per_sec");
    assert!(!odd(&ran.stdout) && !odd(&ran.stderr), "{}", ran.transcript());
    assert!(!ran.stderr.contains(" objects  "), "{}", ran.stderr);
}

/// Ctrl-C ends a change cleanly: the report says what was done and how to undo it.
#[test]
fn interrupt_reports_what_was_done() {
    let test_cluster = TestCluster::from_capture("complete");
    let child = Child::default();
    test_cluster.fake.on("PATCH nodes").nth(1).after(child.interrupt());
    let words = format!("reset {CR} --confirm --no-pause --max-parallel 1");
    let ran = test_cluster.command(&words).child(&child).output();
    ran.expect_code(130);
    let done = test_cluster.writes().iter().filter(|w| w.contains("/nodes/")).count();
    assert!((1..3).contains(&done), "{:?}", test_cluster.writes());
    for line in [
        format!("{done} changed"),
        "not reached".to_owned(),
        "interrupted; requests in flight were completed".to_owned(),
        "to undo: kubectl skyhook undo ".to_owned(),
    ] {
        assert!(ran.stdout.contains(&line), "{line}: {}", ran.transcript());
    }
}
