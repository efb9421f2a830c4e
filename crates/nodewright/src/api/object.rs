//! Identity of objects, and their fields that could not be decoded.

use serde_json::Value;

/// A Kubernetes object of any kind.
pub trait Object {
    /// Namespace and name; the namespace is empty for cluster-scoped objects.
    fn key(&self) -> (&str, &str);

    fn unknown_fields(&self) -> &UnknownFields;

    fn set_unknown_fields(&mut self, fields: UnknownFields);

    /// Describes the first undecodable field.
    fn undecoded(&self) -> Option<String> {
        let UnknownField { path, value } = self.unknown_fields().iter().next()?;
        Some(format!("{path} cannot be read ({value})"))
    }
}

/// Implements [`Object`] for types with the fields `metadata` and `unknown_fields`.
macro_rules! objects_with_metadata {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::api::Object for $kind {
            fn key(&self) -> (&str, &str) {
                let namespace = self.metadata.namespace.as_deref();
                (namespace.unwrap_or_default(), &self.metadata.name)
            }

            fn unknown_fields(&self) -> &$crate::api::UnknownFields {
                &self.unknown_fields
            }

            fn set_unknown_fields(&mut self, fields: $crate::api::UnknownFields) {
                self.unknown_fields = fields;
            }
        }
    )+};
}

pub(crate) use objects_with_metadata;

objects_with_metadata!(super::Skyhook, super::DeploymentPolicy);

/// Fields of an object with values that their types reject. Boxed, because hardly any object has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownFields(Option<Box<[UnknownField]>>);

impl UnknownFields {
    pub fn iter(&self) -> std::slice::Iter<'_, UnknownField> {
        self.0.as_deref().unwrap_or_default().iter()
    }
}

impl From<Vec<UnknownField>> for UnknownFields {
    fn from(fields: Vec<UnknownField>) -> UnknownFields {
        UnknownFields((!fields.is_empty()).then(|| fields.into()))
    }
}

/// A field whose value its type rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Path of the field: `status.conditions[3].lastTransitionTime`
    pub path: String,
    /// The value if it is a bool or a number; otherwise its type, because the value may be a secret.
    pub value: String,
}

impl UnknownField {
    pub fn new(path: String, value: &Value) -> UnknownField {
        let value = match value {
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null => "null".to_owned(),
            Value::String(_) => "a string".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        UnknownField { path, value }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_numbers_and_flags_are_quoted() {
        let quoted = |value: Value| UnknownField::new("spec.a".to_owned(), &value).value;
        assert_eq!(quoted(json!("hunter2")), "a string");
        assert_eq!(quoted(json!(7)), "7");
        assert_eq!(quoted(json!({"a": "hunter2"})), "an object");
    }
}
