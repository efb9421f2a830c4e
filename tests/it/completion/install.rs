//! Installing and removing the completion links next to the plugin.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory with the plugin; PATH contains no other directory.
struct Installed {
    dir: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let dir = tempfile::tempdir().expect("a directory");
        let plugin = dir.path().join("kubectl-skyhook");
        symlink(env!("CARGO_BIN_EXE_kubectl-skyhook"), plugin).expect("a link");
        Installed { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Stdout and stderr without the directory, and the exit code.
    fn call(&self, name: &str, words: &str) -> (String, String, Option<i32>) {
        let output = Command::new(self.path(name))
            .args(words.split_whitespace())
            .env("PATH", self.dir.path())
            .env("HOME", "/nonexistent")
            .output()
            .expect("the binary runs");
        let here = format!("{}/", self.dir.path().display());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").replace(&here, "");
        (text(output.stdout), text(output.stderr), output.status.code())
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn done(stdout: &str) -> (String, String, Option<i32>) {
    (stdout.to_owned(), String::new(), Some(0))
}

/// Like [`done`], with the hint that an installation prints.
fn installed(stdout: &str) -> (String, String, Option<i32>) {
    let hint = "hint: completion of kubectl itself must be set up: see `kubectl completion --help`; in bash, it needs the \
                package bash-completion\n";
    (stdout.to_owned(), hint.to_owned(), Some(0))
}

const SKYHOOK: &str = "kubectl_complete-skyhook: linked to kubectl-skyhook";

#[test]
fn completion_links_are_installed_and_removed() {
    let here = Installed::new();
    let call = |words| here.call("kubectl-skyhook", words);
    let would = format!("{SKYHOOK} (dry run)\n");
    assert_eq!(call("completion install --dry-run"), done(&would));
    assert_eq!(here.names(), ["kubectl-skyhook"]);
    assert_eq!(call("completion install"), installed(&format!("{SKYHOOK}\n")));
    assert_eq!(
        call("completion install --nodewright"),
        installed(&format!(
            "{SKYHOOK} already\n\
             kubectl-nodewright: linked to kubectl-skyhook\n\
             kubectl_complete-nodewright: linked to kubectl-skyhook\n"
        ))
    );
    for name in ["kubectl_complete-skyhook", "kubectl_complete-nodewright", "kubectl-nodewright"] {
        let target = std::fs::read_link(here.path(name)).expect("a link");
        assert_eq!(target, Path::new("kubectl-skyhook"));
    }
    let expected = done("version\tShow the versions of this plugin and of the operator\n:4\n");
    assert_eq!(here.call("kubectl_complete-skyhook", "vers"), expected);
    assert_eq!(here.call("kubectl_complete-nodewright", "vers"), expected);
    let (_, usage, code) = here.call("kubectl-nodewright", "apply-plan");
    assert!(usage.contains("Usage: kubectl nodewright apply-plan "), "{usage}");
    assert_eq!(code, Some(64));

    let would = "kubectl_complete-skyhook: removed (dry run)\n\
                 kubectl-nodewright: removed (dry run)\n\
                 kubectl_complete-nodewright: removed (dry run)\n";
    assert_eq!(call("completion uninstall --dry-run"), done(would));
    assert_eq!(here.names().len(), 4);
    let removed = would.replace(" (dry run)", "");
    assert_eq!(call("completion uninstall"), done(&removed));
    assert_eq!(here.names(), ["kubectl-skyhook"]);
    let (stdout, stderr, code) = call("completion uninstall");
    assert_eq!((stdout.as_str(), code), ("", Some(0)));
    assert!(stderr.starts_with("No completion files of this plugin found in "), "{stderr}");
}

#[test]
fn dangling_link_is_replaced() {
    let here = Installed::new();
    symlink("/nonexistent/kubectl-skyhook", here.path("kubectl_complete-skyhook")).expect("a link");
    let call = |words| here.call("kubectl-skyhook", words);
    assert_eq!(call("completion install"), installed(&format!("{SKYHOOK}\n")));
    let target = std::fs::read_link(here.path("kubectl_complete-skyhook")).expect("a link");
    assert_eq!(target, Path::new("kubectl-skyhook"));
}

#[test]
fn files_of_other_programs_are_not_replaced() {
    let here = Installed::new();
    let link = here.path("kubectl_complete-skyhook");
    std::fs::write(&link, "mine").expect("a file");
    let refused = |stdout: &str, name: &str, what: &str| {
        (
            stdout.to_owned(),
            format!(
                "error: {name} was not written by this plugin ({what}); left unchanged\n\
                 hint: remove the file yourself, or use --dir to specify another directory on the PATH\n"
            ),
            Some(3),
        )
    };
    let expected = refused("", "kubectl_complete-skyhook", "a regular file");
    for words in ["completion install --nodewright", "completion uninstall"] {
        assert_eq!(here.call("kubectl-skyhook", words), expected, "{words}");
    }
    assert_eq!(std::fs::read_to_string(&link).expect("the file exists"), "mine");
    assert_eq!(here.names(), ["kubectl-skyhook", "kubectl_complete-skyhook"]);

    // Another program of the same name, such as upstream's own.
    std::fs::remove_file(&link).expect("the file can be removed");
    let upstream = tempfile::tempdir().expect("a directory");
    let program = upstream.path().join("kubectl-nodewright");
    std::fs::write(&program, "").expect("a file");
    symlink(&program, here.path("kubectl-nodewright")).expect("a link");
    let what = format!("a link to {}", program.display());
    let (_, _, code) = here.call("kubectl-skyhook", "completion install");
    assert_eq!(code, Some(0));
    assert_eq!(
        here.call("kubectl-skyhook", "completion install --nodewright"),
        refused(&format!("{SKYHOOK} already\n"), "kubectl-nodewright", &what)
    );
    assert_eq!(
        here.call("kubectl-skyhook", "completion uninstall"),
        refused("kubectl_complete-skyhook: removed\n", "kubectl-nodewright", &what)
    );
    assert_eq!(here.names(), ["kubectl-nodewright", "kubectl-skyhook"]);
}
