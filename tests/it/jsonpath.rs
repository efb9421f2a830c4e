//! `-o jsonpath` against kubectl's own.
//!
//! `tests/jsonpath/golden.json` holds kubectl's output of templates. `UPDATE=1 cargo test --test it jsonpath`
//! rewrites it with the installed kubectl; a new case needs only its template.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubectl_skyhook::view::format::{OutputFormat, Rendered};
use kubectl_skyhook::view::{Text, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::support::sample::some;

/// A template and kubectl's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    template: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    as_json: bool,
    /// Why our output differs on purpose, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ours: Option<String>,
    /// Our output in this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prints: Option<String>,
    /// kubectl's output.
    #[serde(default)]
    stdout: String,
    /// kubectl's exit code.
    #[serde(default)]
    exit: i32,
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jsonpath").join(name)
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(place(name)).expect(name);
    serde_json::from_str(&text).expect(name)
}

impl Case {
    fn format(&self) -> String {
        let format = if self.as_json { "jsonpath-as-json" } else { "jsonpath" };
        format!("{format}={}", self.template)
    }

    /// The output and exit code of the installed kubectl, if there is one.
    fn kubectl_output(&self) -> Option<(String, i32)> {
        let output = Command::new("kubectl")
            .args(["annotate", "--local", "zz=1", "-f"])
            .arg(place("node.json"))
            .arg("-o")
            .arg(self.format())
            .env("KUBECONFIG", "/dev/null")
            .output()
            .ok()?;
        let stdout = String::from_utf8(output.stdout).expect("text");
        Some((stdout, output.status.code().expect("an exit code")))
    }

    /// Our output and exit code; an invalid template is a usage error here.
    fn our_output(&self, node: &Node) -> (String, i32) {
        let rendered = self.format().parse::<OutputFormat>().and_then(|format| format.render(node));
        let rendered = rendered.map(|rendered| match rendered {
            Rendered::Noted(rendered, _) => *rendered,
            rendered => rendered,
        });
        match rendered {
            Ok(Rendered::Data(data)) => (data, 0),
            Ok(_) => panic!("{}: not data", self.template),
            Err(_) => (String::new(), 1),
        }
    }

    fn expected(&self) -> (String, i32) {
        match &self.prints {
            Some(prints) => (prints.clone(), 0),
            None => (self.stdout.clone(), self.exit),
        }
    }
}

struct Node(Value);

impl View for Node {
    fn blocks(&self, _wide: bool) -> Text {
        Text::new()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn document(&self) -> Value {
        self.0.clone()
    }
}

/// Whether to rewrite the golden file instead of comparing it.
fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|v| !v.is_empty())
}

#[test]
fn templates_print_the_same_as_kubectl() {
    let node = Node(read("node.json"));
    let mut cases: Vec<Case> = read("golden.json");
    if updating() {
        for case in &mut cases {
            (case.stdout, case.exit) = case.kubectl_output().expect("kubectl is needed to record");
            case.prints = case.ours.is_some().then(|| case.our_output(&node).0);
        }
        let text = serde_json::to_string_pretty(&cases).expect("JSON") + "\n";
        std::fs::write(place("golden.json"), text).expect("a file that can be written");
    }
    assert!(cases.len() >= 100, "{} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| case.our_output(&node) != case.expected())
        .map(|case| {
            let (ours, expected) = (case.our_output(&node), case.expected());
            format!("{}\n  ours     {ours:?}\n  expected {expected:?}", case.format())
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The golden file equals the output of the installed kubectl, if there is one.
#[test]
fn golden_file_matches_kubectl() {
    if updating() {
        return;
    }
    let cases: Vec<Case> = read("golden.json");
    let mut wrong = Vec::new();
    for case in some(&cases, 40) {
        let Some(kubectl_output) = case.kubectl_output() else {
            return;
        };
        if kubectl_output != (case.stdout.clone(), case.exit) {
            wrong.push(format!("{}: {kubectl_output:?}", case.format()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Deviations accept more templates, and never print less than kubectl does.
#[test]
fn deviations_from_kubectl_only_add_output() {
    let node = Node(read("node.json"));
    let cases: Vec<Case> = read("golden.json");
    for case in cases.iter().filter(|case| case.ours.is_some()) {
        let expected = (case.stdout.clone(), case.exit);
        assert_ne!(case.our_output(&node), expected, "{}", case.format());
        assert_eq!(case.our_output(&node).1, 0, "{}", case.format());
    }
}
