//! Every rule of `lint` against its fixtures in `tests/lint/NAME`: the whole output for `bad*`, silence for
//! `good*`.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use kubectl_skyhook::lint::ALL;
use serde_json::json;

use crate::support::run::{Run, RunOutput, run};
use crate::support::sample::some;

/// The files of a fixture directory with this prefix, relative to the repository.
fn fixtures(directory: &str, prefix: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(root.join(directory)).into_iter().flatten();
    let names = files.map(|file| file.expect("an entry").file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut paths: Vec<PathBuf> = names
        .filter(|name| name.starts_with(prefix) && !name.ends_with(".out"))
        .map(|name| Path::new(directory).join(name))
        .collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Checks a fixture against the capture `cluster.yaml` beside it, if there is one, with the flags in its
/// first line: `# args: --operator-version v0.17.0`.
fn lint(path: &Path) -> RunOutput {
    let text = read(path);
    let flags = text.lines().next().and_then(|line| line.strip_prefix("# args: "));
    let cluster = path.with_file_name("cluster.yaml");
    let mut words = vec!["lint".to_owned(), "-f".to_owned(), path.display().to_string()];
    if Path::new(env!("CARGO_MANIFEST_DIR")).join(&cluster).exists() {
        words.extend(["--from".to_owned(), cluster.display().to_string()]);
    } else {
        words.push("--offline".to_owned());
    }
    words.extend(flags.unwrap_or_default().split_whitespace().map(str::to_owned));
    Run::new(words).output()
}

/// Tested in `lint_references` and `lint_forecast`.
const LIVE_ONLY: [&str; 2] = ["reference-not-found", "refused-by-server"];

#[test]
fn every_rule_reports_its_bad_manifests() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = String::new();
    for rule in ALL.iter().filter(|rule| !LIVE_ONLY.contains(&rule.name)) {
        let directory = format!("tests/lint/{}", rule.name.replace('-', "_"));
        let bad = fixtures(&directory, "bad");
        if bad.is_empty() {
            wrong += &format!("{directory}: no bad manifest\n");
        }
        for path in bad {
            let output = lint(&path);
            let found = format!("{}{}exit code: {:?}\n", output.stdout, output.stderr, output.code);
            let expected = path.with_extension("out");
            if update {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&expected);
                std::fs::write(path, &found).expect("a writable fixture");
            }
            if !found.contains(&format!(" {}: ", rule.code)) {
                wrong += &format!("{}: {} is not found\n", path.display(), rule.code);
            }
            if read(&expected) != found {
                wrong += &format!("{} is now:\n{found}\n", expected.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn good_manifests_have_no_findings() {
    let mut wrong = String::new();
    let directories = ALL
        .iter()
        .filter(|rule| !LIVE_ONLY.contains(&rule.name))
        .map(|rule| format!("tests/lint/{}", rule.name.replace('-', "_")));
    let of_rules = directories.flat_map(|directory| {
        let good = fixtures(&directory, "good");
        assert!(!good.is_empty(), "{directory}: no good manifest");
        good
    });
    for path in some(of_rules.chain(fixtures("tests/lint/good", "")), 60) {
        let output = lint(&path);
        if output.code != Some(0) || !output.stdout.starts_with("No problems found") {
            wrong += &format!("{}:\n{}{}\n", path.display(), output.stdout, output.stderr);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const BAD: &str = "tests/lint/refused_by_webhook/bad_apply_without_enabled.yaml";

#[test]
fn a_report_for_ci() {
    let junit = run(&format!("lint --offline -f {BAD} -f tests/lint/suppression_invalid/good.yaml -o junit"));
    assert_snapshot!("junit", junit.output().transcript());
    let json = run(&format!("lint --offline -f {BAD} -o json"));
    assert_snapshot!("json", json.output().transcript());
    let names =
        run("lint --offline -f tests/lint/refused_by_webhook/bad_compartment_invalid.yaml -o name").output();
    assert_eq!(
        names.parts(),
        ("deploymentpolicy/a-reserved\ndeploymentpolicy/b-twice\ndeploymentpolicy/c-same\n", "", Some(2))
    );
    let other = run("explain -o junit").output();
    other.expect_code(1);
    other.expect_stderr(
        "this command has no JUnit report; `lint`, `diagnose stuck` and `diagnose check` have one",
    );
}

#[test]
fn the_threshold_decides_the_exit_code() {
    let warning = "lint --offline -f tests/lint/duplicate_key/bad.yaml";
    for (words, code) in [
        (warning.to_owned(), 0),
        (format!("{warning} --fail-on warning"), 2),
        (format!("lint --offline -f {BAD}"), 2),
        (format!("lint --offline -f {BAD} --fail-on never"), 0),
        ("lint --offline -f tests/no-such-file.yaml".to_owned(), 1),
        (format!("lint --offline -f {BAD} --from tests/lint/policy_not_found/cluster.yaml"), 64),
        (format!("lint --offline -f {BAD} --diff"), 1),
        ("lint".to_owned(), 64),
    ] {
        let output = run(&words).output();
        assert_eq!(output.code, Some(code), "{}", output.transcript());
    }
}

/// Lists, JSON, several documents and other kinds, through standard input.
#[test]
fn every_object_of_the_input_is_checked() {
    let text = "\
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Secret, metadata: {name: a}}
  - apiVersion: skyhook.nvidia.com/v1alpha1
    kind: Skyhook
    metadata: {name: in-list}
    spec:
      packages:
        driver: {version: 1.2.3, image: a, uninstall: {apply: true}}
---
broken: [
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: last}
spec: {priority: low}
";
    assert_snapshot!("list", run("lint --offline -f -").stdin(text).output().transcript());
    let json = "{\"apiVersion\": \"skyhook.nvidia.com/v1alpha1\",\n\"kind\": \"Skyhook\",\n\"metadata\": {\"name\": \"one\"},\n\
                \"spec\": {\"serial\": 1}}\n{\"kind\": \"Pod\",\n\"apiVersion\": \"v1\"}\n";
    assert_snapshot!("json_stream", run("lint --offline -f -").stdin(json).output().transcript());
}

#[test]
fn a_change_is_shown_as_a_diff() {
    let directory = "tests/lint/enabled_package_downgraded";
    let words = format!("lint -f {directory}/bad.yaml --from {directory}/cluster.yaml --diff");
    assert_snapshot!("diff", run(&words).output().transcript());
}

/// Without a kubeconfig, no request is sent; with an unreachable server, the output mentions that no cluster
/// was checked.
#[test]
fn an_unreachable_cluster_is_no_silent_success() {
    let good = "lint -f tests/lint/refused_by_webhook/good_apply_without_enabled.yaml";
    run(good).output().expect_code(0);
    let output = run(&format!("{good} --server http://127.0.0.1:1 --request-timeout 2s")).output();
    output.expect_code(1);
    output.expect_stdout("No problems found in 1 manifest\nChecked without a cluster.");
    output.expect_stderr("warning: checking without a cluster, as with --offline: ");
}

/// CEL rules cannot be evaluated here, so the report lists them as not checked.
#[test]
fn cel_rules_of_a_crd_are_announced_as_unchecked() {
    let rule = json!([{"rule": "self.size() > 0", "message": "no packages"}]);
    let package = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let packages =
        json!({"type": "object", "additionalProperties": package, "x-kubernetes-validations": rule});
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"packages": packages}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "skyhooks.skyhook.nvidia.com"},
        "spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}]},
    });
    let cluster = read(Path::new("tests/lint/policy_not_found/cluster.yaml"));
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("cluster.yaml");
    std::fs::write(&capture, format!("{cluster}\n---\n{definition}\n")).expect("written");
    let words = format!(
        "lint -f tests/lint/refused_by_webhook/good_apply_without_enabled.yaml --from {}",
        capture.display()
    );
    let output = run(&words).output();
    output.expect_stderr(
        "warning: the CRD of Skyhook has validation rules in CEL, which lint does not check\n",
    );
}

/// The steps in the documentation for GitHub Actions and pre-commit, on manifests without problems.
#[test]
fn documented_steps_for_ci_pass() {
    let good = ["tests/lint/good/01_simple.yaml", "tests/lint/good/13_compartments.yaml"];
    let text = read(Path::new("docs/lint.md")) + &read(Path::new(".pre-commit-hooks.yaml"));
    let steps = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("- ");
        let step = ["run: ", "entry: "].iter().find_map(|key| line.strip_prefix(key))?;
        step.strip_prefix("kubectl-skyhook ")
    });
    let mut codes = Vec::new();
    for step in steps {
        let (step, _) = step.split_once(" > ").unwrap_or((step, ""));
        // pre-commit appends the changed files.
        let step = if step.ends_with("-f") {
            format!("{step} {}", good.join(" "))
        } else {
            step.replace("deploy/", good[0])
        };
        codes.push((run(&step).output().code, step));
    }
    assert_eq!(codes.len(), 2, "{codes:?}");
    assert!(codes.iter().all(|(code, _)| *code == Some(0)), "{codes:?}");
}

#[test]
fn rules_are_listed_and_explained() {
    let names = run("explain -o name").output();
    let of_lint = names.stdout.lines().filter(|name| *name >= "rule/SKY801");
    let expected: Vec<String> = ALL.iter().map(|r| format!("rule/{}", r.code)).collect();
    assert_eq!(of_lint.collect::<Vec<_>>(), expected);
    let codes = ALL.iter().map(|rule| rule.code);
    let explained = Run::new(std::iter::once("explain").chain(codes)).output();
    for rule in ALL {
        explained.expect_stdout(format!("{} {} ({})\n", rule.code, rule.name, rule.severity));
    }
}

/// `kubectl apply` accepts manifests of UTF-16, too.
#[test]
fn utf16_manifests_are_checked() {
    let bad = std::fs::read_to_string("tests/lint/refused_by_webhook/bad_package_name_invalid.yaml")
        .expect("a fixture");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manifest.yaml");
    let lint_of = |bytes: Vec<u8>| {
        std::fs::write(&file, bytes).expect("a file");
        run(&format!("lint --offline -f {}", file.display())).output()
    };
    let utf8 = lint_of(bad.clone().into_bytes());
    utf8.expect_code(2);
    let marked = format!("\u{feff}{bad}");
    let utf16 = lint_of(marked.encode_utf16().flat_map(u16::to_le_bytes).collect());
    assert_eq!(utf16.parts(), utf8.parts());
    let cut = lint_of(vec![0xff, 0xfe, b'a']);
    cut.expect_code(1);
    cut.expect_stderr("it is not valid UTF-16");
}
