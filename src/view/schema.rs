//! JSON schemas of the documents.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    /// A node of the test document.
    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        /// The node.
        node_name: String,
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
                    "nodeName": {"description": "The node.", "type": "string"},
                    "since": {"type": ["string", "null"]},
                },
                "required": ["nodeName"],
            })
        );
    }
}
