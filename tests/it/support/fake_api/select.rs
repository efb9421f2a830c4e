//! Label and field selectors, as the API server evaluates them.

use serde_json::Value;

use super::answer::Problem;
use super::kind::Kind;

/// A label or field selector of a query.
pub struct Selector(Vec<Requirement>);

struct Requirement {
    key: String,
    test: Test,
}

enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Parses a label selector: `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
    pub fn labels(text: &str) -> Result<Selector, Problem> {
        let split = split(text);
        Ok(Selector(split.iter().map(|t| label(t)).collect()))
    }

    /// Parses a field selector; refuses fields that the kind does not support in selectors.
    pub fn fields(text: &str, kind: &Kind) -> Result<Selector, Problem> {
        let mut requirements = Vec::new();
        for term in text.split(',').filter(|t| !t.is_empty()) {
            let requirement =
                equality(term).ok_or_else(|| Problem::bad_request(format!("invalid selector: '{term}'")))?;
            if !selectable(kind, &requirement.key) {
                let key = &requirement.key;
                let message = format!("field label not supported: {key}");
                return Err(Problem::bad_request(message));
            }
            requirements.push(requirement);
        }
        Ok(Selector(requirements))
    }

    pub fn matches_labels(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|r| r.holds(labels[&r.key].as_str()))
    }

    pub fn matches_fields(&self, object: &Value) -> bool {
        self.0.iter().all(|r| r.holds(Some(&field(object, &r.key))))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |values: &[String]| value.is_some_and(|v| values.iter().any(|x| x == v));
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => listed(values),
            Test::NotIn(values) => !listed(values),
        }
    }
}

/// Splits at commas that are not inside parentheses.
fn split(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match (c, depth) {
            (',', 0) => terms.push(String::new()),
            _ => terms.last_mut().expect("at least one term").push(c),
        }
    }
    terms.retain(|t| !t.trim().is_empty());
    terms
}

fn label(term: &str) -> Requirement {
    let term = term.trim();
    let set = |sign: &str| {
        let (key, values) = term.split_once(sign)?;
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        Some((key.trim().to_owned(), values))
    };
    if let Some((key, values)) = set(" notin ") {
        let test = Test::NotIn(values);
        return Requirement { key, test };
    }
    if let Some((key, values)) = set(" in ") {
        let test = Test::In(values);
        return Requirement { key, test };
    }
    equality(term).unwrap_or_else(|| match term.strip_prefix('!') {
        Some(key) => Requirement { key: key.to_owned(), test: Test::Missing },
        None => Requirement { key: term.to_owned(), test: Test::Exists },
    })
}

fn equality(term: &str) -> Option<Requirement> {
    let of = |key: &str, test| Requirement { key: key.trim().to_owned(), test };
    let list = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = term.split_once("!=") {
        return Some(of(key, Test::NotIn(list(value))));
    }
    let (key, value) = term.split_once("==").or_else(|| term.split_once('='))?;
    Some(of(key, Test::In(list(value))))
}

fn selectable(kind: &Kind, key: &str) -> bool {
    let own: &[&str] = match kind.plural.as_str() {
        "pods" => &["spec.nodeName", "spec.restartPolicy", "status.phase"],
        "nodes" => &["spec.unschedulable"],
        "events" => &["reason", "type", "source"],
        "jobs" => &["status.successful"],
        _ => &[],
    };
    key == "metadata.name"
        || (key == "metadata.namespace" && kind.namespaced)
        || own.contains(&key)
        || (kind.plural == "events" && key.starts_with("involvedObject."))
}

fn field(object: &Value, path: &str) -> String {
    let found = path.split('.').fold(object, |value, key| &value[key]);
    match (found, path) {
        (Value::String(text), _) => text.clone(),
        (Value::Null, "spec.unschedulable") => "false".to_owned(),
        (Value::Null, _) => String::new(),
        (other, _) => other.to_string(),
    }
}
