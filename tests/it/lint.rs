//! Every rule of `lint` against its fixtures in `tests/lint/NAME`: the whole output for `bad*`, silence for `good*`.

use std::path::{Path, PathBuf};

use kubectl_skyhook::lint::ALL;

use crate::support::run::{Run, RunOutput};

/// The files of a fixture directory with this prefix, relative to the repository.
fn fixtures(directory: &str, prefix: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(root.join(directory))
        .into_iter()
        .flatten();
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

/// Checks a fixture against the capture `cluster.yaml` beside it, if there is one, with the flags in its first line:
/// `# args: --operator-version v0.17.0`.
fn lint(path: &Path) -> RunOutput {
    let text = read(path);
    let flags = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# args: "));
    let cluster = path.with_file_name("cluster.yaml");
    let mut words = vec![
        "lint".to_owned(),
        "-f".to_owned(),
        path.display().to_string(),
    ];
    if Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(&cluster)
        .exists()
    {
        words.extend(["--from".to_owned(), cluster.display().to_string()]);
    } else {
        words.push("--offline".to_owned());
    }
    words.extend(
        flags
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned),
    );
    Run::new(words).output()
}

#[test]
fn every_rule_reports_its_bad_manifests() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = String::new();
    for rule in ALL {
        let directory = format!("tests/lint/{}", rule.name.replace('-', "_"));
        let bad = fixtures(&directory, "bad");
        if bad.is_empty() {
            wrong += &format!("{directory}: no bad manifest\n");
        }
        for path in bad {
            let output = lint(&path);
            let found = format!(
                "{}{}exit code: {:?}\n",
                output.stdout, output.stderr, output.code
            );
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
        .map(|rule| format!("tests/lint/{}", rule.name.replace('-', "_")));
    let of_rules = directories.flat_map(|directory| {
        let good = fixtures(&directory, "good");
        assert!(!good.is_empty(), "{directory}: no good manifest");
        good
    });
    for path in of_rules.chain(fixtures("tests/lint/good", "")) {
        let output = lint(&path);
        if output.code != Some(0) || !output.stdout.starts_with("No problems found") {
            wrong += &format!("{}:\n{}{}\n", path.display(), output.stdout, output.stderr);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
