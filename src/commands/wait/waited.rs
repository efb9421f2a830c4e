//! The custom resources that `wait` waits for.

use std::cell::OnceCell;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::ctx::{Aim, AimProgress};
use crate::view::text::{self, Text};
use crate::view::{View, document};
use crate::wait::{AwaitedResource, Blockers, Condition, Wait};

/// The awaited custom resources and their progress.
pub struct Waited {
    kind: &'static str,
    pub condition: Condition,
    items: Vec<AwaitedResource>,
    /// The blockers that end the wait; `None` with `--keep-going`.
    pub blockers: Option<Blockers>,
}

impl Waited {
    pub fn new(cluster: &Cluster, condition: &Condition, names: &[String]) -> Waited {
        let items = names.iter();
        Waited {
            kind: cluster.flavor().kind(),
            condition: condition.clone(),
            items: items.map(|name| AwaitedResource::new(cluster, name)).collect(),
            blockers: None,
        }
    }

    fn met(&self) -> impl Iterator<Item = &AwaitedResource> {
        self.items.iter().filter(|item| item.is_met())
    }

    /// The custom resources whose condition is not met: `gpu-tune: in_progress, 2 of 3 nodes done`.
    pub fn missing(&self) -> Vec<String> {
        let items = self.items.iter();
        items.filter_map(|item| Some(format!("{}: {}", item.name, progress(&item.state)?))).collect()
    }
}

fn progress(state: &Wait) -> Option<&str> {
    match state {
        Wait::Pending(progress) | Wait::Never(progress, _) => Some(progress),
        Wait::Met | Wait::Blocked(_) => None,
    }
}

impl Aim for Waited {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let model = OnceCell::new();
        for item in &mut self.items {
            item.judge(cluster, &model, &self.condition);
        }
        let missing = self.missing();
        let reached = if self.condition.any() { self.met().next().is_some() } else { missing.is_empty() };
        let mut items = self.items.iter();
        let state = match items.find(|item| matches!(item.state, Wait::Never(..))) {
            _ if reached => Wait::Met,
            Some(item) => item.state.clone(),
            None => Wait::Pending(missing.join("; ")),
        };
        let mut whole = Text::new();
        for line in missing {
            whole.paragraph(line);
        }
        AimProgress { state, whole, news: Vec::new() }
    }

    fn blocked(&mut self, cluster: &Cluster) -> Vec<String> {
        let (Some(blockers), Some(goal)) = (&mut self.blockers, self.condition.goal()) else {
            return Vec::new();
        };
        let open = self.items.iter().filter(|item| !item.is_met());
        let goals: Vec<_> = open.map(|item| (item.name.as_str(), goal)).collect();
        blockers.judge(cluster, &goals)
    }

    fn look_again(&self) -> bool {
        self.blockers.as_ref().is_some_and(|b| b.look_again)
    }
}

impl View for Waited {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for item in self.met() {
            let reference = format!("{}/{} ", self.kind.to_lowercase(), item.name);
            text.line(text::plain(reference) + text::good(&self.condition));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let kind = self.kind.to_lowercase();
        self.met().map(|item| format!("{kind}/{}", item.name)).collect()
    }

    fn document(&self) -> Value {
        let items = self.items.iter().map(|item| WaitedResource {
            kind: self.kind.to_owned(),
            skyhook: item.name.clone(),
            met: item.is_met(),
            progress: progress(&item.state).map(str::to_owned),
        });
        let items = items.collect();
        document("Waited", &Document { condition: self.condition.to_string(), items })
    }
}

/// The results of a wait.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The awaited condition.
    condition: String,
    /// The result for each custom resource.
    items: Vec<WaitedResource>,
}

/// The result of the wait for a custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitedResource {
    /// `Skyhook` or `NodeWright`.
    kind: String,
    /// The custom resource.
    #[serde(rename = "name")]
    skyhook: String,
    /// Whether the condition is met.
    met: bool,
    /// The progress so far, or why the condition can never be met; absent if it is met or blocked by
    /// findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}
