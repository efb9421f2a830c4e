//! JSON schemas of the documents.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::API_VERSION;

/// A document with a published schema.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// The `kind` of the document.
    pub kind: &'static str,
    schema: fn(&str) -> Value,
}

impl Published {
    /// A document serialized from `T` with this `kind`: `Published::of::<Diagnosis>("Diagnosis")`.
    pub const fn of<T: JsonSchema>(kind: &'static str) -> Published {
        Published { kind, schema: document::<T> }
    }

    /// A file of this type, which has no `apiVersion` and `kind`.
    pub const fn file<T: JsonSchema>(kind: &'static str) -> Published {
        Published { kind, schema: schema::<T> }
    }

    /// The schema in JSON Schema 2020-12.
    pub fn schema(&self) -> Value {
        (self.schema)(self.kind)
    }
}

/// The schema of the serialized form, in which fields with defaults are always present.
fn schema<T: JsonSchema>(kind: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), kind.into());
    schema.into()
}

/// Schema of a top-level document: [`schema`] plus `apiVersion` and `kind`.
fn document<T: JsonSchema>(kind: &str) -> Value {
    let mut schema = schema::<T>(kind);
    let begin = [
        ("apiVersion", "The version of this format.", API_VERSION),
        ("kind", "The name of this document.", kind),
    ];
    let begin = begin
        .map(|(name, what, value)| (name, json!({"description": what, "type": "string", "const": value})));
    let names = begin.iter().map(|(name, _)| Value::from(*name));
    schema["required"] = names.chain(schema["required"].as_array().into_iter().flatten().cloned()).collect();
    let own = schema["properties"].as_object().cloned().unwrap_or_default();
    let begin = begin.into_iter().map(|(name, field)| (name.to_owned(), field));
    schema["properties"] = begin.chain(own).collect::<Map<_, _>>().into();
    schema
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    /// A node of the test document.
    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        /// The node.
        node: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    }

    #[test]
    fn publishes_the_shape_of_a_document() {
        const STATUS: Published = Published::of::<Status>("NodeStatus");
        assert_eq!(
            STATUS.schema(),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "NodeStatus",
                "description": "A node of the test document.",
                "type": "object",
                "properties": {
                    "apiVersion": {
                        "description": "The version of this format.", "type": "string", "const": "kubectl-skyhook/v1",
                    },
                    "kind": {"description": "The name of this document.", "type": "string", "const": "NodeStatus"},
                    "node": {"description": "The node.", "type": "string"},
                    "since": {"type": ["string", "null"]},
                },
                "required": ["apiVersion", "kind", "node"],
            })
        );
    }
}
