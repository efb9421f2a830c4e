//! The krew manifest, checked by the rules of krew's validator, and the archives that it names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use regex::Regex;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn template() -> String {
    std::fs::read_to_string(root().join("krew-manifest.yaml")).expect("the manifest")
}

/// The platforms, each as `(os, arch, the rest)`.
fn platforms(manifest: &Value) -> Vec<(String, String, Value)> {
    let platforms = manifest["spec"]["platforms"].as_array().expect("a list");
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    platforms
        .iter()
        .map(|p| {
            let labels = &p["selector"]["matchLabels"];
            assert_eq!(labels.as_object().map(|l| l.len()), Some(2));
            (word(&labels["os"]), word(&labels["arch"]), p.clone())
        })
        .collect()
}

fn matches(pattern: &str, text: &Value) -> bool {
    let text = text.as_str().expect("a word");
    Regex::new(pattern).expect("an expression").is_match(text)
}

#[test]
fn manifest_passes_krew_validation() {
    let manifest = parse(&template());
    let spec = &manifest["spec"];
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(manifest["metadata"]["name"], "skyhook");
    let short = spec["shortDescription"].as_str().expect("a line");
    assert!(short.chars().count() <= 50 && !short.contains(['\n', '.']), "{short}");
    assert!(!short.to_lowercase().contains("plugin"), "{short}");
    for text in ["description", "caveats"] {
        let text = spec[text].as_str().expect("text");
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
    let caveats = spec["caveats"].as_str().expect("text");
    assert!(caveats.contains("kubectl skyhook completion install"));
    assert_eq!(spec["homepage"], env!("CARGO_PKG_REPOSITORY"));
}

#[test]
fn versions_agree() {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let manifest = parse(&template());
    assert_eq!(manifest["spec"]["version"], version);
    for (os, arch, platform) in platforms(&manifest) {
        let expected = format!(
            "{}/releases/download/{version}/kubectl-skyhook-{os}-{arch}.tar.gz",
            env!("CARGO_PKG_REPOSITORY")
        );
        assert_eq!(platform["uri"], expected);
    }
}

#[test]
fn every_platform_is_listed_once() {
    let manifest = parse(&template());
    let found: Vec<String> = platforms(&manifest)
        .into_iter()
        .map(|(os, arch, platform)| {
            let bin = platform["bin"].as_str().expect("a name").to_owned();
            let keys: BTreeSet<&str> =
                platform.as_object().expect("a platform").keys().map(String::as_str).collect();
            assert_eq!(keys, BTreeSet::from(["bin", "selector", "sha256", "uri"]));
            format!("{os}/{arch} {bin}")
        })
        .collect();
    assert_eq!(
        found,
        [
            "linux/amd64 kubectl-skyhook",
            "linux/arm64 kubectl-skyhook",
            "darwin/amd64 kubectl-skyhook",
            "darwin/arm64 kubectl-skyhook",
            "windows/amd64 kubectl-skyhook.exe",
        ]
    );
}

#[cfg(unix)]
fn script(name: &str, args: &[&Path]) -> Output {
    let mut command = Command::new(root().join(".github").join(name));
    command.args(args).output().expect("the script runs")
}

/// Packs a file for a platform as a release does; returns the archive.
#[cfg(unix)]
fn packed(dir: &Path, os: &str, arch: &str) -> PathBuf {
    let binary = dir.join(match os {
        "windows" => "kubectl-skyhook.exe",
        _ => "kubectl-skyhook",
    });
    std::fs::write(&binary, format!("{os}-{arch}")).expect("a binary");
    let platform = format!("{os}-{arch}");
    let output = script("pack", &[Path::new(&platform), &binary, dir]);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(0), "".into()));
    dir.join(format!("kubectl-skyhook-{platform}.tar.gz"))
}

#[cfg(unix)]
#[test]
fn archives_hold_binary_and_license() {
    let dir = tempfile::tempdir().expect("a directory");
    for (os, arch, platform) in platforms(&parse(&template())) {
        let file = std::fs::File::open(packed(dir.path(), &os, &arch)).expect("an archive");
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        let paths: BTreeSet<String> = archive
            .entries()
            .expect("an archive")
            .map(|entry| entry.expect("an entry").path().expect("a path").display().to_string())
            .collect();
        let bin = platform["bin"].as_str().expect("a name");
        for path in
            [bin, "LICENSE", "README.md", "man/kubectl-skyhook.1", "completions/kubectl_complete-skyhook"]
        {
            assert!(paths.contains(path), "{os}/{arch} lacks {path}: {paths:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn release_fills_in_checksums() {
    let dir = tempfile::tempdir().expect("a directory");
    let platforms = platforms(&parse(&template()));
    let output = script("fill-krew-manifest", &[dir.path()]);
    assert_eq!(output.status.code(), Some(1), "no archives are there");
    for (os, arch, _) in &platforms {
        packed(dir.path(), os, arch);
    }
    let output = script("fill-krew-manifest", &[dir.path()]);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(0), "".into()));
    let filled = parse(&String::from_utf8(output.stdout).expect("text"));
    let sums: BTreeSet<String> = self::platforms(&filled)
        .into_iter()
        .map(|(_, _, platform)| {
            assert!(matches("^[a-f0-9]{64}$", &platform["sha256"]), "{platform}");
            assert!(matches(r"^https://.*\.tar\.gz$", &platform["uri"]));
            platform["sha256"].to_string()
        })
        .collect();
    assert_eq!(sums.len(), platforms.len());
    assert!(matches(r"^v\d+\.\d+\.\d+$", &filled["spec"]["version"]));
    let neutral = script("fill-krew-manifest", &[dir.path(), Path::new("node-rollout")]);
    let neutral = parse(&String::from_utf8(neutral.stdout).expect("text"));
    assert_eq!(neutral["metadata"]["name"], "node-rollout");
    let caveats = neutral["spec"]["caveats"].as_str().expect("text");
    assert!(caveats.contains("kubectl node-rollout completion install"));
    assert_eq!(neutral["spec"]["platforms"], filled["spec"]["platforms"]);
}
