//! `lint` on whole repositories: documents of other programs, several clusters, suppression, symbolic links, formats.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::run::{Run, RunOutput, run};

const GROUP: &str = "skyhook.nvidia.com";

/// A manifest with a finding in its last line if `version` is no version.
fn skyhook(name: &str, version: &str) -> String {
    format!(
        "apiVersion: {GROUP}/v1alpha1\nkind: Skyhook\nmetadata:\n  name: {name}\nspec:\n  nodeSelectors:\n    matchLabels: {{pool: gpu}}\n  \
         interruptionBudget: {{count: 2}}\n  packages:\n    driver:\n      image: ghcr.io/example/driver\n      version: {version}\n"
    )
}

/// A directory with these files.
fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, text).expect("written");
    }
    directory
}

fn lint(directory: &Path, flags: &str) -> RunOutput {
    run(&format!("lint --offline -f {} {flags}", directory.display())).output()
}

/// The findings as `CODE FILE:LINE`, with paths relative to the directory.
fn found(directory: &Path, flags: &str) -> Vec<String> {
    let report: Value = lint(directory, &format!("{flags} -o json")).json();
    let findings = report["findings"].as_array().expect("findings").iter();
    findings
        .map(|finding| {
            let file = finding["file"].as_str().expect("a file");
            let file = Path::new(file).strip_prefix(directory).expect("below the directory");
            format!("{} {}:{}", finding["code"].as_str().expect("a code"), file.display(), finding["line"])
        })
        .collect()
}

const KUSTOMIZATION: &str = "resources: [skyhook.yaml]\npatches:\n- path: patch.yaml\n- path: replace.yaml\n";

#[test]
fn documents_of_other_programs_are_skipped_and_counted() {
    let good = skyhook("gpu-tune", "1.2.3");
    let patch = format!(
        "apiVersion: {GROUP}/v1alpha1\nkind: Skyhook\nmetadata: {{name: gpu-tune}}\nspec: {{packages: {{driver: {{version: 1.2.4}}}}}}\n"
    );
    let directive = format!(
        "{patch}---\napiVersion: {GROUP}/v1alpha1\nkind: Skyhook\nmetadata: {{name: old}}\n$patch: delete\n"
    );
    let playbook = format!(
        "- hosts: all\n  tasks:\n  - kubernetes.core.k8s:\n      definition:\n        apiVersion: {GROUP}/v1alpha1\n        kind: Skyhook\n        metadata:\n          name: \"{{{{ name }}}}\"\n"
    );
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {{{{ .Release.Name }}}}\nrules:\n- apiGroups: [{GROUP}]\n"
    );
    let test = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\nspec:\n  steps:\n  - try:\n    - apply: {file: first.yaml}\n    - assert: {file: assert.yaml}\n    - apply: {file: second.yaml}\n";
    let files = [
        ("app/kustomization.yaml", KUSTOMIZATION),
        ("app/skyhook.yaml", &good),
        ("app/patch.yaml", &patch),
        ("app/replace.yaml", "- {op: replace, path: /spec/priority, value: 10}\n"),
        ("delete.yaml", &directive.replace(&patch, "")),
        ("list.json", "[1, 2]"),
        (".vscode/launch.json", "{\n  // comment\n  \"version\": \"0.2.0\",\n}\n"),
        ("playbook.yml", &playbook),
        ("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n"),
        ("chart/templates/role.yaml", &role),
        (".github/labels.yml", "- name: bug\n  color: red\n"),
        ("test/chainsaw-test.yaml", test),
        ("test/first.yaml", &good),
        ("test/second.yaml", &good),
        ("test/assert.yaml", &patch),
    ];
    let directory = repository(&files);
    let output = lint(directory.path(), "--fail-on info");
    output.expect_code(0);
    output.expect_stdout("No problems found in 3 manifests\n");
    output.expect_stdout("4 objects of other kinds skipped. 1 template of another kind skipped. 4 documents without objects skipped. 3 patches and assertions skipped.");
}

#[test]
fn broken_documents_are_reported_in_files_with_an_object() {
    let good = skyhook("gpu-tune", "1.2.3");
    let broken = format!("{good}---\nbroken: [\n");
    let cut = format!("{good}  broken: [\n");
    let template = good.replace("gpu-tune", "{{ .Release.Name }}");
    let files = [("a.yaml", &*broken), ("b.yaml", &cut), ("c.yaml", &template), ("d.yaml", "broken: [\n")];
    let directory = repository(&files);
    let findings = found(directory.path(), "");
    let codes: Vec<&str> = findings.iter().map(|finding| &finding[..13]).collect();
    assert_eq!(codes, ["SKY801 a.yaml", "SKY801 b.yaml", "SKY802 c.yaml"]);
}

#[test]
fn each_cluster_is_checked_alone() {
    let good = skyhook("gpu-tune", "1.2.3");
    let both = [("a/skyhook.yaml", &*good), ("b/skyhook.yaml", &*good)];
    let together = repository(&both);
    assert_eq!(found(together.path(), ""), ["SKY876 b/skyhook.yaml:4"]);
    let roots = format!("--root {0}/a --root {0}/b", together.path().display());
    assert_eq!(found(together.path(), &roots), [""; 0]);
    let own = [("a/kustomization.yaml", "resources: [skyhook.yaml]\n"), ("b/Chart.yaml", "name: b\n")];
    let apart = repository(&[&both[..], &own].concat());
    assert_eq!(found(apart.path(), ""), [""; 0]);
    let configured = repository(
        &[
            &both[..],
            &[(".skyhook-lint.yaml", "apiVersion: kubectl-skyhook/v1\nkind: LintConfig\nroots: [a, b]\n")],
        ]
        .concat(),
    );
    assert_eq!(found(configured.path(), ""), [""; 0]);
}

/// A base belongs to every overlay that uses it, and its findings appear once.
#[test]
fn a_kustomization_is_checked_with_its_bases() {
    let (bad, good) = (skyhook("gpu-tune", "latest"), skyhook("gpu-tune", "1.2.3"));
    let overlay = "resources: [../base, extra.yaml]\n";
    let files = [
        ("base/kustomization.yaml", "resources: [skyhook.yaml]\n"),
        ("base/skyhook.yaml", &*bad),
        ("one/kustomization.yaml", overlay),
        ("one/extra.yaml", &skyhook("storage", "1.2.3")),
        ("two/kustomization.yaml", overlay),
        ("two/extra.yaml", &good),
    ];
    let directory = repository(&files);
    assert_eq!(found(directory.path(), ""), ["SKY811 base/skyhook.yaml:12", "SKY876 two/extra.yaml:4"]);
}

/// With a capture, a policy of another cluster does not satisfy a reference.
#[test]
fn references_stay_within_a_cluster() {
    let user =
        skyhook("gpu-tune", "1.2.3").replace("interruptionBudget: {count: 2}", "deploymentPolicy: careful");
    let policy = format!(
        "apiVersion: {GROUP}/v1alpha1\nkind: DeploymentPolicy\nmetadata: {{name: careful}}\nspec:\n  default: {{budget: {{count: 2}}, strategy: {{fixed: {{}}}}}}\n"
    );
    let kustomization = "resources: [manifest.yaml]\n";
    let files = [
        ("a/kustomization.yaml", kustomization),
        ("a/manifest.yaml", &*user),
        ("b/kustomization.yaml", kustomization),
        ("b/manifest.yaml", &*policy),
    ];
    let lint = |directory: &Path| {
        let capture = "tests/lint/policy_not_found/cluster.yaml";
        run(&format!("lint -f {} --from {capture}", directory.display())).output()
    };
    let apart = repository(&files);
    lint(apart.path())
        .expect_stdout("error SKY822: Skyhook gpu-tune: deployment policy \"careful\" does not exist");
    let together = repository(&[("a/manifest.yaml", &user), ("b/manifest.yaml", &policy)]);
    lint(together.path()).expect_no_stdout("SKY822");
}

fn annotated(mutes: &str) -> String {
    let annotation = format!("metadata:\n  annotations:\n    kubectl-skyhook/mutes: '{mutes}'\n");
    skyhook("gpu-tune", "latest").replace("metadata:\n", &annotation)
}

#[test]
fn an_annotation_suppresses_like_a_comment() {
    let lint = |mutes: &str| run("lint --offline -f -").stdin(annotated(mutes)).output();
    let known = lint("[{code: SKY811, package: driver, reason: the mirror tags it, until: 2999-12-31}]");
    known.expect_code(0);
    known.expect_stdout("1 finding suppressed.");
    lint("[{code: SKY811, package: other, reason: x}]").expect_code(2);
    let lapsed = lint("[{code: SKY811, reason: x, until: 2020-01-31}]");
    lapsed.expect_code(2);
    lapsed.expect_stdout("its mute has lapsed: it ended on 2020-01-31");
    let invalid = lint("[{code: SKY811}]");
    invalid.expect_code(2);
    invalid.expect_stdout("warning SKY804: Skyhook gpu-tune: invalid mute: ");
    let directory = repository(&[
        ("skyhook.yaml", &skyhook("gpu-tune", "latest")),
        (
            "mutes",
            "apiVersion: kubectl-skyhook/v1\nkind: Mutes\nmutes:\n- {code: SKY811, skyhook: gpu-tune, reason: known}\n",
        ),
    ]);
    let mutes = directory.path().join("mutes");
    self::lint(directory.path(), &format!("--mutes {}", mutes.display())).expect_code(0);
}

#[test]
fn a_configuration_applies_to_the_files_below_it() {
    let config = |body: &str| format!("apiVersion: kubectl-skyhook/v1\nkind: LintConfig\n{body}");
    let bad = skyhook("gpu-tune", "latest");
    let with =
        |body: &str| repository(&[(".skyhook-lint.yaml", &config(body)), ("apps/a/skyhook.yaml", &bad)]);
    let lint = |body: &str| lint(with(body).path(), "");
    lint("").expect_code(2);
    let off = lint("rules: {SKY811: off}\n");
    off.expect_code(0);
    off.expect_stdout("1 finding suppressed.");
    lint("rules: {refused-by-webhook: warning}\n").expect_stdout("1 warning in 1 manifest\n");
    lint("exclude: [\"apps/**\"]\n").expect_stdout("1 excluded file skipped.");
    lint("exclude: [\"apps/*\"]\n").expect_code(2);
    lint("operatorVersion: v0.21.0\n").expect_stdout("operator v0.21.0 does not serve");
    lint("rules: {SKY999: off}\n").expect_stderr("rule \"SKY999\" not found");
    lint("rulez: {}\n").expect_stderr(".skyhook-lint.yaml: ");
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_followed() {
    use std::os::unix::fs::symlink;
    let outside = repository(&[("real.yaml", &skyhook("gpu-tune", "latest"))]);
    let directory = repository(&[("other.yaml", "a: 1\n")]);
    let at = |name: &str| directory.path().join(name);
    symlink(outside.path().join("real.yaml"), at("link.yaml")).expect("a link");
    symlink("link.yaml", at("same.yaml")).expect("a link");
    symlink(".", at("loop")).expect("a link");
    symlink("missing", at("dangling.yaml")).expect("a link");
    assert_eq!(found(directory.path(), ""), ["SKY811 link.yaml:12"]);
    lint(directory.path(), "")
        .expect_stderr("dangling.yaml was skipped: the target of the link does not exist");
    fs::remove_file(at("link.yaml")).expect("removed");
    symlink(outside.path(), at("linked")).expect("a link");
    assert_eq!(found(directory.path(), ""), ["SKY811 linked/real.yaml:12"]);
}

/// As pre-commit runs the hook: all files are arguments.
#[test]
fn one_fault_in_a_kustomize_repository_of_200_files() {
    let overlay = "resources: [../../base, policy.yaml]\npatches:\n- path: patch.yaml\n";
    let mut files = vec![
        ("base/kustomization.yaml".to_owned(), "resources: [skyhook.yaml]\n".to_owned()),
        ("base/skyhook.yaml".to_owned(), skyhook("gpu-tune", "1.2.3")),
    ];
    for cluster in 0..66 {
        let at = |name: &str| format!("clusters/c{cluster}/{name}");
        let mut patch = skyhook("gpu-tune", "1.2.4");
        patch.truncate(patch.find("spec:").expect("a spec"));
        patch += "spec: {priority: 10}\n";
        let budget = if cluster == 41 { "{percent: 500}" } else { "{percent: 50}" };
        let policy = format!(
            "apiVersion: {GROUP}/v1alpha1\nkind: DeploymentPolicy\nmetadata: {{name: careful}}\nspec:\n  default:\n    budget: {budget}\n    strategy: {{fixed: {{initialBatch: 1}}}}\n"
        );
        files.extend([
            (at("kustomization.yaml"), overlay.to_owned()),
            (at("patch.yaml"), patch),
            (at("policy.yaml"), policy),
        ]);
    }
    assert_eq!(files.len(), 200);
    let named: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let directory = repository(&named);
    assert_eq!(found(directory.path(), "--fail-on warning"), ["SKY806 clusters/c41/policy.yaml:6"]);
    let hook = fs::read_to_string(".pre-commit-hooks.yaml").expect("the hook");
    let entry =
        hook.lines().find_map(|line| line.trim().strip_prefix("entry: kubectl-skyhook ")).expect("an entry");
    let mut words: Vec<String> = entry.split(' ').map(str::to_owned).collect();
    words.extend(files.iter().map(|(path, _)| directory.path().join(path).display().to_string()));
    let output = Run::new(words).output();
    output.expect_code(2);
    output.expect_stdout("1 error in 67 manifests\n");
}

#[test]
fn reports_for_code_scanning_and_pull_requests() {
    let directory = repository(&[("a b.yaml", &skyhook("gpu-tune", "latest"))]);
    let log = lint(directory.path(), "-o sarif");
    log.expect_code(2);
    let log = log.json();
    assert_eq!(log["version"], "2.1.0");
    let result = &log["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"SKY811".into(), &"error".into()));
    let place = &result["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().expect("a URI").ends_with("/a%20b.yaml"));
    assert_eq!((&place["region"]["startLine"], &place["region"]["startColumn"]), (&12.into(), &7.into()));
    let index = result["ruleIndex"].as_u64().expect("an index") as usize;
    assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][index]["id"], "SKY811");
    run("explain -o sarif").output().expect_stderr("this command has no SARIF report; `lint` has one");
    let words = format!("lint --offline -f {}", directory.path().display());
    let annotated = run(&words).env("GITHUB_ACTIONS", "true").output();
    annotated.expect_stdout("a b.yaml,line=12,col=7,title=SKY811::Skyhook gpu-tune, package driver: ");
    run(&words).output().expect_no_stdout("::error");
}

/// Failures of the JUnit report are those that cause exit code 2.
#[test]
fn junit_agrees_with_the_exit_code() {
    let text = skyhook("gpu-tune", "1.2.3").replace("  interruptionBudget: {count: 2}\n", "");
    let directory = repository(&[("skyhook.yaml", &text)]);
    for (flags, code, failures) in [("", 0, 0), ("--fail-on warning", 2, 1)] {
        let output = lint(directory.path(), &format!("{flags} -o junit"));
        output.expect_code(code);
        output.expect_stdout(format!("failures=\"{failures}\""));
    }
}

#[test]
fn kustomizations_are_built_with_kubectl() {
    let directory = repository(&[("kustomization.yaml", "resources: []\n")]);
    let without = run(&format!("lint --offline -k {}", directory.path().display()))
        .env("PATH", "/nonexistent")
        .output();
    without.expect_code(1);
    without.expect_stderr("cannot run kubectl: ");
    let bin = repository(&[("kubectl", &format!("#!/bin/sh\necho '{}'\n", skyhook("built", "latest")))]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let kubectl = bin.path().join("kubectl");
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).expect("executable");
        let path = format!("{}:/usr/bin:/bin", bin.path().display());
        let built =
            run(&format!("lint --offline -k {}", directory.path().display())).env("PATH", path).output();
        built.expect_code(2);
        built.expect_stdout(":12: error SKY811: Skyhook built, package driver: ");
    }
}

/// Typed lists, as the API server returns them, and many documents in one stream.
#[test]
fn lists_and_long_streams_are_read() {
    let item = r#"{"metadata": {"name": "one"}, "spec": {"packages": {"driver": {"version": "latest", "image": "a"}}}}"#;
    let list = format!(r#"{{"apiVersion": "{GROUP}/v1alpha1", "kind": "SkyhookList", "items": [{item}]}}"#);
    run("lint --offline -f -")
        .stdin(list)
        .output()
        .expect_stdout("error SKY811: Skyhook one, package driver: ");
    let mut stream = String::new();
    for number in 0..2000 {
        writeln!(stream, "{}---", skyhook(&format!("tune-{number}"), "1.2.3")).expect("written");
    }
    let stream = stream.replace("      version:", "      interrupt: {type: reboot}\n      version:");
    let start = std::time::Instant::now();
    let output = run("lint --offline -f -").stdin(stream).output();
    output.expect_stdout("1,999 warnings in 2,000 manifests\n");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn growth_past_a_budget_in_percent_is_found() {
    let lint = |name: &str| {
        run(&format!("lint -f tests/lint/growth/{name}.yaml --from tests/lint/growth/cluster.yaml")).output()
    };
    lint("bad").expect_stdout(
        "the exponential strategy grows from 1 to 10 nodes; the budget of 3 does not limit it",
    );
    lint("good").expect_no_stdout("SKY844");
}
