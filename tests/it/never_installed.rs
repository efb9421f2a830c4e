//! A package whose uninstall is requested and that no node has: every command distinguishes a finished
//! uninstall from a package that was never installed.

use crate::support::clusters::{self, Captured};
use crate::support::run::{RunOutput, run};

struct Answers {
    stuck: RunOutput,
    node: RunOutput,
    wait: RunOutput,
    status: RunOutput,
    packages: RunOutput,
    drift: RunOutput,
}

fn ask(captured: &Captured) -> Answers {
    let served = captured.served().serve();
    let go = |words: &str| run(words).kubeconfig(&served.kubeconfig()).output();
    Answers {
        stuck: go("diagnose stuck"),
        node: go("diagnose node node-1"),
        wait: go("wait gpu-tune --timeout 30s"),
        status: go("node status node-1 --no-headers"),
        drift: go("package status --drift --no-headers --node node-1"),
        packages: go("package status driver --skyhook gpu-tune --node node-1"),
    }
}

#[test]
fn package_that_was_never_installed_is_an_error_in_every_command() {
    for (capture, code, why) in [
        ("apply-true-never-installed", "SKY103", "but the package was never installed"),
        ("version-changed-while-uninstalling", "SKY104", "2.1.0 will not be installed"),
    ] {
        let answers = ask(&clusters::named(capture));
        for ran in [&answers.stuck, &answers.node, &answers.wait] {
            ran.expect_code(2);
            ran.expect_stdout(code);
        }
        answers.node.expect_stdout("node-1: stuck");
        answers.status.expect_stdout("1/2");
        answers.status.expect_stdout(why);
        answers.packages.expect_stdout("never installed");
        answers.drift.expect_stdout("driver");
    }
}

#[test]
fn finished_uninstall_is_an_info_in_every_command() {
    let answers = ask(&clusters::named("uninstall-complete"));
    for ran in [&answers.stuck, &answers.node, &answers.wait] {
        ran.expect_code(0);
    }
    answers.stuck.expect_stdout("SKY115");
    answers.wait.expect_stdout("skyhook/gpu-tune complete");
    answers.node.expect_stdout("all of its packages are done");
    answers.status.expect_stdout("2/2");
    answers.status.expect_no_stdout("never installs");
    assert_eq!(answers.drift.stdout, "");
    answers.packages.expect_stdout("absent");
}
