//! Label selectors, as Kubernetes evaluates them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::labels::Labelled;

/// A `metav1.LabelSelector`. Empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether the labels satisfy every requirement.
    ///
    /// A requirement with an unknown operator matches nothing, because such a selector is invalid.
    pub fn matches(&self, labels: &impl Labelled) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.value(key) == Some(value.as_str()))
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }

    /// The requirements that the labels do not satisfy: the key, and the change that satisfies it as an argument of
    /// `kubectl label`.
    pub fn unmet(&self, labels: &impl Labelled) -> Vec<(&str, String)> {
        let exact = self.match_labels.iter().filter(|(key, value)| labels.value(key) != Some(value.as_str()));
        let exact = exact.map(|(key, value)| (key.as_str(), format!("{key}={value}")));
        let others = self.match_expressions.iter().filter(|requirement| !requirement.matches(labels));
        let others = others.map(|Requirement { key, operator, values }| {
            let change = match operator.as_str() {
                "In" => format!("{key}={}", values.first().map_or("", String::as_str)),
                "Exists" => format!("{key}="),
                _ => format!("{key}-"),
            };
            (key.as_str(), change)
        });
        exact.chain(others).collect()
    }
}

impl Requirement {
    fn matches(&self, labels: &impl Labelled) -> bool {
        let value = labels.value(&self.key);
        let listed = value.is_some_and(|v| self.values.iter().any(|listed| listed == v));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // Only in selectors from the command line, where kubectl accepts `Gt` and `Lt`.
            "Gt" => self.compares(value, i64::gt),
            "Lt" => self.compares(value, i64::lt),
            _ => false,
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(&i64, &i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first();
        let sides = value.and_then(number).zip(bound.and_then(|bound| number(bound)));
        sides.is_some_and(|(value, bound)| holds(&value, &bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn requirement(operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: vec![Requirement {
                key: "pool".into(),
                operator: operator.into(),
                values: values.iter().map(|v| (*v).into()).collect(),
            }],
            ..LabelSelector::default()
        }
    }

    #[test]
    fn empty_selects_everything() {
        assert!(LabelSelector::default().matches(&labels(&[])));
    }

    #[test]
    fn follows_the_four_operators() {
        let gpu = labels(&[("pool", "gpu")]);
        let none = labels(&[]);
        for (operator, values, on_gpu, on_none) in [
            ("In", vec!["gpu", "cpu"], true, false),
            ("NotIn", vec!["gpu"], false, true),
            ("Exists", vec![], true, false),
            ("DoesNotExist", vec![], false, true),
            ("Near", vec![], false, false),
        ] {
            let selector = requirement(operator, &values);
            assert_eq!(selector.matches(&gpu), on_gpu, "{operator} on gpu");
            assert_eq!(selector.matches(&none), on_none, "{operator} on none");
            assert_eq!(selector.unmet(&gpu).is_empty(), on_gpu, "{operator} on gpu");
        }
    }
}
