//! A package waits for its dependencies.

use super::{At, NodeProgress, ProgressState, WaitReason};

/// The reason why no package is due on the node: a dependency is missing, uninstalled, or part of a cycle, or the
/// operator overlooks a package.
pub fn check<'a>(at: &At<'_, 'a>) -> NodeProgress<'a> {
    let name = |index: usize| at.resource.packages[index].name;
    let reason = match at.profile.waits {
        Some((package, dependency)) => {
            WaitReason::Dependency { package: name(package), dependency: name(dependency) }
        }
        None => {
            let overlooked = at.profile.overlooked.first();
            overlooked.map_or(WaitReason::Nothing, |index| WaitReason::NeverScheduled(name(*index)))
        }
    };
    NodeProgress { state: ProgressState::Blocked, ..reason.into() }
}
