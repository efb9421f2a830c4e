//! A disk that is full while the journal is written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::TestCluster;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{Run, binary};

const NODES: usize = 60;
const RESET: &str = "reset gpu --confirm --no-pause --max-parallel 1";

fn wide() -> TestCluster {
    let driver = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = SKYHOOK.serve(driver);
    for number in 0..NODES {
        let name = format!("node-{number:02}");
        fake.load(SKYHOOK.node(&name, "complete", &["driver|1.0.0 config complete"]));
    }
    TestCluster::serving(fake)
}

/// The only journal.
fn journal(cluster: &TestCluster) -> (PathBuf, String) {
    let directory = cluster.state.path().join("kubectl-skyhook/journal");
    let mut files = std::fs::read_dir(directory).expect("a directory");
    let path = files.next().expect("a journal").expect("an entry").path();
    let text = std::fs::read_to_string(&path).expect("text");
    (path, text)
}

/// The size of the journal before the first write: its first line.
fn first_line() -> usize {
    let cluster = wide();
    cluster.run(RESET).expect_code(0);
    journal(&cluster).1.lines().next().expect("a line").len()
}

/// Runs the reset with a limit on the size of files, in blocks.
fn on_a_full_disk(cluster: &TestCluster, blocks: usize) -> Output {
    Command::new("sh")
        .args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" {RESET}")])
        .arg(env!("CARGO_BIN_EXE_kubectl-skyhook"))
        .env("KUBECONFIG", cluster.served.kubeconfig())
        .env("XDG_STATE_HOME", cluster.state.path())
        .output()
        .expect("a shell")
}

#[test]
fn full_disk_stops_writes_outside_the_journal() {
    // In the 512-byte blocks of `ulimit`, with room for a few more lines.
    let blocks = first_line() / 512 + 2;
    let cluster = wide();
    let nodes =
        || (0..NODES).map(|n| cluster.node(&format!("node-{n:02}"))["metadata"]["annotations"].clone());
    let before: Vec<_> = nodes().collect();
    let output = on_a_full_disk(&cluster, blocks);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    let message = "stopped: the journal cannot be written (File too large";
    assert!(out.contains(message), "{out}{err}");
    let writes = cluster.writes().len();
    assert!(writes > 0 && writes < NODES, "{writes}: {out}{err}");
    // `undo` reverts the changes. The journal is not torn if the disk was full exactly at the end of a line.
    let whole = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    let torn = !journal(&cluster).1.lines().all(whole);
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    assert_eq!(undone.stderr.contains("cannot be read and is"), torn, "{}", undone.transcript());
    assert_eq!(nodes().collect::<Vec<_>>(), before);
}

#[test]
fn torn_journal_line_is_skipped_and_reported() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let before = cluster.objects();
    cluster.run("reset gpu-tune --confirm --no-pause").expect_code(0);
    let (path, text) = journal(&cluster);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // The second line is torn, and the third line follows its remainder without a line break.
    let glued = format!("{}{}", &lines[1][..9], lines[2]);
    lines.splice(1..3, [glued]);
    std::fs::write(&path, lines.join("\n") + "\n").expect("the journal is writable");
    for words in ["journal list", "journal show", "undo --confirm"] {
        let ran = cluster.run(words);
        ran.expect_code(0);
        ran.expect_stderr(": line 2 cannot be read and is ignored");
        ran.expect_stderr(format!(
            "`undo` compares the objects instead; deleting {} ends this warning",
            path.display()
        ));
    }
    assert_eq!(cluster.objects(), before);
}

/// A journal whose first line cannot be written is removed, and not reported later.
#[test]
fn unwritable_journal_is_removed() {
    let cluster = wide();
    let output = on_a_full_disk(&cluster, 1);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write the journal"), "{err}");
    assert_eq!(cluster.writes(), [""; 0]);
    let listed = cluster.run("journal list");
    listed.expect_code(0);
    listed.expect_no_stderr("is not a journal");
}

/// A change is reported on stderr if stdout is full, and not as a read error.
#[test]
fn change_is_reported_when_stdout_is_full() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let words = ["-c", "exec \"$0\" node ignore node-1 --confirm >/dev/full"].map(OsString::from);
    let ran = Run::program("sh", words.into_iter().chain([binary()]))
        .kubeconfig(&cluster.served.kubeconfig())
        .env("XDG_STATE_HOME", cluster.state.path())
        .output();
    // Everything was applied, so the exit code is not that of a partly applied plan.
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    insta::assert_snapshot!(ran.stderr_text());
}
