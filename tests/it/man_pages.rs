//! Help output, and the man pages as formatters read them.

use std::process::Command;

use kubectl_skyhook::commands::{EVERYDAY, tasks};

use crate::support::programs::is_installed;
use crate::support::run::run;

#[test]
fn help_groups_commands_by_task() {
    {
        let ran = run("--help").output();
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
        let all: Vec<&str> = tasks().into_iter().map(|(heading, _)| heading).collect();
        let headings: Vec<&str> =
            all.iter().copied().filter(|heading| ran.stdout.contains(&format!("\n{heading}:\n  "))).collect();
        assert_eq!(headings, all, "{}", ran.stdout);
        assert!(!ran.stdout.contains("Commands:"), "{}", ran.stdout);
        assert!(ran.stdout.contains("\nReading options:\n"), "{}", ran.stdout);
        let every = ["\n  diagnose ", "\n  reset ", "\n  teardown ", "\n  undo ", "\n  completion "];
        let missing: Vec<&&str> = every.iter().filter(|c| !ran.stdout.contains(**c)).collect();
        assert!(missing.is_empty(), "{missing:?}: {}", ran.stdout);
    }
}

/// The short help is one screen: everyday commands, and pointers to the rest.
#[test]
fn short_help_fits_on_24_lines() {
    for words in ["", "-h", "help"] {
        let ran = run(words).output();
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)), "{words}");
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert!(lines.len() < 24, "{}", ran.stdout);
        assert_eq!(
            lines.last(),
            Some(
                &"All commands and flags: kubectl skyhook --help; for one command: kubectl skyhook COMMAND -h"
            )
        );
        for command in EVERYDAY {
            let listed = lines.iter().any(|line| line.starts_with(&format!("  {command} ")));
            assert!(listed, "{command}: {}", ran.stdout);
        }
    }
    let ran = run("status -h").output();
    ran.expect_no_stdout("--kubeconfig <FILE>");
    ran.expect_stdout("\nGlobal flags: -o, --from, ");
    run("status --help").output().expect_stdout("--kubeconfig <FILE>");
}

fn pages() -> Vec<std::path::PathBuf> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    let entries = std::fs::read_dir(directory).expect("the pages");
    let mut pages: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    pages.sort();
    pages
}

#[test]
fn synopsis_shows_the_values_of_options() {
    let page = pages().into_iter().find(|page| page.ends_with("kubectl-skyhook-package-rerun.1"));
    let page = std::fs::read_to_string(page.expect("a page")).expect("the page exists");
    let synopsis = page.split(".SH ").find_map(|part| part.strip_prefix("SYNOPSIS\n"));
    let synopsis = synopsis.expect("a synopsis").replace("\\-", "-");
    for part in [
        "\\fBkubectl skyhook package rerun\\fR [\\fB--skyhook\\fR \\fINAME\\fR] [\\fB--node\\fR \\fINODE\\fR]... ",
        " [\\fB--failed-only\\fR] ",
        " [\\fB-y\\fR|\\fB--confirm\\fR] ",
        " [\\fB--dry-run\\fR] ",
        " \\fIPACKAGE\\fR\n",
    ] {
        assert!(synopsis.contains(part), "{part}: {synopsis}");
    }
}

#[test]
fn mandoc_lints_man_pages_without_warnings() {
    if !is_installed("mandoc") {
        return;
    }
    // Warnings and errors only: the missing date and long example lines are style issues.
    let output = Command::new("mandoc")
        .args(["-T", "lint", "-W", "warning"])
        .args(pages())
        .output()
        .expect("mandoc runs");
    let warnings = String::from_utf8_lossy(&output.stdout);
    let warnings: Vec<&str> = warnings.lines().filter(|l| !l.contains("missing date")).collect();
    assert!(warnings.is_empty(), "{}", warnings.join("\n"));
}

#[test]
fn groff_formats_man_pages_without_warnings() {
    if !is_installed("man") {
        return;
    }
    for page in pages() {
        let output = Command::new("man")
            .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANROFFSEQ", "")
            .env("MANWIDTH", "80")
            .output()
            .expect("man runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((&*stderr, output.status.code()), ("", Some(0)), "{}", page.display());
        assert!(!output.stdout.is_empty(), "{}", page.display());
    }
}
