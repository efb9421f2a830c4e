//! Each request of a command that changes something is spoiled in turn: whatever the server does, nothing is half done,
//! the exit code tells the truth, and both ways are open, the same command again and `undo`.
//!
//! A sample runs with the suite. `FAULTS=all cargo test --test it -- writes::spoiled --nocapture` runs all, and says how
//! many they were.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Stage, answered};
use crate::support::fake_api::{Reply, State};
use crate::support::run::Ran;
use crate::support::stage::CR;

/// A captured cluster, and a command on it.
const COMMANDS: [(&str, &str); 9] = [
    ("complete", "pause gpu-tune --reason maintenance"),
    ("complete", "disable gpu-tune"),
    ("complete", "node ignore node-1 node-2"),
    ("apply-erroring", "reset gpu-tune"),
    ("apply-erroring", "reset gpu-tune --node node-2 --no-pause"),
    (
        "apply-erroring",
        "package rerun driver --skyhook gpu-tune --node node-2",
    ),
    ("finalizer-stripped", "cordon release"),
    ("finalizer-stripped", "leftovers --clean"),
    ("deleted-while-paused", "finalizer strip gpu-tune --force"),
];

/// What becomes of the request, by name.
fn faults() -> Vec<(&'static str, Reply)> {
    let codes: [(&str, u16); 8] = [
        ("401", 401),
        ("403", 403),
        ("409", 409),
        ("422", 422),
        ("429", 429),
        ("500", 500),
        ("503", 503),
        ("504", 504),
    ];
    let mut faults: Vec<(&str, Reply)> = vec![
        ("cut before the server acts", Reply::Cut),
        ("cut in the middle of the answer", Reply::Half),
        (
            "a login page",
            Reply::Body("<html>log in</html>".to_owned()),
        ),
        ("null", Reply::Body("null".to_owned())),
    ];
    faults.extend(codes.map(|(name, code)| (name, Reply::from(code))));
    faults
}

/// Runs of the suite are a sample of this size.
const SAMPLE: usize = 24;

fn stage(cluster: &str) -> Stage {
    let stage = Stage::of(cluster);
    stand_in(&stage);
    stage
}

/// The operator sees a pause, and its end, at once.
fn stand_in(stage: &Stage) {
    stage.fake.on("GET skyhooks").after(|state: &mut State| {
        let cr = state.store.find("skyhooks", "", CR).cloned();
        if let Some(cr) = cr.and_then(answered) {
            state.store.load(cr);
        }
    });
}

/// All objects, without what a server counts and without what the operator says.
fn objects(stage: &Stage) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for mut object in stage.fake.objects() {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        // A pod that was ended is not made again; the preview says so.
        if matches!(kind.as_str(), "Pod" | "Job") {
            continue;
        }
        metadata.retain(|key, value| {
            let counted = [
                "resourceVersion",
                "managedFields",
                "uid",
                "creationTimestamp",
                "generation",
            ];
            !counted.contains(&key.as_str()) && *value != json!({})
        });
        if kind == "Skyhook" {
            // What is made again is not being deleted.
            let metadata = &object["metadata"];
            let [annotations, labels] = ["annotations", "labels"].map(|m| metadata[m].clone());
            object = json!({"annotations": annotations, "labels": labels, "spec": object["spec"]});
        }
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.sort_by_key(|c| c["type"].to_string());
            for condition in conditions {
                condition["lastHeartbeatTime"] = Value::Null;
            }
        }
        objects.insert(format!("{kind}/{name}"), object);
    }
    objects
}

struct Case {
    cluster: &'static str,
    command: &'static str,
    request: usize,
    fault: &'static str,
    reply: Reply,
}

impl Case {
    /// The command with one request spoiled.
    fn spoiled(&self) -> (Stage, Ran) {
        let stage = stage(self.cluster);
        stage
            .fake
            .on("* *")
            .nth(self.request)
            .reply(self.reply.clone());
        let ran = stage.run(&format!("{} --confirm", self.command));
        stage.fake.heal();
        stand_in(&stage);
        (stage, ran)
    }

    fn told(&self, ran: &Ran, what: &str) -> String {
        format!(
            "{what}: {} on {}, request {} spoiled: {}\n{}",
            self.command,
            self.cluster,
            self.request,
            self.fault,
            ran.transcript()
        )
    }

    /// What does not hold.
    fn faulty(
        &self,
        before: &BTreeMap<String, Value>,
        after: &BTreeMap<String, Value>,
    ) -> Vec<String> {
        let mut faulty = Vec::new();
        let (stage, ran) = self.spoiled();
        let now = objects(&stage);
        for (name, object) in &now {
            // A pause that could not be ended is said, and finished below.
            let held = name.starts_with("Skyhook/");
            if !held && before.get(name) != Some(object) && after.get(name) != Some(object) {
                faulty.push(self.told(&ran, &format!("{name} is half done")));
            }
        }
        if ran.code == Some(0) && now != *after {
            faulty.push(self.told(&ran, "exit code 0, and not all of it was done"));
        }
        if now == *before && ran.code == Some(4) {
            faulty.push(self.told(&ran, "exit code 4, and nothing was done"));
        }
        let changed = now != *before;
        let again = stage.run(&format!("{} --confirm", self.command));
        if objects(&stage) != *after || again.code != Some(0) {
            let both = format!("{}\nthen\n{}", ran.transcript(), again.transcript());
            faulty.push(format!("the same command again does not finish it: {both}"));
        }
        if changed {
            let (stage, ran) = self.spoiled();
            let undone = stage.run("undo --confirm");
            if objects(&stage) != *before {
                let both = format!("{}\nthen\n{}", ran.transcript(), undone.transcript());
                faulty.push(format!("undo does not take it back: {both}"));
            }
        }
        faulty
    }
}

#[test]
fn one_spoiled_request_is_told_and_finished_or_taken_back() {
    let all = std::env::var("FAULTS").is_ok_and(|v| v == "all");
    let mut cases = Vec::new();
    let mut ends = BTreeMap::new();
    for (cluster, command) in COMMANDS {
        let stage = stage(cluster);
        let before = objects(&stage);
        let ran = stage.run(&format!("{command} --confirm"));
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        let requests = stage.fake.requests().len();
        ends.insert((cluster, command), (before, objects(&stage)));
        for request in 1..=requests {
            for (fault, reply) in faults() {
                cases.push(Case {
                    cluster,
                    command,
                    request,
                    fault,
                    reply,
                });
            }
        }
    }
    let stride = if all {
        1
    } else {
        (cases.len() / SAMPLE).max(1)
    };
    let picked = cases.iter().step_by(stride);
    let count = picked.len();
    let faulty: Vec<String> = picked
        .flat_map(|case| {
            let (before, after) = &ends[&(case.cluster, case.command)];
            case.faulty(before, after)
        })
        .collect();
    assert!(
        faulty.is_empty(),
        "{}\n\n{} of {count} faults are not borne",
        faulty.join("\n\n"),
        faulty.len()
    );
}
