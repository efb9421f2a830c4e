//! Files that are generated from the code: completions, man pages, schemas, the tables of `docs`, and the picture of the
//! README.
//!
//! The tests fail when one of them is stale. `UPDATE=1 cargo test --test it generated` rewrites them.

mod man;
mod pages;
mod picture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubectl_skyhook::commands::schema::documents;
use kubectl_skyhook::commands::{completion, explain};
use kubectl_skyhook::view::format::json;

use crate::support::run::run;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether files are to be written rather than compared.
fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|v| !v.is_empty())
}

/// Compares a file with its expected content; returns a message if it is stale.
fn stale(path: &Path, expected: &str) -> Option<String> {
    let there = std::fs::read_to_string(path).ok();
    if there.as_deref() == Some(expected) {
        return None;
    }
    if updating() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, expected).expect("a file that can be written");
        return None;
    }
    Some(path.display().to_string())
}

/// Compares a directory with the exact set of files that it should hold.
fn stale_in(directory: &str, expected: &BTreeMap<String, String>) -> Vec<String> {
    let directory = root().join(directory);
    let mut wrong: Vec<String> =
        expected.iter().filter_map(|(name, text)| stale(&directory.join(name), text)).collect();
    for path in files(&directory) {
        let name = path.file_name().expect("a name").to_string_lossy();
        if !expected.contains_key(&*name) {
            if updating() {
                std::fs::remove_file(&path).expect("a file that can be removed")
            } else {
                wrong.push(path.display().to_string())
            }
        }
    }
    wrong
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn completions_are_up_to_date() {
    let scripts = completion::SCRIPTS.iter();
    let mut expected: BTreeMap<String, String> =
        scripts.map(|(shell, name)| ((*name).to_owned(), completion::script(*shell))).collect();
    expected.insert("kubectl_complete-skyhook".to_owned(), completion::shim("skyhook"));
    assert_eq!(stale_in("completions", &expected), Vec::<String>::new());
    executable(&root().join("completions/kubectl_complete-skyhook"));
}

#[cfg(unix)]
fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if updating() {
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, all).expect("a file of our own");
    }
    let mode = std::fs::metadata(path).expect("the file exists").permissions();
    assert_eq!(mode.mode() & 0o111, 0o111);
}

#[cfg(not(unix))]
fn executable(_: &Path) {}

#[test]
fn man_pages_are_up_to_date() {
    assert_eq!(stale_in("man", &man::pages()), Vec::<String>::new());
}

/// One file for each document: `schema/NodeStatus.json`.
#[test]
fn schemas_are_up_to_date() {
    let documents = documents();
    let published = documents.iter().map(|d| d.published);
    let expected: BTreeMap<String, String> =
        published.map(|d| (format!("{}.json", d.kind), json(&d.schema()))).collect();
    assert_eq!(expected.len(), documents.len(), "a kind twice");
    assert_eq!(stale_in("schema", &expected), Vec::<String>::new());
}

#[test]
fn doc_tables_are_up_to_date() {
    let mut sections = 0;
    for page in pages::PAGES {
        let path = root().join(page);
        let text = std::fs::read_to_string(&path).expect("a page");
        sections += text.matches("<!-- generated: ").count();
        assert_eq!(stale(&path, &pages::filled(&text)), None);
    }
    assert_eq!(sections, 11);
}

#[test]
fn the_picture_of_the_readme_is_up_to_date() {
    assert_eq!(stale(&root().join("docs/images/stuck.svg"), &picture::svg()), None);
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.contains("(docs/images/stuck.svg)"));
}

/// One page for each code: `docs/codes/SKY101.md`.
#[test]
fn pages_of_codes_are_up_to_date() {
    let expected = explain::pages();
    assert_eq!(stale_in("docs/codes", &expected), Vec::<String>::new());
}

#[test]
fn explain_prints_the_page_of_a_code() {
    let page = |code: &str| {
        let path = root().join(format!("docs/codes/{code}.md"));
        std::fs::read_to_string(path).expect("a page")
    };
    let output = run("explain SKY101 package-erroring SKY861 --markdown").output();
    output.expect_code(0);
    let expected = [page("SKY101"), page("SKY201"), page("SKY861")].join("\n");
    assert_eq!(output.stdout, expected);
}

/// The command of the CronJob in `docs/teams.md` runs as written.
#[test]
fn the_cron_job_of_the_docs_runs() {
    let page = std::fs::read_to_string(root().join("docs/teams.md")).expect("a page");
    let mut lines = page.lines().map(str::trim);
    let args = lines.find_map(|line| line.strip_prefix("args: [")?.strip_suffix(']')).expect("arguments");
    let directory = tempfile::tempdir().expect("a directory");
    let words = args.replace(", ", " ").replace("/textfile", &directory.path().display().to_string());
    let captured = crate::support::clusters::named("apply-erroring");
    run(&format!("{words} --from {}", captured.path())).output().expect_code(0);
    let written = std::fs::read_to_string(directory.path().join("skyhook.prom")).expect("a file");
    assert!(written.ends_with("# EOF\n"), "{written}");
}

#[test]
fn terms_and_grades_have_a_page() {
    insta::assert_snapshot!(run("explain B4 compartment --markdown").output().transcript());
}

#[test]
fn markdown_is_no_document() {
    let output = run("explain SKY101 --markdown -o json").output();
    output.expect_code(64);
    insta::assert_snapshot!(output.transcript());
}
