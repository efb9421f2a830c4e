//! ClusterRoles with the permissions of commands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::commands::shared::rights::Right;
use crate::view::format::yaml;
use crate::view::text::Text;
use crate::view::{View, sanitize};

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
            let manifest = yaml(&role.object()).unwrap_or_default();
            for line in manifest.lines() {
                text.line(sanitize(line).as_ref());
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let roles = self.0.iter();
        roles.map(|role| format!("clusterrole.rbac.authorization.k8s.io/{}", role.name)).collect()
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
