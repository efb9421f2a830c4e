//! `rbac`: the permissions that commands need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use super::shared::command::{CommandInfo, command};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{Joined, View, distinct};

pub use super::shared::rights::{Right, rights, rights_to_look};

/// Print the minimal RBAC that commands require, as ClusterRoles
///
/// A manifest for `kubectl apply -f -` with exactly the permissions that the commands need, in both API
/// groups. Without --for there are two roles: kubectl-skyhook-viewer for all read-only commands, and
/// kubectl-skyhook-operator for all commands. A role has no effect until it is bound: the comment in each
/// shows how to bind it.
///
/// Commands also rely on permissions that Kubernetes grants to all authenticated users: to list the served
/// APIs, and to query their own permissions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook rbac | kubectl apply -f -
  kubectl skyhook rbac --for \"diagnose stuck\" --for reset
  kubectl skyhook rbac --for viewer -o json")]
pub struct Args {
    /// Only for this command, such as reset or "node status", or only the role viewer or operator; may be
    /// repeated
    #[arg(long = "for", value_name = "COMMAND", value_parser = PossibleValuesParser::new(CHOICES.iter()),
        hide_possible_values = true)]
    commands: Vec<String>,
}

const VIEWER: &str = "viewer";
const OPERATOR: &str = "operator";

/// The values of `--for`: commands, groups of commands and the two roles.
static CHOICES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut choices = vec![VIEWER, OPERATOR];
    choices.extend(online().map(|c| c.words));
    for (group, _) in online().filter_map(|c| c.words.split_once(' ')) {
        if !choices.contains(&group) {
            choices.push(group);
        }
    }
    choices
});

command! {
    "rbac": Args => run,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    ctx.show(&Roles(roles(args)))?;
    Ok(Exit::Done)
}

fn roles(args: &Args) -> Vec<Role> {
    if args.commands.is_empty() {
        return [VIEWER, OPERATOR].map(|name| role(&[name])).to_vec();
    }
    let words = distinct(args.commands.iter().map(String::as_str));
    vec![role(&words)]
}

fn role(words: &[&str]) -> Role {
    let chosen = online().filter(|command| words.iter().any(|word| is_meant(command, word)));
    let rights = match words {
        [VIEWER] => rights_to_look,
        _ => rights,
    };
    let is_named = |command: &CommandInfo| words.contains(&command.words);
    let slugs: Vec<String> = words.iter().map(|w| w.replace(' ', "-")).collect();
    Role {
        name: match slugs.len() {
            0..=3 => format!("kubectl-skyhook-{}", slugs.join("-")),
            _ => "kubectl-skyhook-custom".to_owned(),
        },
        rights: chosen
            .flat_map(|command| {
                let mut rights = rights(command);
                let optional = |right: &Right| {
                    let resource = (right.group.as_str(), right.resource.as_str());
                    command.optional_gets.contains(&resource)
                };
                rights.retain(|right| is_named(command) || !optional(right));
                rights
            })
            .collect::<BTreeSet<_>>(),
    }
}

/// Whether a value of `--for` includes the command.
fn is_meant(command: &CommandInfo, word: &str) -> bool {
    let in_group = |words: &str| words.split_once(' ').is_some_and(|(group, _)| group == word);
    match word {
        VIEWER => command.only_reads() || command.writes_only_with_flag,
        OPERATOR => true,
        // `uninstall` is a command; it does not include commands whose words begin with it.
        word if online().any(|c| c.words == word) => command.words == word,
        _ => in_group(command.words),
    }
}

/// The commands that talk to a cluster.
fn online() -> impl Iterator<Item = &'static CommandInfo> {
    super::all().into_iter().filter(|command| command.is_online())
}

/// The command that prints the permissions of a command.
pub fn advice(verb: &str) -> Option<String> {
    let known = online().find(|command| command.words == verb)?;
    let ours = "kubectl skyhook rbac";
    Some(if known.words.contains(' ') {
        format!("{ours} --for '{verb}'")
    } else {
        format!("{ours} --for {verb}")
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub name: String,
    pub rights: BTreeSet<Right>,
}

impl Role {
    /// The ClusterRole as JSON. Resources of one group with the same verbs share a rule.
    fn object(&self) -> Value {
        let mut verbs: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
        for right in &self.rights {
            let key = (right.group.as_str(), right.resource.as_str(), right.name);
            verbs.entry(key).or_default().push(&right.verb);
        }
        let mut rules: Vec<(Value, Vec<&str>)> = Vec::new();
        for ((group, resource, name), verbs) in verbs {
            let mut rule = json!({"apiGroups": [group], "resources": null, "verbs": verbs});
            if let Some(name) = name {
                rule["resourceNames"] = json!([name]);
            }
            match rules.iter_mut().find(|(other, _)| *other == rule) {
                Some((_, resources)) => resources.push(resource),
                None => rules.push((rule, vec![resource])),
            }
        }
        let rules = rules.into_iter().map(|(mut rule, resources)| {
            rule["resources"] = json!(resources);
            rule
        });
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": self.name},
            "rules": rules.collect::<Vec<_>>(),
        })
    }
}

/// ClusterRoles, as a manifest.
pub struct Roles(pub Vec<Role>);

impl View for Roles {
    /// YAML for `kubectl apply -f -`.
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for (at, role) in self.0.iter().enumerate() {
            if at > 0 {
                text.line("---");
            }
            text.line(format!(
                "# kubectl create clusterrolebinding {0} --clusterrole={0} --user=NAME",
                role.name
            ));
            let object = role.object();
            text.line("apiVersion: rbac.authorization.k8s.io/v1").line("kind: ClusterRole").line("metadata:");
            text.line(format!("  name: {}", role.name)).line("rules:");
            // A line for each list: a role fits on one screen.
            for rule in object["rules"].as_array().into_iter().flatten() {
                for (at, field) in ["apiGroups", "resources", "resourceNames", "verbs"].iter().enumerate() {
                    if let Some(words) = rule[field].as_array() {
                        let words = words.iter().map(Value::to_string).joined(", ");
                        let start = if at == 0 { "- " } else { "  " };
                        text.line(format!("{start}{field}: [{words}]"));
                    }
                }
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|role| format!("clusterrole.rbac.authorization.k8s.io/{}", role.name)).collect()
    }

    fn document(&self) -> Value {
        match self.0.as_slice() {
            [one] => one.object(),
            several => json!({
                "apiVersion": "v1",
                "kind": "List",
                "items": several.iter().map(Role::object).collect::<Vec<_>>(),
            }),
        }
    }
}
