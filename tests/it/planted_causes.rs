//! Causes planted in a large cluster come first in the report, each with its effects and with the attribute
//! that distinguishes its nodes.

mod aged_captures;
mod fleet;
mod stalls;
mod synthetic;

use std::collections::BTreeSet;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::Value;

use self::fleet::{Fleet, LATE, PlantedCause, Random, Scheme, fleet};
use crate::support::run::run;
use crate::support::sample::some;

const fn plant(
    capture: &'static str,
    skyhook: &'static str,
    node: &'static str,
    code: &'static str,
) -> PlantedCause {
    PlantedCause { capture, skyhook, node, code, failing: 6, attribute: None, also: 0, exit_code: 1, held: 0 }
}

impl PlantedCause {
    const fn on(self, failing: usize, attribute: &'static str) -> PlantedCause {
        PlantedCause { failing, attribute: Some(attribute), ..self }
    }

    const fn holding(self, held: usize) -> PlantedCause {
        PlantedCause { held, ..self }
    }

    const fn code(self, exit_code: i64) -> PlantedCause {
        PlantedCause { exit_code, ..self }
    }
}

const ZONE: &str = "topology.kubernetes.io/zone";
const INSTANCE: &str = "node.kubernetes.io/instance-type";

const APPLY: PlantedCause = plant("apply-erroring", "gpu-tune", "node-2", "SKY201");
const IMAGE: PlantedCause = plant("image-pull-back-off", "gpu-tune", "node-1", "SKY202");
const DRAIN: PlantedCause = plant("drain-blocked", "gpu-tune", "node-1", "SKY401");
const UNINSTALL: PlantedCause = plant("uninstall-erroring", "gpu-tune", "node-2", "SKY112");
const STOPPED: PlantedCause = plant("rollout-stopped", "gpu-tune", "node-1", "SKY201");
const DELETED: PlantedCause = plant("deleted-while-erroring", "gpu-tune", "node-2", "SKY101");

const NEW_APPLY: PlantedCause = plant("nodewright-apply-erroring", "aerr", "aerr-1", "SKY201");
const NEW_IMAGE: PlantedCause = plant("nodewright-image-pull-failing", "pull", "pull-1", "SKY202");
const NEW_BUDGET: PlantedCause = plant("nodewright-drain-blocked-pdb", "pdb", "pdb-1", "SKY401");
const NEW_UNMANAGED: PlantedCause = plant("nodewright-drain-misattributed", "tune", "node-2", "SKY401");
const NEW_DRAIN_TIMEOUT: PlantedCause = plant("nodewright-drain-timeout", "dto", "dto-1", "SKY410");
const NEW_INTERRUPT: PlantedCause =
    plant("nodewright-interrupt-restart-limit", "intfail", "intfail-1", "SKY201");
const NEW_REBOOT: PlantedCause =
    plant("nodewright-reboot-interrupt-failing", "rebootf", "rebootf-1", "SKY201");
const NEW_TIMEOUT: PlantedCause = plant("nodewright-stage-timeout", "stimeout", "stimeout-1", "SKY201");
const NEW_UNINSTALL: PlantedCause = plant("nodewright-uninstall-erroring", "unerr", "unerr-1", "SKY112");
const NEW_STOPPED: PlantedCause =
    plant("nodewright-rollout-stopped-by-policy", "policy", "policy-1", "SKY201");
const NEW_TAINT: PlantedCause = plant("nodewright-runtime-required-taint-kept", "rtreq", "rtreq-1", "SKY201");
const NEW_DELETED: PlantedCause = plant("nodewright-deleted-while-erroring", "delerr", "delerr-1", "SKY101");

/// Ten clusters with three causes each.
fn clusters() -> Vec<(ApiFlavor, Scheme, [PlantedCause; 3])> {
    use ApiFlavor::{NodeWright, Skyhook};
    use Scheme::{Addresses, Counted, Random};
    vec![
        (Skyhook, Counted, [APPLY.on(9, "osImage").code(127), IMAGE.on(5, ZONE), DRAIN.holding(20)]),
        (Skyhook, Addresses, [UNINSTALL.on(7, "kernelVersion"), APPLY.on(4, INSTANCE).code(137), IMAGE]),
        (Skyhook, Random, [DELETED, DRAIN.on(8, "rack"), APPLY.on(12, ZONE).code(2)]),
        (Skyhook, Counted, [IMAGE.on(6, "osImage"), STOPPED.holding(9), APPLY.on(15, "pool")]),
        (
            NodeWright,
            Counted,
            [NEW_APPLY.on(10, INSTANCE).code(127), NEW_IMAGE.on(6, ZONE), NEW_BUDGET.holding(15)],
        ),
        (
            NodeWright,
            Random,
            [NEW_INTERRUPT.on(6, "kernelVersion"), NEW_DRAIN_TIMEOUT, NEW_UNINSTALL.on(7, "osImage")],
        ),
        (NodeWright, Addresses, [NEW_DELETED, NEW_TIMEOUT.on(9, "rack"), NEW_IMAGE.holding(12)]),
        (NodeWright, Counted, [NEW_REBOOT.on(11, ZONE), NEW_BUDGET.on(8, "pool"), NEW_TAINT.code(126)]),
        (
            NodeWright,
            Random,
            [NEW_UNINSTALL, NEW_UNMANAGED.on(5, INSTANCE).holding(20), NEW_TIMEOUT.on(14, "osImage")],
        ),
        (
            NodeWright,
            Addresses,
            [NEW_DRAIN_TIMEOUT.on(6, "kernelVersion"), NEW_DELETED, NEW_STOPPED.on(8, ZONE).holding(16)],
        ),
    ]
}

/// The findings of a document at these indices.
fn at<'d>(document: &'d Value, places: &Value) -> Vec<&'d Value> {
    let places = places.as_array().expect("places").iter();
    let place = |at: &Value| usize::try_from(at.as_u64().expect("a place")).expect("a place");
    places.map(|at| &document["findings"][place(at)]).collect()
}

/// The nodes of the findings on a custom resource.
fn nodes(findings: &[&Value], skyhook: &str) -> BTreeSet<String> {
    let of_it = findings.iter().filter(|f| f["subject"]["skyhook"] == skyhook);
    let node = |f: &&Value| f["subject"]["node"].as_str().map(str::to_owned);
    of_it.filter_map(node).collect()
}

fn diagnosed(fleet: &Fleet) -> Value {
    let text = fleet.list.to_string();
    let ran = run("diagnose stuck -o json --from -").stdin(text).output();
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)));
    ran.json()
}

/// Describes every difference between the report and the planted causes.
fn wrong(plants: &[PlantedCause; 3], fleet: &Fleet) -> Vec<String> {
    let document = diagnosed(fleet);
    let causes = document["causes"].as_array().expect("causes");
    let mut wrong = Vec::new();
    let describe = |cause: &Value| {
        let first = at(&document, &cause["findingIndexes"])[0];
        format!("{} {} {}", cause["code"], first["subject"]["skyhook"], first["message"])
    };
    for (at_all, cause) in causes.iter().enumerate().skip(3) {
        wrong.push(format!("cause {at_all} is {}", describe(cause)));
    }
    let planted = plants.iter().zip(&fleet.failing).zip(&fleet.held);
    for (((plant, failing), held), skyhook) in planted.zip(&fleet.skyhooks) {
        let is_it = |cause: &&Value| {
            let first = at(&document, &cause["findingIndexes"])[0];
            cause["code"] == plant.code && first["subject"]["skyhook"] == skyhook.as_str()
        };
        let Some(cause) = causes.iter().take(3).find(is_it) else {
            wrong.push(format!("{} of {skyhook} is not there", plant.code));
            continue;
        };
        let planted: BTreeSet<String> = failing.iter().cloned().collect();
        let found = nodes(&at(&document, &cause["findingIndexes"]), skyhook);
        if found != planted {
            wrong.push(format!("{} of {skyhook} is on {found:?}, not on {planted:?}", plant.code));
        }
        let effects = at(&document, &cause["explains"]);
        for late in LATE {
            let effects = nodes(&effects, late);
            let waits = failing.iter().chain(held);
            let missed: Vec<&String> = waits.filter(|node| !effects.contains(*node)).collect();
            if !missed.is_empty() {
                wrong.push(format!("{} of {skyhook} does not explain {late} on {missed:?}", plant.code));
            }
        }
        let holds = |f: &&Value| f["subject"]["skyhook"] == skyhook.as_str();
        if plant.held > 0 && !effects.iter().any(holds) {
            wrong.push(format!("{} of {skyhook} holds no batch", plant.code));
        }
        let attribute = cause["contrasts"][0]["attribute"].as_str();
        if attribute != plant.attribute {
            wrong.push(format!("{} of {skyhook}: contrast {attribute:?}", plant.code));
        }
    }
    let report = run("diagnose stuck --from -").stdin(fleet.list.to_string()).output();
    let height = |line: &str| line.chars().count().div_ceil(100).max(1);
    let lines: usize = report.stdout.lines().map(height).sum();
    if lines > 40 {
        wrong.push(format!("{lines} lines:\n{}", report.stdout));
    }
    wrong
}

#[test]
fn planted_causes_come_first_with_their_effects() {
    let mut all = Vec::new();
    for (n, (of, scheme, plants)) in some(clusters().into_iter().enumerate(), 4) {
        let fleet = fleet(of, scheme, &plants, 1 + n as u64);
        all.extend(wrong(&plants, &fleet).iter().map(|w| format!("cluster {n}: {w}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// The attribute need not be exclusive to failing nodes: one or two healthy nodes may have it, too.
#[test]
fn distinguishing_attribute_is_named_despite_exceptions() {
    const ATTRIBUTES: [&str; 6] = ["osImage", "kernelVersion", ZONE, INSTANCE, "rack", "pool"];
    let mut missed = Vec::new();
    for seed in some(0..10, 3) {
        let mut dice = Random::new(800 + seed);
        let (of, plants) = if seed % 2 == 0 {
            (ApiFlavor::Skyhook, [APPLY, UNINSTALL, IMAGE])
        } else {
            (ApiFlavor::NodeWright, [NEW_APPLY, NEW_UNINSTALL, NEW_IMAGE])
        };
        let plants = plants.map(|plant| PlantedCause {
            failing: 6 + dice.roll(8),
            attribute: Some(ATTRIBUTES[dice.roll(6)]),
            also: 1 + dice.roll(2),
            ..plant
        });
        let fleet = fleet(of, Scheme::Random, &plants, 900 + seed);
        let document = diagnosed(&fleet);
        let causes = document["causes"].as_array().expect("causes");
        for (plant, skyhook) in plants.iter().zip(&fleet.skyhooks) {
            let cause = causes.iter().find(|cause| {
                let first = at(&document, &cause["findingIndexes"])[0];
                first["subject"]["skyhook"] == skyhook.as_str()
            });
            let contrast = cause.map(|cause| &cause["contrasts"][0]);
            if contrast.and_then(|it| it["attribute"].as_str()) != plant.attribute {
                missed.push(format!("{seed} {skyhook} {:?}: {contrast:?}", plant.attribute));
            }
        }
    }
    assert!(missed.len() <= 3, "of 30: {}", missed.join("\n"));
}

/// If nodes fail at random, the report names no attribute.
#[test]
fn random_failures_name_no_distinguishing_attribute() {
    for seed in 0..10 {
        let mut dice = Random::new(100 + seed);
        let (of, plants) = if seed % 2 == 0 {
            (ApiFlavor::NodeWright, [NEW_APPLY, NEW_IMAGE, NEW_TIMEOUT])
        } else {
            (ApiFlavor::Skyhook, [APPLY, IMAGE, UNINSTALL])
        };
        let plants = plants.map(|plant| PlantedCause { failing: 3 + dice.roll(12), ..plant });
        let fleet = fleet(of, Scheme::Counted, &plants, 200 + seed);
        let document = diagnosed(&fleet);
        for cause in document["causes"].as_array().expect("causes") {
            assert!(cause["contrasts"].is_null(), "{seed}: {cause}");
        }
    }
}
