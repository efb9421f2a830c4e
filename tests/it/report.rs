//! The HTML page of `report`.

mod browser;

use std::path::Path;

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use regex::Regex;
use serde_json::{Value, json};

use crate::screens::Fleet;
use crate::support::clusters;
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::{RunOutput, run};

/// A node name, log line or message that tries to be markup.
const HOSTILE: &str =
    "</title></style><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&\u{202e}";

fn report(from: &Path) -> RunOutput {
    let from = from.display();
    run(&format!("report --output-file - --from {from} --now 2026-11-20T10:00:00Z")).output()
}

/// A rollout whose custom resource, package and failure carry markup.
fn hostile() -> Value {
    let mut skyhook =
        NODEWRIGHT.skyhook("erroring", json!({"driver": {"version": HOSTILE, "image": HOSTILE}}));
    skyhook["metadata"]["annotations"] = json!({ApiFlavor::NodeWright.key("pause"): "true"});
    skyhook["status"]["compartmentStatuses"] =
        json!({HOSTILE: {"matched": 1, "completed": 0, "inProgress": 1}});
    let mut node = NODEWRIGHT.node(HOSTILE, HOSTILE, &["driver|1.0.0 apply erroring"]);
    node["spec"]["unschedulable"] = true.into();
    node["metadata"]["annotations"][HOSTILE] = HOSTILE.into();
    json!({"apiVersion": "v1", "kind": "List", "items": [NODEWRIGHT.operator(), skyhook, node]})
}

#[test]
fn page_of_a_failing_package() {
    let captured = clusters::named("apply-erroring");
    let page = run(&format!("report --output-file - --from {}", captured.path())).output();
    assert_snapshot!(without_versions(&page.transcript()));
}

/// Replaces hashes, the version, and the rules that were not checked, so that only changes of the page show.
fn without_versions(page: &str) -> String {
    let regex = |pattern: &str| Regex::new(pattern).expect("a pattern");
    let page = regex(r"sha256-[^']+").replace_all(page, "[hash]");
    let page = regex(r"kubectl-skyhook \d+\.\d+\.\d+").replace_all(&page, "kubectl-skyhook [version]");
    let page = regex(r"\d+ rules could").replace_all(&page, "[n] rules could");
    let page = regex(r"SKY\d{3}( SKY\d{3})*:").replace_all(&page, "[codes]:");
    page.replace("><", ">\n<")
}

/// The page contains every line of `diagnose stuck --all`.
#[test]
fn the_page_has_the_words_of_the_diagnosis() {
    for name in ["apply-erroring", "drain-blocked", "nodewright-rollout-stopped-by-policy"] {
        let path = clusters::named(name).path();
        let page = run(&format!("report --output-file - --from {path}")).output();
        let page = visible_text(&page.stdout);
        let diagnosis = run(&format!("diagnose stuck -o json --from {path}")).output().json();
        for cause in diagnosis["causes"].as_array().expect("causes") {
            for word in ["code", "name"] {
                let word = cause[word].as_str().expect("a word");
                assert!(page.contains(word), "{name}: {word}");
            }
            for remedy in cause["remedies"].as_array().expect("remedies") {
                let title = remedy["title"].as_str().expect("a title");
                assert!(page.contains(title), "{name}: {title}");
            }
        }
    }
}

/// The text between tags, unescaped.
fn visible_text(page: &str) -> String {
    let parts = page.split('<').filter_map(|part| part.split_once('>'));
    let text: String = parts.map(|(_, text)| text).collect();
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

#[test]
fn hostile_names_remain_text() {
    let page = run("report --output-file - --from -").stdin(hostile().to_string()).output();
    assert_eq!(page.stdout.matches("<script>").count(), 1);
    assert_eq!(page.stdout.matches("</style>").count(), 1);
    page.expect_no_stdout("<img");
    page.expect_no_stdout("\u{202e}");
    page.expect_stdout("&lt;img src=x onerror=alert(1)&gt;");
}

/// A page without the network: no address that a browser would load, and a policy without exceptions.
#[test]
fn the_page_loads_nothing() {
    let page = report(Fleet::of(10).directory.path()).stdout;
    for loads in ["src=", "http://", "https://", "url(", "@import", "unsafe-inline", "style=\""] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'; style-src 'sha256-"));
}

#[test]
fn what_was_not_read_follows_the_verdict() {
    let node = NODEWRIGHT.node("gpu-1", "complete", &[]);
    let page = run("report --output-file - --from -").stdin(node.to_string()).output();
    page.expect_code(1);
    let at = |words: &str| page.stdout.find(words).expect(words);
    let verdict = at("<p class=\"verdict warning\"><span class=\"warning\">Incomplete diagnosis: ");
    let missing = at("<details open><summary><b>This page is incomplete: </b>cannot read custom resources; ");
    assert!(verdict < missing && missing < at("id=\"diagnosis\""));
    page.expect_no_stdout("Nothing is stuck");
    // Without custom resources it is unknown whether one selects the node.
    page.expect_stdout("title=\"gpu-1: unknown\"");
}

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn the_page_of_15000_nodes_is_at_most_3_mb() {
    let page = report(Fleet::of(15_000).directory.path());
    page.expect_code(0);
    let cells = page.stdout.matches("<i class=").count();
    assert!(cells >= 15_000, "{cells} cells");
    let size = page.stdout.len();
    assert!(size <= 3_000_000, "{size} bytes");
}

#[test]
fn the_file_is_written_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page.html");
    let path = clusters::named("complete").path();
    let words = format!("report --from {path} --output-file {}", file.display());
    let first = run(&words).output();
    first.expect_code(0);
    assert_eq!(first.stdout, format!("{}\n", file.display()));
    let page = std::fs::read_to_string(&file).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    let again = run(&words).output();
    again.expect_code(3);
    again.expect_stderr("already exists; nothing was written");
    run(&format!("{words} --force")).output().expect_code(0);
    let data = run(&format!("report --from {path} -o json")).output();
    data.expect_code(64);
    data.expect_stderr("report writes HTML; -o is not supported");
}

#[test]
fn file_after_the_flag_for_the_format_gets_a_hint() {
    let refused = run("report -o page.html --from tests/clusters/complete").output();
    refused.expect_code(64);
    refused.expect_stderr("tip: to write to this file, use '--output-file'");
    let other = run("status -o page.html --from tests/clusters/complete").output();
    other.expect_code(64);
    other.expect_no_stderr("--output-file");
}
