//! A snapshot of one custom resource's objects, and the conditions that scenarios wait for.

use std::fmt::Write as _;

use serde_json::Value;

pub const PREFIX: &str = "skyhook.nvidia.com";

/// The custom resource (if it still exists), the nodes and the package pods.
pub struct View {
    pub name: String,
    pub object: Option<Value>,
    pub nodes: Vec<Value>,
    pub pods: Vec<Value>,
}

/// A node's entry for a package: stage and state.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub node: String,
    pub stage: String,
    pub state: String,
}

impl View {
    pub fn status(&self) -> &str {
        self.object.as_ref().and_then(|object| object["status"]["status"].as_str()).unwrap_or_default()
    }

    pub fn has_condition(&self, kind: &str, reason: &str) -> bool {
        let conditions = self.object.as_ref().and_then(|object| object["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == kind && c["reason"] == reason && c["status"] == "True")
    }

    pub fn annotation(&self, node: &str, key: &str) -> Option<&str> {
        let node = self.nodes.iter().find(|each| each["metadata"]["name"] == node)?;
        node["metadata"]["annotations"][format!("{PREFIX}/{key}")].as_str()
    }

    /// Entries of this `name|version`, at most one per node.
    pub fn entries(&self, package: &str) -> Vec<Entry> {
        let key = format!("{PREFIX}/nodeState_{}", self.name);
        let entry = |node: &Value| {
            let state: Value = serde_json::from_str(node["metadata"]["annotations"][&key].as_str()?).ok()?;
            let text = |field: &str| state[package][field].as_str().map(str::to_owned);
            let node = node["metadata"]["name"].as_str()?.to_owned();
            Some(Entry { node, stage: text("stage")?, state: text("state")? })
        };
        self.nodes.iter().filter_map(entry).collect()
    }

    pub fn pods_of(&self, package: &str, stage: &str) -> Vec<&Value> {
        let is = |pod: &&Value| {
            let text = pod["metadata"]["annotations"][format!("{PREFIX}/package")].as_str().unwrap_or("{}");
            let of: Value = serde_json::from_str(text).unwrap_or_default();
            of["skyhook"] == self.name && of["name"] == package && of["stage"] == stage
        };
        self.pods.iter().filter(is).collect()
    }

    /// Summarizes the snapshot, for the message of a wait that timed out.
    pub fn summary(&self) -> String {
        let mut text = format!("{}: status {:?}", self.name, self.status());
        match &self.object {
            None => text.push_str(", gone"),
            Some(object) => {
                let deleting = !object["metadata"]["deletionTimestamp"].is_null();
                let _ = write!(text, ", deleting {deleting}, conditions");
                for c in object["status"]["conditions"].as_array().into_iter().flatten() {
                    let _ = write!(text, " {}={}:{}", c["type"], c["status"], c["reason"]);
                }
            }
        }
        for node in &self.nodes {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let state = self.annotation(name, &format!("nodeState_{}", self.name));
            let status = self.annotation(name, &format!("status_{}", self.name));
            let _ =
                write!(text, "\n  {name}: {status:?} cordoned {} {state:?}", node["spec"]["unschedulable"]);
        }
        for pod in &self.pods {
            let init = pod["status"]["initContainerStatuses"].as_array();
            let states: Vec<_> = init.into_iter().flatten().map(|c| c["state"].to_string()).collect();
            let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
            let _ = write!(
                text,
                "\n  {} {} deleting {deleting} {states:?}",
                pod["metadata"]["name"], pod["status"]["phase"]
            );
        }
        text
    }
}

/// Something to wait for: a description and a predicate.
pub struct Condition {
    pub what: String,
    pub holds: Box<dyn Fn(&View) -> bool>,
}

impl Condition {
    /// The same condition, ignoring this node.
    #[must_use]
    pub fn but_for(self, node: &'static str) -> Self {
        let holds = move |view: &View| {
            let nodes = view.nodes.iter().filter(|each| each["metadata"]["name"] != node).cloned().collect();
            (self.holds)(&View {
                name: view.name.clone(),
                object: view.object.clone(),
                nodes,
                pods: view.pods.clone(),
            })
        };
        Self { what: format!("{} but for {node}", self.what), holds: Box::new(holds) }
    }
}

pub fn that(what: &str, holds: impl Fn(&View) -> bool + 'static) -> Condition {
    Condition { what: what.to_owned(), holds: Box::new(holds) }
}

/// The status is complete, Ready is true, and no pod is left. Right after an edit, this can still be the old
/// status.
pub fn complete() -> Condition {
    that("complete", |view| {
        view.status() == "complete" && view.has_condition("Ready", "NodesConverged") && view.pods.is_empty()
    })
}

pub fn status(wanted: &str) -> Condition {
    let wanted = wanted.to_owned();
    that(&format!("status {wanted}"), move |view| view.status() == wanted)
}

pub fn deleted() -> Condition {
    that("gone", |view| view.object.is_none())
}

pub fn condition(kind: &str, reason: &str) -> Condition {
    let (kind, reason) = (kind.to_owned(), reason.to_owned());
    that(&format!("condition {kind} {reason}"), move |view| view.has_condition(&kind, &reason))
}

/// The package is at this stage and state on this node.
pub fn entry(node: &str, package: &str, stage: &str, state: &str) -> Condition {
    let wanted = Entry { node: node.to_owned(), stage: stage.to_owned(), state: state.to_owned() };
    let package = package.to_owned();
    that(&format!("{package} {stage}/{state} on {node}"), move |view| {
        view.entries(&package).contains(&wanted)
    })
}

/// The package is at this stage and state on every node.
pub fn everywhere(package: &str, stage: &str, state: &str) -> Condition {
    let (package, stage, state) = (package.to_owned(), stage.to_owned(), state.to_owned());
    that(&format!("{package} {stage}/{state} everywhere"), move |view| {
        let entries = view.entries(&package);
        entries.len() == view.nodes.len() && entries.iter().all(|e| e.stage == stage && e.state == state)
    })
}

/// No node has an entry of the package.
pub fn absent(package: &str) -> Condition {
    let package = package.to_owned();
    that(&format!("{package} absent"), move |view| view.entries(&package).is_empty())
}

/// A pod of the package at this stage exists.
pub fn pod(package: &str, stage: &str) -> Condition {
    let (package, stage) = (package.to_owned(), stage.to_owned());
    that(&format!("a pod of {package} at {stage}"), move |view| !view.pods_of(&package, &stage).is_empty())
}
