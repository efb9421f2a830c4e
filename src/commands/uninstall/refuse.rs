//! Refusals of uninstall requests, with better remedies.

use super::Request;
use crate::api::{Package, Skyhook};
use crate::cluster::Cluster;
use crate::cluster::history::History;
use crate::error::{Error, Result};
use crate::plan::planners::uninstall::{PlacementSummary, first, nodes, removal_order};
use crate::rules::{uninstall_argument, uninstall_command};
use crate::view::list;

/// Refuses requests that would hang, strand the package, or do nothing.
///
/// # Errors
///
/// The code of the problem, its reason, and the next command; exit code 3.
pub(super) fn refuse_traps(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    survey: &PlacementSummary<'_>,
    request: &Request,
) -> Result<()> {
    let cr = uninstall_argument(skyhook.name());
    let force = "to request the uninstall anyway, add --force";
    if request.remove && !request.all_packages {
        needed(skyhook, name)?;
    }
    undeclared(skyhook, name, package, request)?;
    if let Some((node, entry)) = first(&survey.other).filter(|_| !request.force) {
        let why = format!(
            "SKY104: on {}, {name} is at version {} ({} {}), but the spec has {}; if the version changes during the \
             uninstall, the package may be stranded",
            node.name, entry.version, entry.stage, entry.state, package.version
        );
        return Err(if package.uninstall().apply {
            Error::unchanged(why)
                .hint(format!("kubectl skyhook uninstall {cr} {name} --cancel"))
                .hint("kubectl skyhook explain SKY104")
        } else {
            Error::unchanged(why).hint(format!("kubectl skyhook wait {}", skyhook.name())).hint(force)
        });
    }
    if survey.is_absent() && !request.all_packages {
        never_installed(cluster, skyhook, name, package, request)?;
    }
    Ok(())
}

/// Refuses to remove a package that others need, and names the package to remove first.
fn needed(skyhook: &Skyhook, name: &str) -> Result<()> {
    let held_by = skyhook.dependants(name);
    if held_by.is_empty() {
        return Ok(());
    }
    let order = removal_order(skyhook);
    let mut removed = vec![name];
    // In reverse order, dependencies come before their dependants.
    for other in order.iter().rev() {
        let package = skyhook.package(other);
        if package.is_some_and(|p| p.depends_on.keys().any(|on| removed.contains(&on.as_str()))) {
            removed.push(other);
        }
    }
    let first = order.iter().find(|package| removed.contains(package)).unwrap_or(&held_by[0]);
    let declared = skyhook.packages().all(|(_, package)| package.uninstall().enabled);
    let all = if declared { "--all-packages --remove" } else { "--all-packages --enable --remove" };
    let cr = uninstall_argument(skyhook.name());
    Err(Error::unchanged(format!(
        "{} {} on {name}, so {name} cannot be removed from the spec first",
        list(&held_by),
        match held_by.len() {
            1 => "depends",
            _ => "depend",
        }
    ))
    .hint(format!("{} --wait --remove", uninstall_command(skyhook, first)))
    .hint(format!("kubectl skyhook uninstall {cr} {all}")))
}

/// Refuses a request that the operator would not act on.
pub(super) fn refuse_at_rest(cluster: &Cluster, skyhook: &Skyhook, request: &Request) -> Result<()> {
    let cr = uninstall_argument(skyhook.name());
    let reference = skyhook.reference();
    if !cluster.knows_uninstall() {
        return Err(Error::unchanged(
            "the operator is older than v0.16.0 and does not support explicit uninstall: it would ignore the request",
        )
        .hint("kubectl skyhook version"));
    }
    if skyhook.deleting() {
        return Err(Error::unchanged(format!(
            "{reference} is being deleted, which already uninstalls its packages"
        ))
        .hint(format!("kubectl skyhook status {cr}")));
    }
    let Some(state) = skyhook.stopped() else {
        return Ok(());
    };
    let (code, end, way_out) = match state {
        "paused" => ("SKY308", "resumed", format!("kubectl skyhook resume {cr}")),
        _ => ("SKY309", "enabled", format!("kubectl skyhook enable {cr}")),
    };
    if request.force && !request.waits() {
        return Ok(());
    }
    let error =
        Error::unchanged(format!("{code}: {reference} is {state}, so no uninstall starts until it is {end}"))
            .hint(way_out);
    Err(if request.waits() {
        error
    } else {
        error.hint(format!(
            "to request the uninstall now, so that it starts when the custom resource is {end}, add --force"
        ))
    })
}

fn undeclared(skyhook: &Skyhook, name: &str, package: &Package, request: &Request) -> Result<()> {
    if package.uninstall().enabled || request.enable {
        return Ok(());
    }
    let cr = uninstall_argument(skyhook.name());
    let mut again = if request.all_packages {
        format!("kubectl skyhook uninstall {cr} --all-packages --enable")
    } else {
        format!("kubectl skyhook uninstall {cr} {name} --enable")
    };
    let flags = [(request.wait, " --wait"), (request.remove, " --remove"), (request.force, " --force")];
    for (on, flag) in flags {
        if on {
            again += flag;
        }
    }
    Err(Error::unchanged(format!(
        "the spec of {} does not enable the uninstall of {name}, so the operator would run nothing; if the package has \
         uninstall.sh and uninstall_check.sh, add --enable",
        skyhook.reference()
    ))
    .hint(again))
}

/// Refuses a request for a package that was never installed: the operator would consider it uninstalled.
fn never_installed(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    request: &Request,
) -> Result<()> {
    let cr = uninstall_argument(skyhook.name());
    let version = &package.version;
    let cancel = format!("kubectl skyhook uninstall {cr} {name} --cancel");
    let nowhere = match cluster.selected(skyhook).count() {
        0 => format!("{} selects no node", skyhook.reference()),
        _ => format!("{name} {version} is not on {}", nodes(cluster.selected(skyhook))),
    };
    if !package.uninstall().apply {
        if request.force {
            return Ok(());
        }
        return Err(Error::unchanged(format!(
            "SKY103: {nowhere}, so the operator would consider {name} uninstalled and never install it; if {name} is still to \
             be installed, wait until the installation is complete"
        ))
        .hint(format!("kubectl skyhook wait {}", skyhook.name()))
        .hint("to prevent the installation anyway, add --force"));
    }
    // The uninstall is requested already: removing the package from the spec helps, too.
    if request.remove || request.force {
        return Ok(());
    }
    match cluster.history(skyhook, name) {
        History::Never(why) => Err(Error::unchanged(format!(
            "SKY103: {nowhere}, and {name} was never installed ({why}), so there is nothing to uninstall"
        ))
        .hint(cancel)
        .hint(format!("kubectl skyhook uninstall {cr} {name} --remove"))),
        History::OnlyOther(traces) => Err(Error::unchanged(format!(
            "SKY104: {nowhere}; the version of {name} was changed from {} during the uninstall, and {version} will not be \
             installed",
            traces[0].version
        ))
        .hint(cancel)),
        History::Present(_) | History::Unknown(_) => Ok(()),
    }
}
