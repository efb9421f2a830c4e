//! What the binary says about rules; `crates/nodewright-diagnosis/tests/rules.rs` has the fixtures.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::run::run;

#[test]
fn explain_accepts_impact_grades() {
    let ran = run("explain b4").output();
    assert_snapshot!("explain_grade", ran.transcript());
    let document = run("explain B4 -o json").output().json();
    let meaning = "nodes reboot, or installation records are lost";
    let expected =
        json!({"apiVersion": "kubectl-skyhook/v1", "kind": "Grade", "grade": "B4", "meaning": meaning});
    assert_eq!(document, expected);
    let both = run("explain B0 SKY101 -o name").output().stdout;
    assert_eq!(both, "grade/B0\nrule/SKY101\n");
    let stdout = |words: &str| run(words).output().stdout;
    assert_eq!(stdout("explain grades"), stdout("explain GRADE"));
}

/// Since v0.19.1 the operator sets a higher limit.
#[test]
fn upgrade_is_not_suggested_beyond_the_limit_of_older_operators() {
    let fixture = std::fs::read_to_string("tests/rules/package_erroring.interrupts.yaml").expect("a fixture");
    let directory = tempfile::tempdir().expect("a directory");
    let suggests = |text: &str| {
        let file = directory.path().join("cluster.yaml");
        std::fs::write(&file, text).expect("a file");
        let ran = run(&format!("diagnose stuck --all --rule SKY201 --from {}", file.display())).output();
        ran.expect_code(2);
        ran.stdout.contains("Upgrade the operator to v0.19.1 or later")
    };
    assert!(suggests(&fixture));
    assert!(!suggests(&fixture.replace("memory: 64Mi", "memory: 256Mi")));
}
