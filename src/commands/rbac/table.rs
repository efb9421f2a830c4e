//! What each command may have to be allowed: what it reads, and what its plans may change.

use std::collections::BTreeSet;

use super::role::Right;
use crate::api::Generation;
use crate::cluster::{Source, live};
use crate::commands::{
    cordon, deployment_policy, finalizer, leftovers, lifecycle, node, package, reset, status,
    teardown, undelete, uninstall, wait,
};
use crate::plan::{Change, Kind, Metadata, Plan, Stage, Step, Target};
use crate::rules::Scope;

/// One command.
pub struct Command {
    /// Its words, as after `kubectl skyhook`.
    pub words: &'static str,
    reads: fn() -> Vec<Source>,
    /// What it reads beside.
    gets: &'static [(&'static str, &'static str)],
    /// What it also watches.
    watches: &'static [Source],
    writes: &'static [Write],
}

/// One kind of change that the plans of a command may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Annotations, labels and cordons of nodes.
    Nodes,
    NodeConditions,
    /// Annotations, spec and finalizers of custom resources.
    Skyhooks,
    SkyhookStatus,
    DeleteSkyhooks,
    CreateSkyhooks,
    DeletePolicies,
    CreatePolicies,
    DeletePods,
    DeleteJobs,
    DeleteConfigMaps,
    CreateConfigMaps,
}

use Write::{
    CreateConfigMaps, CreatePolicies, CreateSkyhooks, DeleteConfigMaps, DeleteJobs, DeletePods,
    DeletePolicies, DeleteSkyhooks, NodeConditions, Nodes, SkyhookStatus, Skyhooks,
};

const ALL_WRITES: &[Write] = &[
    Nodes,
    NodeConditions,
    Skyhooks,
    SkyhookStatus,
    DeleteSkyhooks,
    CreateSkyhooks,
    DeletePolicies,
    CreatePolicies,
    DeletePods,
    DeleteJobs,
    DeleteConfigMaps,
    CreateConfigMaps,
];

const fn reading(words: &'static str, reads: fn() -> Vec<Source>) -> Command {
    writing(words, reads, &[])
}

const fn writing(
    words: &'static str,
    reads: fn() -> Vec<Source>,
    writes: &'static [Write],
) -> Command {
    Command {
        words,
        reads,
        gets: &[],
        watches: &[],
        writes,
    }
}

/// Every command that talks to a cluster.
pub const COMMANDS: &[Command] = &[
    reading("status", status::needs),
    reading("wait", wait::needs),
    reading("diagnose stuck", || Scope::default().needs()),
    reading("node status", || node::status::NEEDS.to_vec()),
    reading("node list", || node::status::NEEDS.to_vec()),
    writing("node reset", || reset::NEEDS.to_vec(), RESETS),
    writing("node ignore", || node::ignore::NEEDS.to_vec(), &[Nodes]),
    writing("node unignore", || node::ignore::NEEDS.to_vec(), &[Nodes]),
    writing("reset", || reset::NEEDS.to_vec(), RESETS),
    writing("pause", || lifecycle::STOP_NEEDS.to_vec(), &[Skyhooks]),
    writing("resume", || lifecycle::START_NEEDS.to_vec(), &[Skyhooks]),
    writing("disable", || lifecycle::STOP_NEEDS.to_vec(), &[Skyhooks]),
    writing("enable", || lifecycle::START_NEEDS.to_vec(), &[Skyhooks]),
    reading("package status", || package::status::NEEDS.to_vec()),
    Command {
        gets: &[("", "pods/log")],
        ..reading("package logs", || package::logs::NEEDS.to_vec())
    },
    writing("package rerun", || reset::NEEDS.to_vec(), RERUNS),
    writing(
        "deployment-policy reset",
        || deployment_policy::NEEDS.to_vec(),
        &[Nodes, SkyhookStatus],
    ),
    writing("update-state", || reset::NEEDS.to_vec(), RERUNS),
    Command {
        watches: &live::WATCHED,
        ..writing("uninstall", uninstall::ask::all_needs, &[Skyhooks])
    },
    reading("uninstall status", || uninstall::status::NEEDS.to_vec()),
    reading("finalizer status", finalizer::status::needs),
    writing(
        "finalizer strip",
        || finalizer::strip::NEEDS.to_vec(),
        &[Nodes, NodeConditions, Skyhooks],
    ),
    writing(
        "leftovers",
        || leftovers::NEEDS.to_vec(),
        &[
            Nodes,
            NodeConditions,
            DeletePods,
            DeleteJobs,
            DeleteConfigMaps,
        ],
    ),
    writing(
        "undelete",
        || undelete::NEEDS.to_vec(),
        &[
            Nodes,
            NodeConditions,
            Skyhooks,
            SkyhookStatus,
            CreateSkyhooks,
        ],
    ),
    writing(
        "teardown",
        teardown::needs,
        &[DeleteSkyhooks, DeletePolicies],
    ),
    writing("cordon release", || cordon::NEEDS.to_vec(), &[Nodes]),
    // They carry out what any other command has planned.
    writing("apply-plan", Vec::new, ALL_WRITES),
    writing("undo", Vec::new, ALL_WRITES),
    reading("version", || vec![Source::Operator]),
];

/// What makes packages run again holds the operator meanwhile.
const RERUNS: &[Write] = &[Nodes, Skyhooks];

/// A reset starts batches anew as well, clears the conditions of what is gone, and ends pods that would write down again
/// what fails.
const RESETS: &[Write] = &[Nodes, NodeConditions, Skyhooks, SkyhookStatus, DeletePods];

impl Command {
    /// Whether it only looks.
    pub fn only_reads(&self) -> bool {
        self.writes.is_empty()
    }

    /// All that it may have to be allowed.
    pub fn rights(&self) -> BTreeSet<Right> {
        let reads = (self.reads)();
        let always = live::ALWAYS.iter().filter(|_| !reads.is_empty());
        let sources: BTreeSet<Source> = reads.iter().chain(always).copied().collect();
        let to = |verb: &'static str| {
            move |(group, resource): (&str, &str)| Right::new(verb, group, resource)
        };
        let listed = sources
            .into_iter()
            .flat_map(Source::resources)
            .map(to("list"));
        let watched = self.watches.iter().flat_map(|source| source.resources());
        let watched = watched.map(to("watch"));
        let gets = self.gets.iter();
        let gets = gets.map(|(group, resource)| Right::new("get", group, resource));
        // A plan knows best what it needs; this one is of every kind of step that there may be.
        let steps = self.writes.iter().flat_map(|write| write.steps()).collect();
        let plan = Plan {
            stages: vec![Stage::of(steps)],
            ..Plan::default()
        };
        let writes = plan.permissions().into_iter().map(|p| {
            let resource = match p.subresource {
                Some(subresource) => format!("{}/{subresource}", p.resource),
                None => p.resource.to_owned(),
            };
            Right::new(p.verb, p.group, &resource)
        });
        listed.chain(watched).chain(gets).chain(writes).collect()
    }
}

impl Write {
    fn steps(self) -> Vec<Step> {
        let of = |kind, change: Change| {
            let target = Target {
                kind,
                ..Target::node("", None)
            };
            Step::new(target, change, "")
        };
        let custom = |change: &dyn Fn() -> Change| {
            let steps = Generation::ALL.map(|g| of(Kind::from(g), change()));
            steps.to_vec()
        };
        let policies = |change: &dyn Fn() -> Change| {
            let kinds = [Kind::SkyhookPolicy, Kind::NodeWrightPolicy];
            kinds.map(|kind| of(kind, change())).to_vec()
        };
        match self {
            Write::Nodes => vec![of(Kind::Node, Change::Metadata(Metadata::default()))],
            Write::NodeConditions => vec![of(
                Kind::Node,
                Change::Conditions {
                    remove: Vec::new(),
                    restore: Vec::new(),
                },
            )],
            Write::Skyhooks => custom(&|| Change::Metadata(Metadata::default())),
            Write::SkyhookStatus => custom(&|| Change::Status(Vec::new())),
            Write::DeleteSkyhooks => custom(&|| Change::Delete { was: None }),
            Write::CreateSkyhooks => custom(&|| Change::Create(Box::default())),
            Write::DeletePolicies => policies(&|| Change::Delete { was: None }),
            Write::CreatePolicies => policies(&|| Change::Create(Box::default())),
            Write::DeleteConfigMaps => vec![of(Kind::ConfigMap, Change::Delete { was: None })],
            Write::CreateConfigMaps => vec![of(Kind::ConfigMap, Change::Create(Box::default()))],
            Write::DeletePods => vec![of(Kind::Pod, Change::Delete { was: None })],
            Write::DeleteJobs => vec![of(Kind::Job, Change::Delete { was: None })],
        }
    }
}
