//! Structural validation of manifests against CRD schemas, as in the API server.
//!
//! `crd/` contains the schemas of `spec`, without descriptions: `skyhook.json` and `deploymentpolicy.json` of
//! operator v0.17, which an end-to-end test compares with the operator's own files, and `nodewright.json` of
//! the chart of v0.20.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::manifest::{Manifest, Violation, path_text};
use crate::api::{ApiFlavor, Version};
use crate::cluster::installation::Definition;
use crate::error::near;

static SKYHOOK: LazyLock<Value> = LazyLock::new(|| embedded(include_str!("crd/skyhook.json")));
static POLICY: LazyLock<Value> =
    LazyLock::new(|| object(embedded(include_str!("crd/deploymentpolicy.json")), None));
static OLDER: LazyLock<Value> = LazyLock::new(|| object(SKYHOOK.clone(), Some(status())));
static NEWER: LazyLock<Value> = LazyLock::new(|| {
    let spec = embedded(include_str!("crd/nodewright.json"));
    object(spec, Some(status()))
});

fn embedded(text: &str) -> Value {
    serde_json::from_str(text).expect("an embedded schema")
}

fn status() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a whole object: the given spec and status, and the metadata that every API server validates.
fn object(spec: Value, status: Option<Value>) -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let mut object = json!({"type": "object", "properties": {
        "apiVersion": text, "kind": text, "spec": spec,
        "metadata": {"type": "object", "properties": {
            "name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
            "finalizers": {"type": "array", "items": text}, "ownerReferences": any, "managedFields": any,
            "creationTimestamp": any, "deletionTimestamp": any, "deletionGracePeriodSeconds": any,
            "generation": any, "resourceVersion": text, "selfLink": text, "uid": text,
        }},
    }});
    if let Some(status) = status {
        object["properties"]["status"] = status;
    }
    object
}

/// Schemas of the cluster's CustomResourceDefinitions, by API and kind.
#[derive(Debug, Default)]
pub struct Schemas(Vec<(ApiFlavor, &'static str, Value)>);

impl Schemas {
    /// Collects the schemas of served versions. Kinds without a served version use the embedded schema.
    pub fn of(definitions: &[Definition]) -> Schemas {
        let mut schemas = Schemas::default();
        for flavor in ApiFlavor::ALL {
            let names = Definition::names(flavor);
            for (name, kind) in names.iter().zip([flavor.kind(), "DeploymentPolicy"]) {
                let definition = definitions.iter().find(|d| d.metadata.name == *name);
                let root = definition
                    .into_iter()
                    .flat_map(|d| &d.spec.versions)
                    .filter(|v| v.served && v.name == ApiFlavor::VERSION)
                    .find_map(|v| v.schema.pointer("/openAPIV3Schema/properties"));
                if let Some(properties) = root.filter(|root| root["spec"].is_object()) {
                    let status = properties.get("status").map(|_| status());
                    let schema = object(properties["spec"].clone(), status);
                    schemas.0.push((flavor, kind, schema));
                }
            }
        }
        schemas
    }

    /// Warnings about the kinds of the manifests whose schemas contain CEL rules: these rules are not
    /// evaluated.
    pub fn unchecked<'m>(&self, manifests: impl Iterator<Item = &'m Manifest> + Clone) -> Vec<String> {
        let is_given = |flavor, kind| manifests.clone().any(|m| m.flavor() == Some(flavor) && m.kind == kind);
        self.0
            .iter()
            .filter(|(flavor, kind, _)| is_given(*flavor, *kind))
            .filter(|(.., schema)| schema.to_string().contains("\"x-kubernetes-validations\":"))
            .map(|(_, kind, _)| {
                format!("the CRD of {kind} has validation rules in CEL, which lint does not check")
            })
            .collect()
    }

    /// The schema of a kind: the cluster's, else the embedded one.
    fn schema(&self, flavor: ApiFlavor, kind: &str) -> Option<&Value> {
        if let Some((.., schema)) = self.0.iter().find(|(f, k, _)| *f == flavor && *k == kind) {
            return Some(schema);
        }
        match kind {
            "DeploymentPolicy" => Some(&POLICY),
            kind if kind == flavor.kind() && flavor == ApiFlavor::Skyhook => Some(&OLDER),
            kind if kind == flavor.kind() => Some(&NEWER),
            _ => None,
        }
    }
}

/// All schema violations of a manifest; empty for kinds without a schema.
pub fn violations(manifest: &Manifest, schemas: &Schemas) -> Vec<Violation> {
    let schema = manifest.flavor().and_then(|flavor| schemas.schema(flavor, &manifest.kind));
    let Some(schema) = schema else {
        return Vec::new();
    };
    let mut walk = Walk { root: schema, path: Vec::new(), found: Vec::new() };
    walk.value(schema, &manifest.value);
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    path: Vec<String>,
    found: Vec<Violation>,
}

impl Walk<'_> {
    fn add(&mut self, message: String, fix: Option<String>) {
        self.found.push(Violation { path: self.path.clone(), missing: false, message, fix });
    }

    fn below(&mut self, key: &str, schema: &Value, value: &Value) {
        self.path.push(key.to_owned());
        self.value(schema, value);
        self.path.pop();
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        if schema["x-kubernetes-int-or-string"] == true {
            if !(value.is_string() || is_integer(value)) {
                self.wrong_type("an integer or a string", value);
            } else {
                self.limits(schema, value);
            }
            return;
        }
        let expected = match schema["type"].as_str() {
            Some("string") if !value.is_string() => "a string",
            Some("boolean") if !value.is_boolean() => "true or false",
            Some("integer") if !is_integer(value) => "an integer",
            Some("number") if !value.is_number() => "a number",
            Some("object") if !value.is_object() => "a mapping",
            Some("array") if !value.is_array() => "a list",
            _ => {
                self.limits(schema, value);
                match value {
                    Value::Object(_) => self.members(schema, value),
                    Value::Array(items) if schema["items"].is_object() => {
                        for (index, item) in items.iter().enumerate() {
                            self.below(&index.to_string(), &schema["items"], item);
                        }
                    }
                    _ => {}
                }
                return;
            }
        };
        self.wrong_type(expected, value);
    }

    fn wrong_type(&mut self, expected: &str, value: &Value) {
        let field = path_text(&self.path);
        let found = match value {
            Value::Null => "empty".to_owned(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::String(text) if text.len() <= 60 => format!("{text:?}"),
            Value::String(_) => "a string".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "a mapping".to_owned(),
        };
        let quoted = expected == "a string" && (value.is_number() || value.is_boolean());
        let fix = quoted.then(|| "Quote the value".to_owned());
        let message = format!("{field} must be {expected}, but is {found}");
        self.add(message, fix);
    }

    fn members(&mut self, schema: &Value, value: &Value) {
        let members = value.as_object().into_iter().flatten();
        let properties = &schema["properties"];
        let any = &schema["additionalProperties"];
        // The API server drops nulls where the schema does not allow them.
        let given = |schema: &Value, value: &Value| !value.is_null() || schema["nullable"] == true;
        for (key, value) in members {
            match properties.get(key) {
                Some(schema) if value.is_null() && schema["nullable"] == true => {}
                Some(schema) if given(schema, value) => self.below(key, schema, value),
                Some(_) => {}
                None if any.is_object() && given(any, value) => self.below(key, any, value),
                None if any.is_object() || any == true => {}
                None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                None => self.unknown_field(key, properties),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        for key in required.filter_map(Value::as_str) {
            let has_default = !properties[key]["default"].is_null();
            if !has_default && value[key].is_null() {
                self.path.push(key.to_owned());
                let message = format!("{} is required", path_text(&self.path));
                self.found.push(Violation { path: self.path.clone(), missing: true, message, fix: None });
                self.path.pop();
            }
        }
    }

    fn unknown_field(&mut self, key: &str, properties: &Value) {
        let known = properties.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let fix = match place_of(self.root, key) {
            Some(place) => Some(format!("Move it: the field belongs in {place}")),
            None => near(key, known).first().map(|name| format!("Did you mean {name}?")),
        };
        self.path.push(key.to_owned());
        let message = format!("unknown field {}", path_text(&self.path));
        self.add(message, fix);
        self.path.pop();
    }

    fn limits(&mut self, schema: &Value, value: &Value) {
        let length = value.as_str().map(|text| text.chars().count());
        let limit = |name: &str| schema[name].as_f64();
        let number = value.as_f64();
        let mut wrong = None;
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
            let value = value.as_str().unwrap_or_default();
            let fix = near(value, words.iter().copied()).first().map(|word| format!("Did you mean {word}?"));
            let field = path_text(&self.path);
            let message = format!("{field} must be one of {}, but is {value:?}", words.join(", "));
            self.add(message, fix);
        }
        if let (Some(number), Some(minimum)) = (number, limit("minimum"))
            && number < minimum
        {
            wrong = Some(format!("must be at least {minimum}, but is {number}"));
        }
        if let (Some(number), Some(maximum)) = (number, limit("maximum"))
            && number > maximum
        {
            wrong = Some(format!("must be at most {maximum}, but is {number}"));
        }
        if let (Some(length), Some(least)) = (length, schema["minLength"].as_u64())
            && (length as u64) < least
        {
            wrong = Some("must not be empty".to_owned());
        }
        if let (Some(length), Some(most)) = (length, schema["maxLength"].as_u64())
            && length as u64 > most
        {
            wrong = Some(format!("has {length} characters; at most {most} are allowed"));
        }
        if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
            && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
        {
            wrong = Some(match pattern {
                pattern if pattern.starts_with(r"^(\+|-)?") => {
                    format!("must be a quantity such as 500m or 256Mi, but is {text:?}")
                }
                pattern => format!("must match {pattern}, but is {text:?}"),
            });
        }
        if let Some(wrong) = wrong {
            self.add(format!("{} {wrong}", path_text(&self.path)), None);
        }
    }
}

/// Whether a value is an integer of 64 bits.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// The mapping to which a field belongs, such as `spec` or `spec.packages.NAME`; `None` unless exactly one
/// mapping has the field.
fn place_of(root: &Value, key: &str) -> Option<String> {
    let spec = &root["properties"]["spec"]["properties"];
    let places = [
        ("spec", spec),
        ("spec.packages.NAME", &spec["packages"]["additionalProperties"]["properties"]),
        ("spec.compartments[]", &spec["compartments"]["items"]["properties"]),
        ("metadata", &root["properties"]["metadata"]["properties"]),
    ];
    let mut known = places.into_iter().filter(|(_, properties)| properties.get(key).is_some());
    let (place, _) = known.next()?;
    known.next().is_none().then(|| place.to_owned())
}

/// The paths of the fields of a custom resource that this version of the operator does not know, each with the major and
/// minor number of the first version that knows it.
pub fn newer_fields<'o>(object: &'o Value, operator: &Version) -> Vec<(Vec<&'o str>, (u64, u64))> {
    let packages = object["spec"]["packages"].as_object().into_iter().flatten();
    let uninstalls =
        packages.map(|(name, _)| (vec!["spec", "packages", name.as_str(), "uninstall"], (0, 16)));
    let cordon = (vec!["spec", "runtimeRequiredCordonAfter"], (0, 19));
    let newer = uninstalls.chain([cordon]).filter(|(path, (major, minor))| {
        let value = path.iter().try_fold(object, |value, key| value.get(*key));
        value.is_some() && !operator.at_least(*major, *minor)
    });
    newer.collect()
}

/// Paths of all keys and string values in spec, labels and annotations that equal the older API group or
/// start with `GROUP/`.
pub fn legacy_keys(object: &Value) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let parts = [vec!["metadata", "labels"], vec!["metadata", "annotations"], vec!["spec"]];
    for part in parts {
        let value = part.iter().fold(object, |value, key| &value[*key]);
        let path: Vec<String> = part.into_iter().map(str::to_owned).collect();
        collect(value, &path, &mut found);
    }
    found
}

fn collect(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let below = |key: String| [path, &[key]].concat();
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = below(key.clone());
                if names_group(key) {
                    found.push(path);
                } else {
                    collect(value, &path, found);
                }
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                collect(value, &below(at.to_string()), found);
            }
        }
        Value::String(text) if names_group(text) => found.push(path.to_owned()),
        _ => {}
    }
}

/// Whether a text is the older API group, or a key in this group.
fn names_group(text: &str) -> bool {
    let rest = text.strip_prefix(ApiFlavor::Skyhook.group());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
