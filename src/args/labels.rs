//! Label selectors as kubectl reads them: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::api::LabelSelector;
use crate::api::labels::Requirement;

/// One requirement, up to the comma after it or the end of the text.
static REQUIREMENT: LazyLock<Regex> = LazyLock::new(|| {
    let word = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
    let domain = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*";
    let key = format!("(?:{domain}/)?{word}");
    let one = format!(r"(?<equality>==?|!=)\s*(?<value>(?:{word})?)");
    let order = r"(?<order>[<>])\s*(?<number>[0-9]{1,18})";
    let several = format!(r"(?<set>in|notin)\s*\((?<values>\s*(?:{word})?\s*(?:,\s*(?:{word})?\s*)*)\)");
    let present = format!(r"(?<key>{key})(?:\s*{one}|\s*{order}|\s+{several})?");
    let pattern = format!(r"^\s*(?:!\s*(?<absent>{key})|{present})\s*(?:,|$)");
    Regex::new(&pattern).expect("the pattern is valid")
});

/// Parses a selector.
///
/// # Errors
///
/// The text is no selector; the error has the part that is not valid. An empty selector is refused, because it would
/// match everything, for example with `-l "$UNSET"`.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    let mut requirements = Vec::new();
    let mut rest = text;
    loop {
        let Some(found) = REQUIREMENT.captures(rest) else {
            return Err(format!(
                "expected labels such as a=b, a!=b, 'a in (b,c)', 'a notin (b)', a, '!a', 'a>1' or 'a<1', separated by \
                 commas; found {rest:?}"
            ));
        };
        requirements.push(requirement(&found));
        rest = &rest[found[0].len()..];
        if !found[0].ends_with(',') {
            return Ok(LabelSelector { match_expressions: requirements, ..LabelSelector::default() });
        }
    }
}

fn requirement(found: &Captures<'_>) -> Requirement {
    let part = |name: &str| found.name(name).map(|part| part.as_str());
    let values = ["value", "number", "values"].into_iter().find_map(part);
    let operator = match ["equality", "order", "set"].into_iter().find_map(part) {
        None if part("absent").is_some() => "DoesNotExist",
        None => "Exists",
        Some("=" | "==" | "in") => "In",
        Some(">") => "Gt",
        Some("<") => "Lt",
        Some(_) => "NotIn",
    };
    Requirement {
        key: part("absent").or(part("key")).unwrap_or_default().to_owned(),
        operator: operator.to_owned(),
        values: values.into_iter().flat_map(|all| all.split(',')).map(|one| one.trim().to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Labels, Name};

    fn picks(text: &str) -> Vec<&'static str> {
        let selector = selector(text).expect(text);
        let nodes = [
            ("a", vec![("pool", "gpu"), ("zone", "1")]),
            ("b", vec![("pool", "cpu"), ("example.com/in", "")]),
            ("c", vec![("zone", "12")]),
        ];
        let nodes = nodes.into_iter().map(|(name, labels)| {
            let labels = labels.into_iter().map(|(k, v)| (Name::from(k), Name::from(v)));
            (name, labels.collect::<Labels>())
        });
        nodes.filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name).collect()
    }

    #[test]
    fn reads_what_kubectl_reads() {
        for (text, picked) in [
            ("pool=gpu", vec!["a"]),
            ("pool==gpu", vec!["a"]),
            (" pool = gpu ", vec!["a"]),
            ("pool!=gpu", vec!["b", "c"]),
            ("pool in (gpu, cpu)", vec!["a", "b"]),
            ("pool in(gpu)", vec!["a"]),
            ("pool notin (gpu,cpu)", vec!["c"]),
            ("pool in (gpu,cpu),zone", vec!["a"]),
            ("!zone", vec!["b"]),
            ("! zone", vec!["b"]),
            ("zone>1", vec!["c"]),
            ("zone > 0", vec!["a", "c"]),
            ("zone<12", vec!["a"]),
            ("pool>1", vec![]),
            ("example.com/in", vec!["b"]),
            ("example.com/in=", vec!["b"]),
            ("example.com/in in ()", vec!["b"]),
            ("pool in (gpu,)", vec!["a"]),
        ] {
            assert_eq!(picks(text), picked, "{text}");
        }
    }

    #[test]
    fn refuses_what_kubectl_refuses() {
        let long = "x".repeat(64);
        for text in [
            "",
            ",",
            "=gpu",
            "a in gpu",
            "a b",
            "!",
            "zone,",
            ",zone",
            "a,,b",
            "a===1",
            "a=b=c",
            "a>b",
            "a>",
            "a>1.5",
            "!a=b",
            "a in (b",
            "a in b)",
            "a=b c",
            "a=-b",
            "a=b.",
            "a=b/c",
            "-a",
            "a/b/c",
            "/a",
            "a/",
            "A.b/c",
            "a=é",
            &format!("a={long}"),
            &long,
            &format!("{}/a", "x.".repeat(127)),
        ] {
            assert!(selector(text).is_err(), "{text}");
        }
    }
}
