//! `--contexts`: one command for several contexts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fake_api::{FakeApi, Reply, Served};
use crate::support::run::{Run, RunOutput, run, without_rule_counts};
use crate::support::test_cluster::captured_api;

/// Servers, each with a context in one shared kubeconfig.
struct Servers {
    fakes: Vec<FakeApi>,
    _served: Vec<Served>,
    directory: TempDir,
}

impl Servers {
    /// Serves each cluster as the context of this name.
    fn of(contexts: Vec<(&str, FakeApi)>) -> Servers {
        let served: Vec<Served> = contexts.iter().map(|(_, fake)| fake.serve()).collect();
        let names = || contexts.iter().map(|(name, _)| *name);
        let clusters: Vec<Value> = names()
            .zip(&served)
            .map(|(name, served)| json!({"name": name, "cluster": {"server": served.url}}))
            .collect();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": [],
            "contexts": names()
                .map(|name| json!({"name": name, "context": {"cluster": name, "user": ""}}))
                .collect::<Vec<_>>(),
        });
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("config"), config.to_string()).expect("a write");
        Servers { fakes: contexts.into_iter().map(|(_, fake)| fake).collect(), _served: served, directory }
    }

    /// Adds a context whose server refuses connections.
    fn add_unreachable(&self, name: &str) {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("a file");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        let list = |config: &mut Value, field: &str, item| {
            config[field].as_array_mut().expect("a list").push(item);
        };
        let cluster = json!({"name": name, "cluster": {"server": "http://127.0.0.1:1"}});
        list(&mut config, "clusters", cluster);
        let context = json!({"name": name, "context": {"cluster": name, "user": ""}});
        list(&mut config, "contexts", context);
        std::fs::write(self.kubeconfig(), config.to_string()).expect("a write");
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    fn run(&self, words: &str) -> RunOutput {
        Run::new(words.split_whitespace()).kubeconfig(&self.kubeconfig()).output()
    }

    fn time(&self, words: &str) -> Duration {
        let start = Instant::now();
        self.run(words).expect_code(0);
        start.elapsed()
    }
}

/// A failing and a healthy cluster, and one that does not let the user read custom resources or nodes.
fn three() -> Servers {
    let closed = captured_api("complete");
    closed.on("LIST *").reply(403);
    Servers::of(vec![
        ("prod-east", captured_api("apply-erroring")),
        ("prod-west", captured_api("complete")),
        ("stage", closed),
    ])
}

#[test]
fn each_context_reads_of_nodes_what_the_command_needs() {
    let servers = three();
    let _ = servers.run("package status --contexts prod-west,prod-east");
    for fake in &servers.fakes[..2] {
        let requests = fake.requests().into_iter();
        let mut lists = requests.filter(|request| request.path == "/api/v1/nodes");
        let accept = lists.next().expect("a list of nodes").header("accept");
        assert!(accept.contains("as=PartialObjectMetadataList"), "{accept}");
        assert!(lists.next().is_none());
    }
}

#[test]
fn tables_have_a_column_of_contexts() {
    let servers = three();
    let output = servers.run("node status --contexts prod-west,prod-east");
    output.expect_code(0);
    assert_snapshot!("node_status", output.transcript());
}

/// The failing context is named on stderr; the output of the other contexts is complete.
#[test]
fn a_context_that_fails_does_not_hide_the_others() {
    let servers = three();
    let output = servers.run("node status --contexts *");
    output.expect_code(1);
    assert_snapshot!("one_fails", output.transcript());
}

#[test]
fn documents_name_the_context_of_each_item() {
    let servers = three();
    let list = servers.run("status -o json --contexts prod-*,stage").json();
    assert_eq!(list["kind"], "Contexts");
    let items = list["items"].as_array().expect("items");
    let contexts: Vec<&Value> = items.iter().map(|item| &item["context"]).collect();
    assert_eq!(contexts, ["prod-east", "prod-west"]);
    assert!(items.iter().all(|item| item["name"] == "gpu-tune"), "{list:#}");
    let contexts = list["contexts"].as_array().expect("contexts");
    let codes: Vec<&Value> = contexts.iter().map(|one| &one["exitCode"]).collect();
    assert_eq!(codes, [0, 0, 1]);
    assert_eq!(contexts[0]["document"]["kind"], "Status");
    let error = contexts[2]["error"].as_str().expect("an error");
    assert!(error.contains("cannot read"), "{error}");
    // A document that is not a list becomes one item.
    let diagnosis = servers.run("diagnose stuck -o json --contexts prod-west").json();
    assert_eq!(diagnosis["items"][0]["context"], "prod-west");
    assert_eq!(diagnosis["items"][0]["kind"], "Diagnosis");
    // The rows of all contexts are items of one list.
    let nodes = servers.run("node status -o json --contexts prod-*").json();
    let nodes = nodes["items"].as_array().expect("items").iter();
    let nodes: Vec<String> = nodes.map(|node| format!("{} {}", node["context"], node["node"])).collect();
    assert_eq!(
        nodes,
        [
            r#""prod-east" "node-1""#,
            r#""prod-east" "node-2""#,
            r#""prod-east" "node-3""#,
            r#""prod-west" "node-1""#,
            r#""prod-west" "node-2""#,
            r#""prod-west" "node-3""#,
        ]
    );
    let path = "jsonpath={.items[*].context}";
    let output = servers.run(&format!("status --contexts prod-* -o {path}"));
    assert_eq!(output.stdout, "prod-east prod-west");
    let names = servers.run("status --contexts prod-* -o name");
    assert_eq!(names.stdout, "prod-east skyhook/gpu-tune\nprod-west skyhook/gpu-tune\n");
}

/// Priority of exit codes over several contexts: findings, then errors, then success.
#[test]
fn exit_codes_have_an_order() {
    let servers = three();
    for (contexts, code) in [
        ("prod-west", 0),
        ("prod-west,stage", 1),
        ("prod-west,prod-east", 2),
        ("stage,prod-east,prod-west", 2),
    ] {
        let output = servers.run(&format!("diagnose stuck --contexts {contexts}"));
        assert_eq!(output.code, Some(code), "{contexts}: {}", output.transcript());
    }
}

#[test]
fn writing_commands_take_one_context() {
    let servers = three();
    for words in ["pause gpu-tune --yes", "reset gpu-tune --node node-1 --dry-run", "fix", "undo"] {
        let output = servers.run(&format!("{words} --contexts prod-*"));
        output.expect_code(64);
        output.expect_stderr("takes exactly one context");
    }
    for fake in &servers.fakes {
        assert!(fake.lines().is_empty(), "{:?}", fake.lines());
    }
    for (words, says) in [
        ("status --contexts prod-* --context stage", "--contexts cannot be used with --context"),
        ("status --contexts prod-* --from x", "--contexts cannot be used with --from"),
        ("collect -o - --contexts prod-*", "-o - cannot be used with --contexts"),
    ] {
        let output = servers.run(words);
        output.expect_code(64);
        output.expect_stderr(says);
    }
    let unknown = servers.run("status --contexts prod-east,prod-wets");
    unknown.expect_code(1);
    unknown.expect_stderr("context \"prod-wets\" not found");
    unknown.expect_stderr("did you mean prod-west");
}

#[test]
fn each_context_has_a_file_of_its_own() {
    let servers = three();
    let directory = servers.directory.path();
    for (command, extension) in [("collect -o", "tar.gz"), ("report --no-logs --output-file", "html")] {
        let file = directory.join(format!("x.{extension}"));
        let output = servers.run(&format!("{command} {} --contexts prod-*", file.display()));
        output.expect_code(0);
        let mut lines: Vec<&str> = output.stdout.lines().collect();
        lines.sort_unstable();
        let expected = ["prod-east", "prod-west"].map(|context| {
            let file = directory.join(format!("x-{context}.{extension}"));
            assert!(file.is_file(), "{}", output.transcript());
            file.display().to_string()
        });
        assert_eq!(lines, expected);
    }
    let discarded = servers.run("collect -o /dev/null --contexts prod-*");
    discarded.expect_code(0);
    assert_eq!(discarded.stdout.matches("/dev/null\n").count(), 2);
    let captured = directory.join("x-prod-east.tar.gz");
    let diagnosis = run(&format!("diagnose stuck --from {}", captured.display())).output();
    diagnosis.expect_code(2);
    diagnosis.expect_stdout("SKY201");
}

/// Characters that file names may not have are replaced, which must not make two names equal.
#[test]
fn contexts_with_similar_names_have_different_files() {
    let servers = Servers::of(vec![
        ("a/b", captured_api("complete")),
        ("a:b", captured_api("complete")),
        ("a b", captured_api("complete")),
        ("a-b", captured_api("complete")),
    ]);
    let directory = servers.directory.path();
    let file = directory.join("x.html");
    let page =
        |words: &str| servers.run(&format!("report --no-logs --output-file {} {words}", file.display()));
    let written = page("--contexts a*");
    written.expect_code(0);
    let files: BTreeSet<&str> = written.stdout.lines().collect();
    assert_eq!(files.len(), 4, "{}", written.transcript());
    assert!(files.iter().all(|file| Path::new(file).is_file()), "{}", written.transcript());
    // The same names again: no file is overwritten without --force.
    page("--contexts a*").expect_code(3);
    page("--contexts a* --force").expect_code(0);
    let pages =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    assert_eq!(pages.filter(|path| path.extension().is_some_and(|e| e == "html")).count(), 4);
}

#[test]
fn reports_for_machines_name_the_context() {
    let servers = three();
    servers.add_unreachable("down");
    for (format, contexts) in [("junit", "down,prod-*"), ("openmetrics", "*")] {
        let words = format!("diagnose stuck --no-logs -o {format} --contexts {contexts}");
        let output = servers.run(&words);
        output.expect_code(2);
        assert_snapshot!(format, masked(&output.stdout));
    }
    let failed = servers.run("diagnose stuck -o junit --contexts down");
    assert_snapshot!("all_contexts_failed", masked(&failed.transcript()));
    let none = servers.run("node status -o junit --contexts prod-*");
    none.expect_code(1);
    none.expect_stderr("this command has no JUnit report");
}

/// The output with server addresses, times and ages masked.
fn masked(output: &str) -> String {
    let mut output = without_rule_counts(output);
    for (pattern, mask) in [
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
        (r"(?m)(taken_at_seconds\{.*\}) \d+", "$1 [time]"),
        (r"(?m)(  )\d+[dhms](\d+[hms])?$", "$1[age]"),
    ] {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        output = pattern.replace_all(&output, mask).into_owned();
    }
    output
}

/// All contexts are read at the same time: one after the other would take three times as long as one.
#[test]
fn contexts_are_read_at_the_same_time() {
    let slow = || captured_api("complete").latency(Duration::from_secs(1));
    let servers = Servers::of(vec![("a", slow()), ("b", slow()), ("c", slow())]);
    let one = servers.time("status --context a");
    let all = servers.time("status --contexts a,b,c");
    assert!(all < one.mul_f64(2.0), "{all:?} for three, {one:?} for one");
}

#[test]
fn a_context_that_is_down_is_bounded() {
    let silent = captured_api("complete");
    silent.on("GET *").reply(Reply::Hang);
    silent.on("LIST *").reply(Reply::Hang);
    let servers = Servers::of(vec![("up", captured_api("complete")), ("down", silent)]);
    let start = Instant::now();
    let output = servers.run("status --contexts up,down --request-timeout 1s");
    let took = start.elapsed();
    output.expect_code(1);
    output.expect_stdout("up       gpu-tune  Complete");
    output.expect_stderr("down: error: ");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
