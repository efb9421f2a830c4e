//! `status -w` on a terminal: the first screen, the screen after a change, and the last one.

use std::process::Command;

use insta::assert_snapshot;
use jiff::Timestamp;
use kubectl_skyhook::api::keys;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{API, NAMES, POOLS, complete, objects};
use crate::support::fake_api::FakeApi;
use crate::support::sample::sizes;
use crate::support::terminal::Terminal;
use crate::support::test_cluster::TestCluster;
use crate::support::virtual_screen::VirtualScreen;

const COLUMNS: usize = 80;

/// The last words of each complete screen.
const END: &str = "Ctrl-C stops watching";

/// A server with nodes whose rollouts began 62 seconds ago by the server's clock. During the next half
/// minute, every age is shown with two digits and one unit, such as `62s`.
fn serving(nodes: usize) -> TestCluster {
    let fake = FakeApi::new().serving(API);
    let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
    fake.change(|it| {
        it.clock_ahead = Some(now.duration_since(kubectl_skyhook::ctx::now()));
        let text = Value::from(objects(nodes)).to_string();
        let text = text.replace("T09:50:00Z", "T09:58:58Z").replace("T09:58:00Z", "T09:58:58Z");
        let objects: Vec<Value> = serde_json::from_str(&text).expect("the text is valid JSON");
        objects.into_iter().for_each(|object| it.store.load(object));
    });
    TestCluster::serving(fake)
}

/// The object once these custom resources are complete; `None` for Pods and Jobs, which are deleted.
fn completed(mut object: Value, names: &[&str]) -> Option<Value> {
    match object["kind"].as_str() {
        Some("Pod" | "Job") => return None,
        Some("Node") => {
            let annotations = object["metadata"]["annotations"].as_object_mut().expect("annotations");
            for name in names {
                if let Some(status) = annotations.get_mut(&keys::status(API, name)) {
                    *status = "complete".into();
                    let image = format!("registry.example/{name}");
                    let entry = json!({format!("{name}|1.0.0"): {
                        "name": name, "version": "1.0.0", "image": image, "stage": "config", "state": "complete",
                    }});
                    annotations.insert(keys::node_state(API, name), entry.to_string().into());
                }
            }
        }
        Some("NodeWright") => {
            object["metadata"]["annotations"] = json!({});
            object["status"]["status"] = "complete".into();
            let compartment = &mut object["status"]["compartmentStatuses"]["__default__"];
            compartment["completed"] = compartment["matched"].clone();
            compartment["inProgress"] = 0.into();
        }
        _ => {}
    }
    Some(object)
}

/// Completes these custom resources on the objects that `concerns` accepts.
fn finish(cluster: &TestCluster, names: &[&str], concerns: impl Fn(&Value) -> bool) {
    let objects = cluster.fake.objects().into_iter().filter(concerns);
    let (there, gone): (Vec<_>, Vec<_>) = objects
        .map(|object| (object["metadata"].clone(), completed(object, names)))
        .partition(|(_, new)| new.is_some());
    cluster.fake.change(|it| {
        for (metadata, _) in gone {
            let text = |key: &str| metadata[key].as_str().unwrap_or_default();
            for plural in ["pods", "jobs"] {
                it.store.forget(plural, text("namespace"), text("name"));
            }
        }
        there.into_iter().filter_map(|(_, new)| new).for_each(|object| it.store.load(object));
    });
}

/// The screen without spans of this run, and with `N` for the digits of times and ages.
fn screen(output: &str) -> String {
    let drawn = VirtualScreen::text(COLUMNS, output);
    let spans = Regex::new(r"completed in .+ per minute|\d+s so far").expect("a pattern");
    let without = |found: &Captures<'_>| found[0].replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let drawn = spans.replace_all(&drawn, without);
    let times = Regex::new(r"\b\d+s\b|\b\d\d:\d\d:\d\d\b").expect("a pattern");
    let digits = |found: &Captures<'_>| found[0].replace(|c: char| c.is_ascii_digit(), "N");
    times.replace_all(&drawn, digits).into_owned()
}

#[test]
fn a_rollout_is_watched_to_its_end() {
    for nodes in sizes([10, 130, 15_000]) {
        let name = if nodes == 10 { "ten".to_owned() } else { nodes.to_string() };
        for words in ["status -w", "status -w base"] {
            let cluster = serving(nodes);
            let mut command = Command::new("sh");
            let binary = env!("CARGO_BIN_EXE_kubectl-skyhook");
            // The difference of the clocks is reported on stderr.
            let line = format!("stty -echo cols {COLUMNS} rows 24; exec '{binary}' {words} 2>/dev/null");
            command
                .args(["-c", &line])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("HOME", cluster.state.path())
                .env("TERM", "xterm")
                .env("NO_COLOR", "1")
                .env("KUBECONFIG", cluster.served.kubeconfig());
            let mut terminal = Terminal::running(command, END);
            let title = format!("{name}_nodes_{}", words.replace(' ', "_"));
            assert_snapshot!(format!("{title}_first"), screen(terminal.output()));
            // A screen this large is redrawn only after a while, so skip the screen after a change.
            if nodes > 1000 {
                continue;
            }
            // The first open node of the first custom resource.
            let node = complete(0, nodes) * POOLS;
            let concerned = [format!("node-{node:05}"), format!("base-{node:05}")];
            finish(&cluster, &NAMES[..1], |object| {
                concerned.iter().any(|name| object["metadata"]["name"] == name.as_str())
            });
            terminal.expect("completed in");
            let changed = screen(terminal.expect(END));
            assert_snapshot!(format!("{title}_changed"), changed);
            finish(&cluster, &NAMES, |_| true);
            assert_snapshot!(format!("{title}_last"), screen(&terminal.end()));
        }
    }
}
