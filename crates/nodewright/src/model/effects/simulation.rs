//! All rollouts of a cluster, simulated to their end.

use std::collections::{BTreeMap, HashMap};

use crate::cluster::Cluster;
use crate::model::Model;
use crate::model::timeline::{Happening, Timeline};

/// All rollouts of a cluster, simulated to their end.
pub struct Simulation<'a> {
    pub(super) timeline: Timeline<'a>,
    /// The type of the interrupt of a package, by custom resource and package.
    pub(super) interrupts: HashMap<(&'a str, &'a str), &'a str>,
}

/// The work of the operator for a custom resource on a node.
#[derive(Debug, Default)]
pub struct Work<'a> {
    /// The packages that run, and whether they are uninstalled, with the type of the interrupt that they cause on the
    /// node.
    pub packages: BTreeMap<(&'a str, bool), Option<&'a str>>,
    /// Whether the operator starts with it now, before anything else has finished.
    pub now: bool,
}

/// [`Work`] by the names of the custom resource and of the node.
pub type WorkByPlace<'a> = BTreeMap<(&'a str, &'a str), Work<'a>>;

impl<'a> Simulation<'a> {
    /// The rollouts if nobody intervenes.
    pub fn new(cluster: &'a Cluster) -> Simulation<'a> {
        Simulation::of(Model::new(cluster))
    }

    /// The rollouts without pauses, disables, ignore labels, stopped rollouts and earlier custom resources, and with a
    /// running operator: the work that follows once they end.
    pub fn unhindered(cluster: &'a Cluster) -> Simulation<'a> {
        Simulation::of(Model::unhindered(cluster))
    }

    fn of(model: Model<'a>) -> Simulation<'a> {
        let resources = model.resources.iter();
        let interrupts = resources.flat_map(|resource| {
            let packages = resource.packages.iter();
            packages.filter_map(|p| Some(((resource.skyhook.name(), p.name), p.interrupt?)))
        });
        Simulation { interrupts: interrupts.collect(), timeline: model.timeline() }
    }

    /// Whether the rollout of a custom resource does not finish.
    pub fn is_stuck(&self, skyhook: &str) -> bool {
        self.timeline.stuck.contains(&skyhook)
    }

    pub fn work(&self) -> WorkByPlace<'a> {
        let mut work = WorkByPlace::new();
        for moment in &self.timeline.moments {
            let place = (moment.skyhook, moment.node.name.as_str());
            let package = match &moment.what {
                Happening::Complete => continue,
                Happening::Cordon { .. } => None,
                Happening::Start { package, stage } => Some((*package, stage)),
            };
            let here: &mut Work<'a> = work.entry(place).or_default();
            here.now |= moment.at_once;
            if let Some((package, stage)) = package {
                let kind = self.interrupts.get(&(moment.skyhook, package)).copied();
                let known = here.packages.entry((package, stage.is_uninstall())).or_default();
                *known = known.or(kind.filter(|_| stage.is_interrupt()));
            }
        }
        work
    }
}
