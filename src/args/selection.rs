//! Which custom resource, and which of its nodes.

use crate::api::LabelSelector;
use crate::api::selector::Requirement;

/// The custom resource that a package belongs to.
#[derive(Debug, Clone, clap::Args)]
pub struct OfSkyhook {
    /// The custom resource
    #[arg(
        long,
        value_name = "NAME",
        alias = "nodewright",
        required = true,
        overrides_with = "skyhook"
    )]
    pub skyhook: String,
}

/// Which nodes to look at; all, if none is named.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnNodes {
    /// Only this node, or those whose whole name matches the regular expression; may be repeated
    #[arg(long = "node", value_name = "NODE")]
    pub nodes: Vec<String>,

    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector, overrides_with = "selector")]
    pub selector: Option<LabelSelector>,
}

/// Which nodes a change is for. Nothing means all that carry keys of the custom resource.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Node options")]
pub struct Selection {
    /// Only this node; may be repeated
    #[arg(long, value_name = "NODE", action = clap::ArgAction::Append)]
    pub node: Vec<String>,

    /// Only nodes whose whole name matches the regular expression
    #[arg(long = "match", value_name = "REGEX", value_parser = pattern, overrides_with = "pattern")]
    pub pattern: Option<Pattern>,

    /// Only nodes with these labels
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR", value_parser = selector,
        overrides_with = "selector")]
    pub selector: Option<LabelSelector>,

    /// Only nodes where something fails
    #[arg(long)]
    pub failed_only: bool,
}

/// A regular expression over a whole name.
#[derive(Debug, Clone)]
pub struct Pattern(pub regex::Regex);

impl Selection {
    /// Whether it leaves the choice to the command.
    pub fn is_everything(&self) -> bool {
        self.node.is_empty()
            && self.pattern.is_none()
            && self.selector.is_none()
            && !self.failed_only
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    regex::Regex::new(&format!("^(?:{text})$"))
        .map(Pattern)
        .map_err(|e| e.to_string())
}

/// A label selector as kubectl takes it: `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    let mut requirements = Vec::new();
    for term in terms(text) {
        requirements.push(requirement(term).ok_or_else(|| {
            format!("cannot read {term:?}; expected a=b, a!=b, 'a in (b,c)', a or !a")
        })?);
    }
    if requirements.is_empty() {
        return Err("expected labels such as a=b".to_owned());
    }
    Ok(LabelSelector {
        match_expressions: requirements,
        ..LabelSelector::default()
    })
}

/// The parts between commas that are not inside parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let split = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    split.map(str::trim).filter(|t| !t.is_empty()).collect()
}

fn requirement(term: &str) -> Option<Requirement> {
    let of = |key: &str, operator: &str, values: Vec<String>| {
        let key = key.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!key.is_empty() && key.chars().all(plain)).then(|| Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values,
        })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    let set = |word: &str, operator: &str| {
        let (key, values) = term.split_once(word)?;
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        of(key, operator, values)
    };
    if let Some(found) = set(" notin ", "NotIn").or_else(|| set(" in ", "In")) {
        return Some(found);
    }
    if let Some((key, value)) = term.split_once("!=") {
        return of(key, "NotIn", one(value));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return of(key, "In", one(value));
    }
    match term.strip_prefix('!') {
        Some(key) => of(key, "DoesNotExist", Vec::new()),
        None => of(term, "Exists", Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(text: &str) -> Vec<&'static str> {
        let selector = selector(text).expect("a selector");
        let nodes = [
            ("a", vec![("pool", "gpu"), ("zone", "1")]),
            ("b", vec![("pool", "cpu")]),
            ("c", vec![("zone", "2")]),
        ];
        let nodes = nodes.into_iter().map(|(name, labels)| {
            let labels = labels.into_iter().map(|(k, v)| (k.into(), v.into()));
            (name, labels.collect())
        });
        nodes
            .filter(|(_, labels)| selector.matches(labels))
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn reads_what_kubectl_reads() {
        for (text, picked) in [
            ("pool=gpu", vec!["a"]),
            ("pool==gpu", vec!["a"]),
            ("pool!=gpu", vec!["b", "c"]),
            ("pool in (gpu, cpu)", vec!["a", "b"]),
            ("pool notin (gpu,cpu)", vec!["c"]),
            ("pool in (gpu,cpu),zone", vec!["a"]),
            ("!zone", vec!["b"]),
            ("zone,", vec!["a", "c"]),
        ] {
            assert_eq!(picks(text), picked, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_selector() {
        for text in ["", ",", "=gpu", "a in gpu", "a b", "!"] {
            assert!(selector(text).is_err(), "{text}");
        }
    }
}
