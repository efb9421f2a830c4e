//! Faults of `package logs`.

use serde_json::json;

use super::{TestCluster, complete_cluster, driver};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::PackageRun;

/// Adds a pod of the package's stage with these containers and logs.
fn pod(
    fake: FakeApi,
    name: &str,
    place: &PackageRun<'_>,
    containers: &[&str],
    logs: &[(&str, &str)],
) -> FakeApi {
    fake.load(SKYHOOK.pod(name, place, "Pending", containers));
    fake.change(|it| {
        for (container, text) in logs {
            it.logs.write(name, container, text);
        }
    });
    fake
}

fn with_node() -> FakeApi {
    complete_cluster(driver()).with(SKYHOOK.node(
        "node-1",
        "in_progress",
        &["driver|1.0.0 apply in_progress"],
    ))
}

#[test]
fn l1_crash_loop_shows_the_crashed_run() {
    let containers = ["driver-init done", "driver-apply looping"];
    let init = [("driver-init", "2026-11-20T11:50:00Z copied\n")];
    let fake = pod(with_node(), "p", &PackageRun::default(), &containers, &init);
    fake.change(|it| {
        it.logs.write_previous("p", "driver-apply", "2026-11-20T11:54:00Z no such device\n");
    });
    let cluster = TestCluster::serving(fake);
    for words in ["", "--stage apply"] {
        let ran = cluster.ok(&format!("package logs driver --skyhook gpu {words}"));
        assert_eq!(ran.stdout, "no such device\n", "{}", ran.transcript());
    }
}

#[test]
fn l2_interrupt_logs_are_shown() {
    let place = PackageRun { stage: "interrupt", interrupt: true, ..PackageRun::default() };
    let logs = [("interrupt", "2026-11-20T11:50:00Z rebooting\n")];
    let fake = pod(with_node(), "p", &place, &["interrupt running"], &logs);
    let ran = TestCluster::serving(fake).ok("package logs driver --skyhook gpu --stage interrupt");
    assert_eq!(ran.stdout, "rebooting\n", "{}", ran.transcript());
}

#[test]
fn l3_package_name_prefix_does_not_match() {
    let packages = json!({
        "driver": {"version": "1.0.0", "image": "example.com/driver"},
        "driver-extra": {"version": "1.0.0", "image": "example.com/driver-extra"},
    });
    let fake = complete_cluster(packages).with(SKYHOOK.node("node-1", "in_progress", &[]));
    let place = PackageRun { package: "driver-extra", ..PackageRun::default() };
    let logs = [("driver-extra-apply", "2026-11-20T11:50:00Z other\n")];
    let fake = pod(fake, "p", &place, &["driver-extra-apply running"], &logs);
    let cluster = TestCluster::serving(fake);
    assert_eq!(cluster.ok("package logs driver --skyhook gpu").stdout, "");
    let other = cluster.ok("package logs driver-extra --skyhook gpu");
    assert_eq!(other.stdout, "other\n");
}

#[test]
fn l4_nodes_are_interleaved_with_name_prefixes() {
    let mut fake = complete_cluster(driver());
    for (node, text) in [
        ("node-1", "2026-11-20T11:50:00Z first\n2026-11-20T11:50:02Z third\n"),
        ("node-2", "2026-11-20T11:50:01Z second\n"),
    ] {
        fake = fake.with(SKYHOOK.node(node, "in_progress", &["driver|1.0.0 apply in_progress"]));
        let place = PackageRun { node, ..PackageRun::default() };
        let pod_name = format!("p-{node}");
        fake = pod(fake, &pod_name, &place, &["driver-apply running"], &[("driver-apply", text)]);
    }
    let ran = TestCluster::serving(fake).ok("package logs driver --skyhook gpu");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.transcript());
    for (line, (node, word)) in
        lines.iter().zip([("node-1", "first"), ("node-2", "second"), ("node-1", "third")])
    {
        assert!(line.starts_with(node) && line.ends_with(word), "{line}");
    }
}

#[test]
fn l5_stage_shows_its_check_and_no_other_stage() {
    let logs = [
        ("driver-apply", "2026-11-20T11:50:00Z applied\n"),
        ("driver-applycheck", "2026-11-20T11:50:01Z not so\n"),
    ];
    let containers = ["driver-init done", "driver-apply done", "driver-applycheck running"];
    let fake = pod(with_node(), "p", &PackageRun::default(), &containers, &logs);
    let config = PackageRun { stage: "config", ..PackageRun::default() };
    let fake = pod(
        fake,
        "q",
        &config,
        &["driver-config running"],
        &[("driver-config", "2026-11-20T11:50:02Z configured\n")],
    );
    let ran = TestCluster::serving(fake).ok("package logs driver --skyhook gpu --stage apply --prefix=false");
    let words: Vec<&str> = ran.stdout.lines().filter_map(|l| l.split_whitespace().last()).collect();
    assert_eq!(words, ["applied", "so"], "{}", ran.transcript());
}

#[test]
fn l6_every_stage_can_be_selected() {
    for stage in
        ["apply", "config", "interrupt", "post-interrupt", "upgrade", "uninstall", "uninstall-interrupt"]
    {
        let cluster = TestCluster::serving(with_node());
        let ran = cluster.ok(&format!("package logs driver --skyhook gpu --stage {stage}"));
        assert_eq!(ran.stdout, "");
    }
    let ran = TestCluster::serving(with_node()).run("package logs driver --skyhook gpu --stage nope");
    assert_eq!((ran.parts().0, ran.parts().2), ("", Some(64)));
}

#[test]
fn l7_missing_logs_name_the_reason_and_the_host_path() {
    let ran = TestCluster::serving(with_node()).ok("package logs driver --skyhook gpu");
    assert_eq!(ran.stdout, "");
    for says in ["the operator deletes a pod as soon as its stage is complete", "/var/log/skyhook/"] {
        ran.expect_stderr(says);
    }
}

#[test]
fn l8_log_flags_reach_the_server_and_unknown_names_are_errors() {
    let logs = [("driver-apply", "2026-11-20T11:50:00Z applied\n")];
    let fake =
        pod(with_node(), "p", &PackageRun::default(), &["driver-init done", "driver-apply running"], &logs);
    let cluster = TestCluster::serving(fake);
    let all = "package logs driver --skyhook gpu --timestamps --prefix --since 24h --tail 5";
    let ran = cluster.ok(all);
    assert!(ran.stdout.starts_with("node-1"), "{}", ran.transcript());
    assert!(ran.stdout.ends_with("2026-11-20T11:50:00Z applied\n"), "{}", ran.transcript());
    let queries: Vec<String> = cluster
        .fake
        .requests()
        .iter()
        .filter(|r| r.path.ends_with("/log"))
        .map(ToString::to_string)
        .collect();
    assert!(!queries.is_empty());
    for query in &queries {
        assert!(query.contains("sinceSeconds=86400") && query.contains("timestamps=true"), "{query}");
    }
    // An unknown package, an unknown node and a refused log are errors.
    for words in ["package logs drivr --skyhook gpu", "package logs driver --skyhook gpu --node node-9"] {
        let ran = cluster.run(words);
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)), "{words}");
    }
    cluster.fake.on("GET pods/log").reply(500);
    let ran = cluster.run("package logs driver --skyhook gpu");
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
    ran.expect_stderr("error");
}
