//! The file that `collect` writes, its permissions, and what it does not overwrite.

use std::os::unix::fs::PermissionsExt;

use super::Scene;
use crate::support::clusters;
use crate::support::run::run;

fn scene() -> Scene {
    Scene::of(&clusters::named("complete").served())
}

#[test]
fn capture_is_private_and_its_path_is_printed() {
    let scene = scene();
    let collected = scene.collect("");
    collected.expect_code(0);
    assert_eq!(collected.stdout, format!("{}\n", scene.archive().display()));
    let mode = scene.archive().metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = std::fs::read_dir(scene.directory.path()).expect("a directory");
    assert_eq!(files.count(), 1, "nothing else is left");
    assert!(collected.stderr.starts_with("Collected 3 nodes, 1 custom resource, "), "{}", collected.stderr);
}

#[test]
fn existing_file_is_not_overwritten_without_force() {
    let scene = scene();
    std::fs::write(scene.archive(), "precious").expect("a file");
    let collected = scene.collect("");
    collected.expect_code(3);
    assert!(collected.stderr.contains("--force"), "{}", collected.stderr);
    assert_eq!(std::fs::read_to_string(scene.archive()).expect("a file"), "precious");
    assert_eq!(scene.collect("--force").code, Some(0));
    assert_eq!(scene.from("status").code, Some(0));
}

#[test]
fn capture_can_be_written_to_stdout() {
    let scene = scene();
    let words = format!(
        "KUBECONFIG={} {} collect -o - > {}",
        scene.served.kubeconfig().display(),
        env!("CARGO_BIN_EXE_kubectl-skyhook"),
        scene.archive().display()
    );
    let ran = crate::support::run::Run::program("sh", ["-c", &words]).output();
    ran.expect_code(0);
    assert_eq!(ran.stdout, "");
    assert_eq!(scene.from("status").stdout, scene.live("status").stdout);
}

#[test]
fn invalid_flag_combinations_are_refused() {
    let scene = scene();
    for (words, code, why) in [
        ("collect -o /nonexistent/a.tar.gz", 1, "directory /nonexistent does not exist"),
        ("collect -o /tmp", 1, "/tmp is a directory"),
        ("-o json collect", 64, "specifies a file"),
        ("collect --from tests/clusters/complete -o /tmp/never.tar.gz", 64, "collect requires a cluster"),
        ("collect --max-size much", 64, "expected a size"),
        ("collect -o json", 64, "collect -o ./json"),
        ("collect -o YAML", 64, "collect -o ./YAML"),
        ("collect -o name", 64, "collect -o ./name"),
        ("collect -o wide", 64, "collect -o ./wide"),
        ("collect -o table", 64, "collect -o ./table"),
        ("collect -o jsonpath={.items}", 64, "an output format"),
        ("collect -o custom-columns=A:.a", 64, "an output format"),
    ] {
        let ran = scene.live(words);
        assert_eq!(ran.code, Some(code), "{words}: {}", ran.transcript());
        assert!(ran.stderr.contains(why), "{words}: {}", ran.stderr);
    }
}

#[test]
fn file_named_like_an_output_format_is_written_by_its_path() {
    let scene = scene();
    let path = scene.directory.path().join("json");
    let ran = scene.live(&format!("collect -o {}", path.display()));
    ran.expect_code(0);
    assert!(path.is_file());
}

#[test]
fn truncated_archive_is_refused() {
    let scene = scene();
    assert_eq!(scene.collect("").code, Some(0));
    let whole = std::fs::read(scene.archive()).expect("bytes");
    for part in [whole.len() / 4, whole.len() / 2, whole.len() * 3 / 4] {
        let path = scene.directory.path().join("part.tar.gz");
        std::fs::write(&path, &whole[..part]).expect("a file");
        let ran = run(&format!("diagnose stuck --from {}", path.display())).output();
        assert_ne!(ran.code, Some(0), "{part}: {}", ran.transcript());
        ran.expect_no_stdout("Nothing is stuck");
    }
}
