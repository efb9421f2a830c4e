//! Why the operator does not run, from its own pods.

use serde_json::json;

use super::{NODEWRIGHT, driver, shown, stuck};

/// The operator's last log lines explain why it does not run.
#[test]
fn finding_shows_the_operators_last_log_lines() {
    let labels = json!({"control-plane": "controller-manager"});
    let mut operator = NODEWRIGHT.operator();
    operator["spec"]["selector"] = json!({"matchLabels": labels});
    operator["status"] = json!({"observedGeneration": 1, "replicas": 1});
    let fake = NODEWRIGHT.serve(driver());
    fake.load(operator);
    fake.load(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "operator-x", "namespace": NODEWRIGHT.namespace(), "labels": labels},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "manager", "restartCount": 7,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {
                "exitCode": 1, "reason": "Error",
                "startedAt": "2026-11-20T11:50:00Z", "finishedAt": "2026-11-20T11:50:02Z",
            }},
        }]},
    }));
    let log = "2026-11-20T11:50:02Z problem creating manager: invalid taint key\n";
    fake.change(|it| it.logs.write_previous("operator-x", "manager", log));
    insta::assert_snapshot!(shown(&stuck(&fake, "--rule SKY501")));
    fake.on("LIST pods").reply(403);
    let ran = stuck(&fake, "--rule SKY501");
    ran.expect_code(2);
    insta::assert_snapshot!(shown(&ran));
}
