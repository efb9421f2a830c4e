//! Endless files, and files that expand without end, are refused early and with little memory.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::run::{Run, RunOutput};

/// The memory limit of a run in KiB, far less than its input.
const MEMORY_KIB: u64 = 400 << 10;

/// Runs a command with a limited address space.
fn run(words: &str, path: &Path, kubeconfig: Option<&Path>) -> RunOutput {
    let command = words.replace("PATH", &path.display().to_string());
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" {command}");
    let run = Run::program("sh", ["-c", &limited, env!("CARGO_BIN_EXE_kubectl-skyhook")]);
    match kubeconfig {
        Some(path) => run.kubeconfig(path),
        None => run,
    }
    .output()
}

fn refused(ran: &RunOutput, why: &str) {
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)), "{}", ran.transcript());
    assert!(ran.stderr.starts_with("error: "), "{}", ran.transcript());
    ran.expect_stderr(why);
}

fn file(name: &str, write: impl FnOnce(&mut std::fs::File)) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    write(&mut std::fs::File::create(&path).expect("a file"));
    (dir, path)
}

#[test]
fn endless_devices_are_refused() {
    for words in ["status --from PATH", "apply-plan PATH", "status --kubeconfig PATH"] {
        refused(&run(words, Path::new("/dev/zero"), None), "it is a device, not a file");
    }
    let ran = run("status", Path::new(""), Some(Path::new("/dev/zero")));
    refused(&ran, "it is a device, not a file");
}

/// As in kubectl, an empty kubeconfig file replaces the one in the home directory.
#[test]
fn dev_null_is_an_empty_kubeconfig() {
    let ran = run("status", Path::new(""), Some(Path::new("/dev/null")));
    refused(&ran, "the kubeconfig sets no current context; pass --context NAME");
}

#[test]
fn endless_blanks_are_refused() {
    // A sparse file of zeros.
    let blank = |file: &mut std::fs::File| file.set_len(600 << 20).expect("room");
    let (_dir, path) = file("blank.yaml", blank);
    let why = "it contains more than 1 MiB of whitespace or zeros";
    refused(&run("status --from PATH", &path, None), why);
    refused(&run("apply-plan PATH", &path, None), why);
    let ran = run("status", Path::new(""), Some(&path));
    refused(&ran, "it is larger than 64 MiB");
}

#[test]
fn endless_words_are_refused() {
    let mut yes = Command::new("yes").stdout(Stdio::piped()).spawn().expect("`yes` starts");
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" status --from -");
    let output = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_kubectl-skyhook")])
        .stdin(yes.stdout.take().expect("a pipe"))
        .output()
        .expect("the shell starts");
    // The writer ends once nothing reads its pipe.
    let _ = yes.wait();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("it is plain text, not Kubernetes objects"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn oversized_archives_are_refused() {
    let packed = |file: &mut std::fs::File| {
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::best()));
        let size = 160 << 20;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        let flood = std::io::repeat(b'a').take(size);
        archive.append_data(&mut header, "nodes.json", flood).expect("room");
        archive.into_inner().and_then(GzEncoder::finish).expect("room");
    };
    let (_dir, path) = file("bomb.tar.gz", packed);
    refused(&run("status --from PATH", &path, None), "it expands to more than 500 times its size");
}

#[test]
fn yaml_alias_expansion_is_refused() {
    // Each line expands to nine times the one before.
    let laughs = |file: &mut std::fs::File| {
        writeln!(file, "apiVersion: v1\nkind: Node\na0: &a0 lollollollollollollollollollol").expect("room");
        for n in 1..12 {
            let before = format!("*a{}", n - 1);
            writeln!(file, "a{n}: &a{n} [{}]", [before.as_str(); 9].join(", ")).expect("room");
        }
    };
    let (_dir, path) = file("laughs.yaml", laughs);
    refused(&run("status --from PATH", &path, None), "neither JSON nor YAML");
    refused(&run("status", Path::new(""), Some(&path)), "is not valid");
    // One long text, aliased many times.
    let repeated = |file: &mut std::fs::File| {
        let long = "x".repeat(1 << 20);
        writeln!(file, "apiVersion: v1\nkind: Node\na: &a {long}\nb:").expect("room");
        for _ in 0..1_900 {
            writeln!(file, "- *a").expect("room");
        }
    };
    let (_dir, path) = file("repeated.yaml", repeated);
    refused(&run("status --from PATH", &path, None), "neither JSON nor YAML");
}

/// Commands run on a stack of their own.
#[test]
fn small_stack_limit_is_enough() {
    let ran = Run::program(
        "sh",
        [
            "-c",
            "ulimit -s 64; exec \"$0\" status --from tests/clusters/complete",
            env!("CARGO_BIN_EXE_kubectl-skyhook"),
        ],
    )
    .output();
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
}
