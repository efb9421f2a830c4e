//! Gates: conditions that block a custom resource's next action on a node. One file per gate, in the
//! operator's order.

mod batch;
pub mod dependency;
mod disabled;
pub mod drain;
mod finalizer;
mod ignored;
pub mod interrupt;
mod malformed_state;
mod migration_hold;
mod paused;
mod policy;
mod priority;
mod taint;

use super::Model;
use super::action::{NodeProgress, ProgressState};
use super::place::Place;
use super::profile::Profile;
use super::reason::WaitReason;
use super::resource::Resource;
use super::spec_errors::rejections;
use crate::cluster::{Cluster, Node, PackageRun};

/// A custom resource on a node.
pub(super) struct At<'m, 'a> {
    pub model: &'m Model<'a>,
    pub resource: &'m Resource<'a>,
    pub place: &'m Place,
    pub profile: &'m Profile<'a>,
    pub node: &'a Node,
}

impl<'m, 'a> At<'m, 'a> {
    pub fn new(model: &'m Model<'a>, resource: &'m Resource<'a>, index: usize) -> At<'m, 'a> {
        let place = &resource.places[index];
        At { model, resource, place, profile: resource.profile(place), node: resource.nodes[index] }
    }

    /// Jobs and Pods of the custom resource on the node.
    pub fn runs(&self) -> impl Iterator<Item = &'m PackageRun<'a>> + use<'m, 'a> {
        let runs: &'m super::Runs<'a> = &self.model.runs;
        runs.all.of_skyhook_on(self.resource.skyhook.name(), &self.node.name)
    }
}

type Gate = for<'m, 'a> fn(&At<'m, 'a>) -> Option<NodeProgress<'a>>;

/// Gates of the node as a whole, in the operator's order. The gates of packages (dependency, drain,
/// interrupt) follow in `work.rs`.
const GATES: [Gate; 10] = [
    finalizer::check,
    paused::check,
    disabled::check,
    migration_hold::check,
    malformed_state::check,
    ignored::check,
    taint::check,
    priority::check,
    policy::check,
    batch::check,
];

/// The progress at the first closed gate; `None` if all gates are open.
pub(super) fn first<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    GATES.iter().find_map(|gate| gate(at))
}

/// The reason why the operator works on no custom resource at all.
pub(super) fn halt<'a>(model: &Model<'a>) -> Option<WaitReason<'a>> {
    let cluster = model.cluster;
    if cluster.operator().is_down() {
        return Some(WaitReason::OperatorDown);
    }
    migration_hold::halt(model).or_else(|| invalid_spec(cluster)).or_else(|| malformed_state::halt(model))
}

/// Models operator `HandleMigrations`, which validates every stored custom resource.
fn invalid_spec<'a>(cluster: &'a Cluster) -> Option<WaitReason<'a>> {
    cluster.skyhooks.iter().find_map(|skyhook| {
        let error = rejections(skyhook).next()?;
        Some(WaitReason::InvalidSpec { skyhook, error: format!("{} {}", error.field(), error.why) })
    })
}
