//! A pause whose predecessor the operator has not yet seen end.

use serde_json::json;

use super::{DONE, RESET, erroring};
use crate::support::test_cluster::TestCluster;

impl TestCluster {
    /// A cluster whose pause has just ended, which the operator has not seen yet.
    fn just_resumed() -> TestCluster {
        let cluster = erroring();
        let mut cr = cluster.cr().expect("the custom resource exists");
        cr["status"]["status"] = json!("paused");
        cluster.fake.load(cr);
        cluster
    }
}

/// Otherwise the operator's acknowledgement of the ended pause would be taken for that of the new one.
#[test]
fn new_pause_waits_until_the_operator_saw_the_last_one_end() {
    let cluster = TestCluster::just_resumed();
    let looks = || {
        let requests = cluster.fake.requests();
        let of_cr = requests.iter().filter(|r| r.path.ends_with("skyhooks/gpu-tune"));
        of_cr.filter(|r| r.method == "GET").count()
    };
    let ran = std::thread::scope(|scope| {
        let reset = scope.spawn(|| cluster.run(RESET));
        cluster.fake.wait_until(|| {
            assert!(!reset.is_finished(), "it does not wait");
            looks() >= 3
        });
        assert!(cluster.writes().is_empty(), "{:?}", cluster.writes());
        cluster.with_operator(|| reset.join().expect("the reset ends without a panic"))
    });
    ran.expect_code(0);
    assert_eq!(cluster.reset_and_paused(), DONE);
}

#[test]
fn operator_that_misses_the_resume_prevents_writes() {
    let cluster = TestCluster::just_resumed();
    let before = cluster.objects();
    let ran = cluster.run(RESET);
    ran.expect_code(5);
    let says = "reset gpu-tune on 3 nodes: 4 not reached\n\
                timed out waiting until the operator has seen that skyhook/gpu-tune is no longer paused; \
                `kubectl skyhook diagnose check` shows whether the operator is running; if it is not, --no-pause skips the \
                pause\n";
    assert_eq!(ran.stdout, says, "{}", ran.transcript());
    assert!(cluster.writes().is_empty(), "{:?}", cluster.writes());
    assert!(cluster.objects() == before, "{}", ran.transcript());
}

#[test]
fn unreadable_object_while_waiting_is_not_a_timeout() {
    let cluster = TestCluster::just_resumed();
    // The first read belongs to the planning.
    cluster.fake.on("GET skyhooks").since(2).reply(500);
    let ran = cluster.run(RESET);
    ran.expect_code(1);
    let says = "stopped waiting: cannot tell whether the operator has seen that skyhook/gpu-tune is no longer paused: ";
    let reported = ran.stdout.lines().any(|line| line.starts_with(says));
    assert!(reported, "{}", ran.transcript());
    assert!(!ran.stdout.contains("diagnose check"), "{}", ran.transcript());
    assert!(cluster.writes().is_empty(), "{:?}", cluster.writes());
}
