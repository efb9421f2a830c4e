//! The permissions of a command, for its sources and its possible writes.

use std::collections::BTreeSet;

use super::command::{CommandInfo, Write};
use crate::api::ApiFlavor;
use crate::cluster::{Source, live};
use crate::plan::{Change, Kind, Metadata, Plan, PlanStage, Step, Target};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub group: String,
    /// The resource, with its subresource if any: `pods/log`.
    pub resource: String,
    pub verb: String,
    /// The only object that the permission covers; `None` for all objects.
    pub name: Option<&'static str>,
}

impl Right {
    pub fn new(verb: &str, group: &str, resource: &str) -> Right {
        Right { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned(), name: None }
    }

    /// Limits the permission to one object.
    pub fn named(self, name: &'static str) -> Right {
        Right { name: Some(name), ..self }
    }
}

/// All permissions that a command may need.
pub fn rights(command: &CommandInfo) -> BTreeSet<Right> {
    rights_to(command, command.writes)
}

/// The permissions that a command needs without its changes.
pub fn rights_to_look(command: &CommandInfo) -> BTreeSet<Right> {
    rights_to(command, &[])
}

fn rights_to(command: &CommandInfo, writes: &[Write]) -> BTreeSet<Right> {
    let reads = (command.needs)();
    let always = live::ALWAYS.iter().filter(|_| !reads.is_empty());
    let sources: BTreeSet<Source> = reads.iter().chain(always).copied().collect();
    let to = |verb: &'static str| move |(group, resource): (&str, &str)| Right::new(verb, group, resource);
    let definitions = sources
        .contains(&Source::Restrictions)
        .then(|| Right::new("get", "apiextensions.k8s.io", "customresourcedefinitions"));
    let listed = sources.into_iter().flat_map(Source::resources).map(to("list"));
    let beside = command.lists.iter().copied().map(to("list"));
    let watched = command.watches.iter().flat_map(|source| source.resources()).map(to("watch"));
    let gets = command.gets.iter().chain(command.optional_gets);
    let gets = gets.map(|(group, resource)| Right::new("get", group, resource));
    // Journals of writes record the identity of the cluster.
    let origin = (!writes.is_empty()).then(|| Right::new("get", "", "namespaces").named(live::NAMESPACE));
    let writes = plan_of(writes).permissions().into_iter().map(|p| {
        let resource = match p.subresource {
            Some(subresource) => format!("{}/{subresource}", p.resource),
            None => p.resource.to_owned(),
        };
        Right::new(p.verb, p.group, &resource)
    });
    listed.chain(definitions).chain(beside).chain(watched).chain(gets).chain(origin).chain(writes).collect()
}

/// A plan with a step of every kind that these writes may need: plans list the permissions of their steps.
pub fn plan_of(writes: &[Write]) -> Plan {
    let steps = writes.iter().flat_map(|write| steps(*write)).collect();
    Plan { stages: vec![PlanStage::of(steps)], ..Plan::default() }
}

/// A step for every kind that a write covers.
fn steps(write: Write) -> Vec<Step> {
    let custom = ApiFlavor::ALL.map(Kind::from).to_vec();
    let policies = vec![Kind::SkyhookPolicy, Kind::NodeWrightPolicy];
    let metadata = Change::Metadata(Metadata::default());
    let (delete, create) = (Change::Delete { was: None }, Change::Create(Box::default()));
    let (kinds, change) = match write {
        Write::Nodes => (vec![Kind::Node], metadata),
        Write::NodeConditions => {
            (vec![Kind::Node], Change::Conditions { remove: Vec::new(), restore: Vec::new() })
        }
        Write::Skyhooks => (custom, metadata),
        Write::SkyhookStatus => (custom, Change::Status(Vec::new())),
        Write::DeleteSkyhooks => (custom, delete),
        Write::CreateSkyhooks => (custom, create),
        Write::DeletePolicies => (policies, delete),
        Write::CreatePolicies => (policies, create),
        Write::DeleteConfigMaps => (vec![Kind::ConfigMap], delete),
        Write::CreateConfigMaps => (vec![Kind::ConfigMap], create),
        Write::DeletePods => (vec![Kind::Pod], delete),
        Write::DeleteJobs => (vec![Kind::Job], delete),
    };
    let step = |kind| Step::new(Target { kind, ..Target::node("", None) }, change.clone(), "");
    kinds.into_iter().map(step).collect()
}
