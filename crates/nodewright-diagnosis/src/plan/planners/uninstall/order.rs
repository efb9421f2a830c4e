//! The order in which packages can be uninstalled.

use crate::api::Skyhook;

/// The packages of a spec in the order of their uninstall: dependants before their dependencies, otherwise by name.
///
/// Packages in a dependency cycle (SKY207) have no such order: the first by name is then taken.
pub fn removal_order(skyhook: &Skyhook) -> Vec<&str> {
    let mut left: Vec<&str> = skyhook.packages().map(|(name, _)| name).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let needed = |name: &str| {
            let dependants = skyhook.dependants(name);
            dependants.iter().any(|d| *d != name && left.contains(d))
        };
        let next = left.iter().position(|name| !needed(name)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(depends: serde_json::Value) -> Vec<String> {
        let packages = depends.as_object().expect("a map").iter();
        let packages: serde_json::Map<_, _> = packages
            .map(|(name, on)| {
                let on = on.as_str().unwrap_or_default().split_whitespace();
                let on: serde_json::Map<_, _> = on.map(|d| (d.to_owned(), json!("1"))).collect();
                (name.clone(), json!({"version": "1", "dependsOn": on}))
            })
            .collect();
        let skyhook: Skyhook =
            serde_json::from_value(json!({"spec": {"packages": packages}})).expect("a skyhook");
        let order = removal_order(&skyhook).into_iter();
        order.map(str::to_owned).collect()
    }

    #[test]
    fn what_others_need_goes_last() {
        let chain = json!({"base": "", "driver": "base", "tuning": "driver base", "alone": ""});
        assert_eq!(order(chain), ["alone", "tuning", "driver", "base"]);
        assert_eq!(order(json!({"b": "", "a": ""})), ["a", "b"]);
    }

    #[test]
    fn a_circle_ends_somewhere() {
        let circle = json!({"a": "b", "b": "a", "c": "a"});
        assert_eq!(order(circle), ["c", "a", "b"]);
    }
}
