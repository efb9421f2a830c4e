//! A journal directory with other files in it, or writable by others.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::TestCluster;

fn directory(cluster: &TestCluster) -> PathBuf {
    cluster.state.path().join("kubectl-skyhook/journal")
}

#[test]
fn invalid_journal_files_are_ignored() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let directory = directory(&cluster);
    let pipe = directory.join("9999-pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    std::os::unix::fs::symlink("/dev/zero", directory.join("9998-endless.jsonl")).expect("a link");
    std::fs::create_dir(directory.join("9997-directory.jsonl")).expect("a directory");
    std::fs::write(directory.join("9996-foreign.jsonl"), "{\"not\": \"ours\"}\n").expect("a file");
    std::fs::write(directory.join("9995-bytes.jsonl"), [0xff, 0xfe, b'\n']).expect("a file");
    std::fs::write(directory.join("9994-empty.jsonl"), "").expect("a file");

    let list = cluster.run("journal list -o json");
    list.expect_code(0);
    assert_eq!(list.json()["items"].as_array().map(Vec::len), Some(1));
    let show = cluster.run("journal show");
    show.expect_code(0);
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null);
    for ran in [&list, &show, &undone] {
        for name in ["9996-foreign", "9995-bytes", "9994-empty"] {
            let message = format!("{name}.jsonl is not a journal");
            assert!(ran.stderr.contains(&message), "{message}: {}", ran.transcript());
            ran.expect_stderr("delete the file if you do not need it");
        }
        for name in ["9999-pipe", "9998-endless", "9997-directory"] {
            ran.expect_no_stderr(name);
        }
    }
}

#[test]
fn journal_directory_writable_by_others_is_refused() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let directory = directory(&cluster);
    let mode = |mode| {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).expect("the file is ours")
    };
    mode(0o777);
    let so_far = cluster.writes();
    for words in ["undo --confirm", "disable gpu-tune --confirm", "undelete gone --confirm"] {
        let ran = cluster.run(words);
        ran.expect_code(1);
        let message = "other users can write to ";
        assert!(ran.stderr.contains(message) && ran.stderr.contains("chmod go-w "), "{}", ran.transcript());
    }
    let list = cluster.run("journal list");
    list.expect_code(0);
    list.expect_stderr("warning: other users can write to ");
    assert_eq!(cluster.writes(), so_far);
    mode(0o700);
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null);
    assert_eq!(cluster.cr_annotation("disable"), Value::Null);
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the file is ours");
}

/// The only journal.
fn journal(cluster: &TestCluster) -> PathBuf {
    let mut files = std::fs::read_dir(directory(cluster)).expect("journals");
    files.next().expect("a journal").expect("an entry").path()
}

/// A user who can write to a parent directory can replace the journal directory.
#[test]
fn journal_below_a_directory_writable_by_others_is_refused() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let parent = cluster.state.path().join("kubectl-skyhook");
    mode(&parent, 0o777);
    let so_far = cluster.writes();
    for words in ["undo --confirm", "disable gpu-tune --confirm"] {
        let ran = cluster.run(words);
        ran.expect_code(1);
        let parent = parent.display();
        ran.expect_stderr(format!("other users can write to {parent} (mode 0777), so"));
        ran.expect_stderr(format!("chmod go-w {parent}"));
    }
    assert_eq!(cluster.writes(), so_far);
    // With the sticky bit, as on /tmp, only the owners can replace files.
    mode(&parent, 0o1777);
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null);
}

/// Only root can change the owner of a file; other users rely on the unit tests of `apply::trust`.
#[test]
fn journal_of_another_user_is_refused() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let journal = journal(&cluster);
    if std::os::unix::fs::chown(&journal, Some(1000), None).is_err() {
        return;
    }
    let id = journal.file_stem().expect("an id").to_string_lossy().into_owned();
    let says = format!("{} belongs to user 1000, not to you (user 0)", journal.display());
    let so_far = cluster.writes();
    for words in [format!("undo {id} --confirm"), "undo --confirm".to_owned()] {
        let ran = cluster.run(&words);
        ran.expect_code(1);
        ran.expect_stderr(&says);
    }
    let list = cluster.run("journal list -o json");
    list.expect_code(0);
    list.expect_stderr(&says);
    assert_eq!(list.json()["items"], serde_json::json!([]));
    assert_eq!(cluster.writes(), so_far);
}

/// With the printed digest the plan is applied, since the digest proves the content of the file.
#[test]
fn plan_writable_by_others_is_refused_without_its_digest() {
    let cluster = TestCluster::from_capture("complete");
    let file = cluster.state.path().join("plan.json");
    let name = file.display();
    let saved = cluster.run(&format!("pause gpu-tune --plan-out {name} -o json"));
    saved.expect_code(0);
    let digest = saved.json()["digest"].as_str().expect("a digest").to_owned();
    mode(&file, 0o666);
    let ran = cluster.run(&format!("apply-plan {name} --confirm"));
    let error = format!(
        "error: other users can write to {name} (mode 0666), so its content cannot be trusted; if it is yours, run: chmod go-w \
         {name}\nhint: pass --digest with the digest that was printed when the plan was made\n"
    );
    assert_eq!(ran.parts(), ("", error.as_str(), Some(1)));
    assert_eq!(cluster.writes(), [""; 0]);
    cluster.run(&format!("apply-plan {name} --digest {digest} --confirm")).expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), serde_json::json!("true"));
}
