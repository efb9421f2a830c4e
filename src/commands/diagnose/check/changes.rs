//! Checks the user's permissions for the changes that commands make. Pure.

use std::collections::BTreeSet;

use super::outcome::{Check, Expectation};
use crate::api::ApiFlavor;
use crate::cluster::Cluster;
use crate::commands::shared::command::{CommandInfo, Write};
use crate::commands::shared::rights::plan_of;
use crate::ctx::PermissionCheck;
use crate::plan::{Kind, Permission, Plan};
use crate::view::shell_words;
use crate::view::{list, plural};

/// Maximum number of commands that a message names.
const MAX_LISTED_COMMANDS: usize = 3;

/// A plan with every kind of change that commands make, on this cluster.
pub fn every_change(cluster: &Cluster) -> Plan {
    plan_for(cluster, Write::ALL)
}

/// A plan with these kinds of changes. Only served APIs are included, and namespaced objects only in the operator's
/// namespace, for which a role may suffice.
fn plan_for(cluster: &Cluster, writes: &[Write]) -> Plan {
    let mut plan = plan_of(writes);
    let served = &cluster.active_api.served;
    let namespaces = cluster.operator_namespaces();
    let namespace = namespaces.first().map(|&namespace| namespace.to_owned());
    for stage in &mut plan.stages {
        stage.steps.retain(|step| {
            let group = step.target.kind.resource().0;
            ApiFlavor::of_group(group).is_none_or(|flavor| served.contains(&flavor))
        });
        for step in &mut stage.steps {
            if matches!(step.target.kind, Kind::Pod | Kind::Job | Kind::ConfigMap) {
                step.target.namespace = namespace.clone();
            }
        }
    }
    plan
}

/// The check of the user's permissions for these commands, from the results of access reviews.
pub fn changes(
    cluster: &Cluster,
    commands: &[&'static CommandInfo],
    answers: Option<&PermissionCheck>,
) -> Check {
    let expected = Expectation("rights", "permission to run the commands that change the cluster");
    let Some(answers) = answers else {
        return expected.not_checked("the input is files, not a cluster");
    };
    let denied: BTreeSet<&Permission> = answers.denied.iter().collect();
    if denied.is_empty() {
        return match &answers.unknown {
            Some(why) => expected.not_checked(why),
            None => expected.good("all changes are allowed"),
        };
    }
    let lacking = |command: &&&CommandInfo| {
        let required = plan_for(cluster, command.writes).permissions();
        required.iter().any(|p| denied.contains(p))
    };
    let lacking: Vec<&str> = commands.iter().filter(lacking).map(|command| command.words).collect();
    if denied.len() == every_change(cluster).permissions().len() {
        let message = "no changes are allowed: this user can only read";
        return expected.warning(message).hint("kubectl skyhook rbac --for operator");
    }
    let missing: Vec<String> = denied.iter().map(ToString::to_string).collect();
    let (who, role) = if lacking.len() > MAX_LISTED_COMMANDS {
        (plural(lacking.len(), "command"), vec!["operator"])
    } else {
        (list(&lacking), lacking)
    };
    let mut argv = vec!["kubectl", "skyhook", "rbac"];
    argv.extend(role.into_iter().flat_map(|word| ["--for", word]));
    let message = format!("missing permission: {}, required by {who}", list(&missing));
    expected.warning(message).hint(shell_words(&argv))
}

#[cfg(test)]
mod tests {
    use super::super::outcome::CheckResult;
    use super::*;
    use crate::cluster::{ClusterBuilder, Read};

    #[test]
    fn rights_that_could_not_be_asked_are_not_called_good() {
        let cluster =
            ClusterBuilder { nodes: Read::Ok(Vec::new()), ..ClusterBuilder::default() }.of_leftovers();
        let answers = |unknown: Option<&str>| PermissionCheck {
            unknown: unknown.map(str::to_owned),
            ..PermissionCheck::default()
        };
        let outcome = |answers: Option<&PermissionCheck>| changes(&cluster, &[], answers).outcome;
        assert_eq!(outcome(Some(&answers(None))), CheckResult::Good);
        assert_eq!(outcome(Some(&answers(Some("no server")))), CheckResult::NotChecked);
        assert_eq!(outcome(None), CheckResult::NotChecked);
    }
}
