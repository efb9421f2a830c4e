//! All scenarios. Each begins with an empty cluster.

mod blocked_by_spec;
mod blocked_rollouts;
mod deletion;
mod deletion_remedies;
mod edit_effects;
mod encodings;
mod excluded_nodes;
mod failed_jobs;
mod faults;
mod first_remedy;
mod fixtures;
mod flavors;
mod groups;
mod healthy;
mod job_timeouts;
mod kubectl_parity;
mod lint;
mod migration;
mod nodewright;
mod older_definitions;
mod operator_behavior;
mod overdue_states;
mod permissions;
mod preconditions;
mod races;
mod readme;
mod refused_requests;
mod remedies;
mod self_healing;
mod size_limits;
mod soak;
mod strip;
mod stuck_states;
mod teardown;
mod undelete;
mod undo;
mod uninstall;
mod unworkable_specs;
mod webhooks;
mod writes;

use std::{collections::BTreeSet, sync::Mutex};

use anyhow::Result;
use libtest_mimic::Trial;

use self::groups::*;
use crate::{cluster::Cluster, tools::Tools};

type Scenario = fn(&Cluster);
type Group = &'static [(&'static str, Scenario)];
type Start = fn(&Tools) -> Result<Cluster>;

/// Environment variable to run only the first scenario of each group, and none of `ONLY_IN_ALL`.
const SAMPLE: &str = "E2E_SAMPLE";
const ONLY_IN_ALL: [&str; 3] = ["self_healing", "faults", "soak"];

pub fn all(tools: &Tools) -> Vec<Trial> {
    let groups: &[(&str, Start, Group)] = &[
        // Scenarios that take minutes start first: the last ones then end together.
        ("soak", Cluster::old, SOAK),
        ("faults", Cluster::old, FAULTS),
        ("skyhook", Cluster::old, OLD),
        ("self_healing", Cluster::old, HEALING),
        ("self_healing", Cluster::new, HEALING_JOBS),
        ("blocked_rollouts", Cluster::old, HELD_UP),
        ("operator_behavior", Cluster::old, FACTS),
        ("excluded_nodes", Cluster::old, KEPT_OUT),
        ("blocked_by_spec", Cluster::old, NOT_BEGUN),
        ("unworkable_specs", Cluster::old, SPECS),
        ("overdue_states", Cluster::old, LATER),
        ("refused_requests", Cluster::old, REFUSED),
        ("writes", Cluster::old, WRITES),
        ("first_remedy", Cluster::old, FIRST_CHANGE),
        ("undo", Cluster::old, UNDO),
        ("permissions", Cluster::old, RIGHTS),
        ("teardown", Cluster::old, TEARDOWN),
        ("uninstall", Cluster::old, UNINSTALL),
        ("strip", Cluster::old, STRIP),
        ("webhooks", Cluster::old_with_webhooks, WEBHOOKS),
        ("nodewright", Cluster::new, NEW),
        ("migration", Cluster::old, MIGRATION),
        ("encodings", Cluster::bare, ENCODINGS),
        ("kubectl_parity", Cluster::bare, AS_KUBECTL),
        ("size_limits", Cluster::unoperated, TOO_LARGE),
        ("older_definitions", Cluster::old, OLDER_DEFINITIONS),
        ("readme", Cluster::old, README),
    ];
    let named = GENERATIONS.iter().map(|(name, start, run)| ("flavors", *start, *name, *run));
    let all = groups.iter().flat_map(|(group, start, scenarios)| {
        scenarios.iter().map(move |(name, run)| (*group, *start, *name, *run))
    });
    let trial = |(group, start, name, run): (&str, Start, &str, Scenario)| {
        let (tools, alone) = (tools.clone(), group == "webhooks");
        let scenario = format!("{group}::{name}");
        let trial = Trial::test(scenario.clone(), move || {
            let _alone = alone.then(|| WEBHOOK_PORT.lock());
            let cluster = start(&tools).map_err(|error| format!("{error:#}"))?;
            let cluster = cluster.recorded(&scenario).with_nodes(3);
            run(&cluster);
            cluster.give_back();
            Ok(())
        });
        trial.with_ignored_flag(alone && !crate::in_network_namespace())
    };
    let scenarios = all.chain(named);
    if std::env::var_os(SAMPLE).is_some_and(|value| !value.is_empty()) {
        let mut sampled = BTreeSet::from(ONLY_IN_ALL);
        return scenarios.filter(|(group, ..)| sampled.insert(group)).map(trial).collect();
    }
    let mut trials: Vec<Trial> = scenarios.map(trial).collect();
    // This scenario starts its own clusters.
    let tools = tools.clone();
    trials.insert(
        0,
        Trial::test("faults::without_the_operator", move || {
            faults::without_the_operator(&tools);
            Ok(())
        }),
    );
    trials
}

static WEBHOOK_PORT: Mutex<()> = Mutex::new(());
