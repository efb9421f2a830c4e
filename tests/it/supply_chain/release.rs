//! The release workflow: what it requires before it publishes, what it builds with, and what it attests.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::read;

fn workflow(name: &str) -> Value {
    let text = read(&format!(".github/workflows/{name}.yml"));
    serde_saphyr::from_str(&text).expect("YAML")
}

fn jobs(workflow: &Value) -> &Map<String, Value> {
    workflow["jobs"].as_object().expect("jobs")
}

fn steps(job: &Value) -> &[Value] {
    job["steps"].as_array().map_or(&[], Vec::as_slice)
}

fn uses<'a>(job: &'a Value, action: &str) -> Option<&'a Value> {
    let start = format!("{action}@");
    let is_it = |step: &&Value| step["uses"].as_str().is_some_and(|u| u.starts_with(&start));
    steps(job).iter().find(is_it)
}

/// The shell text of a job.
fn script(job: &Value) -> String {
    let lines = steps(job).iter().filter_map(|step| step["run"].as_str());
    lines.collect::<Vec<_>>().join("\n")
}

fn writes(job: &Value) -> bool {
    let permissions = job["permissions"].as_object();
    permissions.is_some_and(|all| all.values().any(|level| level == "write"))
}

/// The jobs that have to succeed before a job, directly or not.
fn required(jobs: &Map<String, Value>, job: &str) -> BTreeSet<String> {
    let needs = match &jobs[job]["needs"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let mut all = BTreeSet::new();
    for need in needs {
        all.extend(required(jobs, &need));
        all.insert(need);
    }
    all
}

fn publishing(release: &Value) -> (&str, &Value) {
    let mut writing = jobs(release).iter().filter(|(_, job)| writes(job));
    let (name, job) = writing.next().expect("a job that publishes");
    assert!(writing.next().is_none(), "one job alone may write");
    (name, job)
}

#[test]
fn publishing_requires_ci_and_an_approval() {
    let (release, ci) = (workflow("release"), workflow("ci"));
    let (name, publish) = publishing(&release);
    let required = required(jobs(&release), name);
    let checks = |job: &&String| jobs(&release)[*job]["uses"] == "./.github/workflows/ci.yml";
    assert!(required.iter().any(|job| checks(&job)), "{required:?}");
    assert!(publish["environment"].is_string(), "an environment has reviewers");
    let on = ci["on"].as_object().expect("triggers");
    assert!(on.contains_key("workflow_call"), "{on:?}");
    let scripts: Vec<String> = jobs(&ci).values().map(script).collect();
    for check in [".ci/run", "cargo deny --locked check"] {
        let runs = |script: &String| script.lines().any(|line| line == check);
        assert!(scripts.iter().any(runs), "{check}");
    }
    let tag = required.iter().map(|job| script(&jobs(&release)[job]));
    let tag: String = tag.collect();
    assert!(tag.contains("--is-ancestor \"$GITHUB_SHA\" origin/main"));
    assert!(tag.contains("${GITHUB_REF_NAME#v}"));
}

#[test]
fn releases_are_built_with_pinned_tools() {
    let release = workflow("release");
    let toolchain = release["env"]["RUSTUP_TOOLCHAIN"].as_str().expect("text");
    let numbers = super::version(toolchain);
    assert_eq!(numbers.len(), 3, "{toolchain} names a channel");
    let manifest = read("Cargo.toml");
    let oldest = manifest.split_once("rust-version = \"").expect("a rust-version").1;
    let oldest = oldest.split('"').next().expect("text");
    assert!(numbers[..2] >= super::version(oldest)[..2], "{toolchain}");
    let tools = read(".github/release-tools");
    assert!(tools.contains("rustup toolchain install \"${RUSTUP_TOOLCHAIN:?"));
    for line in tools.lines().filter(|l| l.contains("cargo install")) {
        let (_, programs) = line.split_once("--locked ").expect("the lock file");
        assert!(programs.split(' ').all(|p| p.contains('@')), "{line}");
    }
    for line in tools.lines().filter(|l| l.contains("pip install")) {
        assert!(line.contains("--require-hashes"), "{line}");
    }
    let wheels = read(".github/zig-requirements.txt");
    for line in wheels.lines().filter(|l| !l.starts_with('#')) {
        let (_, hash) = line.split_once(" --hash=sha256:").expect("a hash");
        assert_eq!(hash.len(), 64, "{line}");
    }
    let installs = |script: &str| script.contains("pip install") || script.contains("cargo install");
    for (name, job) in jobs(&release) {
        let script = script(job);
        assert!(!installs(&script), "{name} uses .github/release-tools");
        if script.contains(".github/release") {
            assert!(script.contains(".github/release-tools"), "{name}");
        }
    }
}

#[test]
fn a_second_machine_builds_the_same_bytes() {
    let release = workflow("release");
    let (publish, _) = publishing(&release);
    let required = required(jobs(&release), publish);
    let running = |what: &str| {
        let mut all = required.iter().map(|name| &jobs(&release)[name]);
        all.find(|job| script(job).lines().any(|line| line.starts_with(what)))
            .unwrap_or_else(|| panic!("no required job runs {what}"))
    };
    let first = running(".github/release dist");
    let again = running(".github/release-again dist");
    assert!(!script(first).contains("release-again"));
    let download = uses(again, "actions/download-artifact").expect("the first build");
    let built = &first["strategy"]["matrix"]["include"];
    let built = built.as_array().expect("a matrix").iter();
    let linux = built.clone().find(|row| row["os"].as_str().is_some_and(|os| os.starts_with("ubuntu")));
    let linux = linux.expect("Linux");
    let os = linux["os"].as_str().expect("text");
    assert_eq!(download["with"]["name"], format!("build-{os}"));
    assert_ne!(again["runs-on"], os, "another system");
    let platforms = linux["platforms"].as_str().expect("text");
    assert!(script(again).ends_with(platforms), "{platforms}");
}

#[test]
fn every_published_file_is_attested() {
    let release = workflow("release");
    let (_, publish) = publishing(&release);
    let attest = uses(publish, "actions/attest-build-provenance").expect("an attestation");
    let script = script(publish);
    let (_, files) = script.split_once("--generate-notes ").expect("files");
    let files = files.lines().next().expect("files");
    assert_eq!(attest["with"]["subject-path"], files);
    // Both manifests of the krew index are among these files.
    for name in ["skyhook", "node-rollout"] {
        assert!(script.contains(name), "{name}");
    }
    assert!(script.contains("$(base64 -w0 \"dist/$name.yaml\")"));
    let mut all = jobs(&release).values().map(self::script);
    let sums = all.find(|script| script.contains("> SHA256SUMS")).expect("sums");
    assert!(sums.contains("sha256sum -- *.tar.gz *.cdx.json *.yaml > SHA256SUMS"));
}

#[test]
fn no_job_with_write_permissions_has_the_source_or_its_token() {
    for name in ["ci", "release"] {
        let workflow = workflow(name);
        let all = workflow["permissions"].as_object().expect("permissions");
        assert!(all.values().all(|level| level == "read"), "{name}");
        for (job, steps) in jobs(&workflow) {
            let checkout = uses(steps, "actions/checkout");
            if let Some(checkout) = checkout {
                assert_eq!(checkout["with"]["persist-credentials"], false, "{name}: {job}");
            }
            let runs_code = checkout.is_some() || script(steps).contains(".github/");
            assert!(!(writes(steps) && runs_code), "{name}: {job}");
        }
    }
}
