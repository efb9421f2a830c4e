//! The older API: raw pods that restart in place.

use serde_json::json;

use super::{SKYHOOK, driver, logs, requested_logs};
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::PackageRun;

/// Node 1 is complete, node 2 crash-loops at apply.
fn looping() -> FakeApi {
    let place = PackageRun { node: "node-2", ..PackageRun::default() };
    let pod = SKYHOOK.pod(
        "gpu-driver-apply-node-2",
        &place,
        "Pending",
        &["driver-init done", "driver-apply looping", "driver-applycheck waiting:PodInitializing"],
    );
    let fake = SKYHOOK
        .serve(driver())
        .with(SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]))
        .with(SKYHOOK.node("node-2", "erroring", &["driver|1.0.0 apply erroring"]))
        .with(pod);
    fake.change(|it| {
        it.logs.write("gpu-driver-apply-node-2", "driver-init", "2026-11-20T11:50:01Z copied\n");
        it.logs.write_previous(
            "gpu-driver-apply-node-2",
            "driver-apply",
            "2026-11-20T11:54:00Z probing\n2026-11-20T11:54:01Z no such device\n",
        );
    });
    fake
}

#[test]
fn container_in_back_off_shows_its_last_run() {
    let fake = looping();
    assert_eq!(
        logs(&fake, "driver").parts(),
        (
            "probing\nno such device\n",
            "node-2 driver-apply:\n\
             node-2 apply (pod/skyhook/gpu-driver-apply-node-2): driver-apply CrashLoopBackOff, exit code 3\n",
            Some(0)
        )
    );
    assert_eq!(requested_logs(&fake), ["gpu-driver-apply-node-2?container=driver-apply&previous=true"]);
}

#[test]
fn tail_and_since_are_sent_to_the_server() {
    let fake = looping();
    let ran = logs(&fake, "driver --tail 1 --since 10m --timestamps --stage apply --node node-2");
    assert_eq!(ran.stdout, "2026-11-20T11:54:01Z no such device\n");
    assert_eq!(
        requested_logs(&fake),
        [
            "gpu-driver-apply-node-2?container=driver-apply&previous=true&sinceSeconds=600&tailLines=1&timestamps=true"
        ]
    );
}

#[test]
fn prefix_flag_adds_node_names() {
    let ran = logs(&looping(), "driver --prefix");
    assert_eq!(ran.stdout, "node-2 driver-apply │ probing\nnode-2 driver-apply │ no such device\n");
}

#[test]
fn stage_or_node_without_logs_names_the_host_path() {
    let ran = logs(&looping(), "driver --stage config --node node-1");
    assert_eq!(
        ran.parts(),
        (
            "",
            "No pod of stage config of driver is left: the operator deletes a pod as soon as its stage is complete.\n\
             The agent's own logs stay on node-1, in /var/log/skyhook/gpu.\n",
            Some(0)
        )
    );
}

#[test]
fn package_not_started_has_no_logs() {
    let fake = SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "", &[]));
    assert_eq!(
        logs(&fake, "driver").parts(),
        (
            "",
            "No pod of driver was found, and no selected node has a record of the package: the package has not run yet, or ran long ago.\n\
             The agent's own logs stay on the nodes, in /var/log/skyhook/gpu.\n",
            Some(0)
        )
    );
}

#[test]
fn package_name_prefix_does_not_match() {
    let place = PackageRun { package: "driver-extra", ..PackageRun::default() };
    let pod = SKYHOOK.pod("extra", &place, "Pending", &["driver-extra-apply running"]);
    let fake = SKYHOOK
        .serve(json!({"driver": {"version": "1.0.0"}, "driver-extra": {"version": "1.0.0"}}))
        .with(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 config complete"]))
        .with(pod);
    fake.change(|it| it.logs.write("extra", "driver-extra-apply", "2026-11-20T11:51:00Z extra\n"));
    assert_eq!(logs(&fake, "driver").stdout, "");
    assert_eq!(logs(&fake, "driver-extra").stdout, "extra\n");
}

#[test]
fn merged_interrupt_is_shown_for_each_waiting_package() {
    let place =
        PackageRun { package: "driver", stage: "interrupt", interrupt: true, ..PackageRun::default() };
    let fake = SKYHOOK
        .serve(json!({
            "driver": {"version": "1.0.0", "interrupt": {"type": "service"}},
            "tuning": {"version": "1.0.0", "interrupt": {"type": "service"}},
            "other": {"version": "1.0.0"},
        }))
        .with(SKYHOOK.node(
            "node-1",
            "in_progress",
            &[
                "driver|1.0.0 interrupt in_progress",
                "tuning|1.0.0 interrupt skipped",
                "other|1.0.0 config complete",
            ],
        ))
        .with(SKYHOOK.pod("gpu-interrupt", &place, "Pending", &["interrupt running"]));
    fake.change(|it| it.logs.write("gpu-interrupt", "interrupt", "2026-11-20T11:51:00Z restarting\n"));
    for package in ["driver", "tuning"] {
        let ran = logs(&fake, &format!("{package} --stage interrupt"));
        assert_eq!(ran.stdout, "restarting\n", "{package}");
    }
    assert_eq!(logs(&fake, "other --stage interrupt").stdout, "");
}

#[test]
fn both_stage_containers_are_piped_unchanged() {
    let pod = SKYHOOK.pod(
        "p",
        &PackageRun::default(),
        "Running",
        &["driver-init done", "driver-apply done", "driver-applycheck running"],
    );
    let fake = SKYHOOK
        .serve(driver())
        .with(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(pod);
    fake.change(|it| {
        it.logs.write(
            "p",
            "driver-apply",
            "2026-11-20T11:51:00Z \x1b[31mred\x1b[0m\r\n2026-11-20T11:51:01Z half",
        );
        it.logs.write("p", "driver-applycheck", "2026-11-20T11:51:02Z ok\n");
    });
    assert_eq!(
        logs(&fake, "driver").parts(),
        ("\x1b[31mred\x1b[0m\r\nhalf\nok\n", "node-1 driver-apply:\nnode-1 driver-applycheck:\n", Some(0))
    );
}

#[test]
fn previous_shows_the_run_before() {
    let mut pod = SKYHOOK.pod("p", &PackageRun::default(), "Pending", &["driver-apply running"]);
    pod["status"]["initContainerStatuses"][0]["restartCount"] = 2.into();
    pod["status"]["initContainerStatuses"][0]["lastState"] =
        json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    let fake = SKYHOOK
        .serve(driver())
        .with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]))
        .with(pod);
    fake.change(|it| {
        it.logs.write("p", "driver-apply", "2026-11-20T11:56:00Z again\n");
        it.logs.write_previous("p", "driver-apply", "2026-11-20T11:55:00Z before\n");
    });
    assert_eq!(logs(&fake, "driver").stdout, "again\n");
    assert_eq!(logs(&fake, "driver --previous").stdout, "before\n");
}
