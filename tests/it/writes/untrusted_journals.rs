//! A journal directory with other files in it, or writable by others.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::TestCluster;

fn directory(cluster: &TestCluster) -> PathBuf {
    cluster.state.path().join("kubectl-skyhook/journal")
}

#[test]
fn invalid_journal_files_are_ignored() {
    let cluster = TestCluster::captured("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let directory = directory(&cluster);
    let pipe = directory.join("9999-pipe.jsonl");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    std::os::unix::fs::symlink("/dev/zero", directory.join("9998-endless.jsonl")).expect("a link");
    std::fs::create_dir(directory.join("9997-directory.jsonl")).expect("a directory");
    std::fs::write(
        directory.join("9996-foreign.jsonl"),
        "{\"not\": \"ours\"}\n",
    )
    .expect("a file");
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
            let said = format!("{name}.jsonl is not a journal");
            assert!(ran.stderr.contains(&said), "{said}: {}", ran.transcript());
            ran.expect_stderr("delete the file if you do not need it");
        }
        for name in ["9999-pipe", "9998-endless", "9997-directory"] {
            ran.expect_no_stderr(name);
        }
    }
}

#[test]
fn journal_directory_writable_by_others_is_refused() {
    let cluster = TestCluster::captured("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let directory = directory(&cluster);
    let mode = |mode| {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode))
            .expect("it is ours")
    };
    mode(0o777);
    let so_far = cluster.writes();
    for words in [
        "undo --confirm",
        "disable gpu-tune --confirm",
        "undelete gone --confirm",
    ] {
        let ran = cluster.run(words);
        ran.expect_code(1);
        let said = "other users can write to ";
        assert!(
            ran.stderr.contains(said) && ran.stderr.contains("chmod go-w "),
            "{}",
            ran.transcript()
        );
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
