//! Identity of objects, and their fields that could not be decoded.

use serde_json::Value;

/// A Kubernetes object of any kind.
pub trait Object {
    /// Namespace and name; the namespace is empty for cluster-scoped objects.
    fn key(&self) -> (&str, &str);

    fn unknown_fields(&self) -> &UnknownFields;

    fn set_unknown_fields(&mut self, fields: UnknownFields);

    /// Describes the first undecodable field that decisions may depend on.
    fn undecoded(&self) -> Option<String> {
        let mut fields = self.unknown_fields().iter();
        let UnknownField { path, value, .. } = fields.find(|field| !field.is_mere_time)?;
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
    /// The value if it is a bool, a number or a time; otherwise its type, because the value may be a secret.
    pub value: String,
    /// Whether the value is an out-of-range time in a field that only records a time. API servers accept such
    /// times from kubelets and controllers. They reject most other values that we reject.
    pub is_mere_time: bool,
}

impl UnknownField {
    pub fn new(path: String, value: &Value) -> UnknownField {
        let time = value.as_str().filter(|text| looks_like_time(text));
        UnknownField {
            is_mere_time: time.is_some() && is_of_mere_time(&path),
            path,
            value: match value {
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Null => "null".to_owned(),
                Value::String(_) => time.map_or_else(|| "a string".to_owned(), str::to_owned),
                Value::Array(_) => "a list".to_owned(),
                Value::Object(_) => "an object".to_owned(),
            },
        }
    }
}

/// Whether a field only records a time. `deletionTimestamp` and `startTime` mean more: that the object is
/// being deleted, or that the kubelet has accepted the pod.
fn is_of_mere_time(path: &str) -> bool {
    const FIELDS: [&str; 12] = [
        "acquireTime",
        "creationTimestamp",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "firstTimestamp",
        "lastHeartbeatTime",
        "lastObservedTime",
        "lastTimestamp",
        "lastTransitionTime",
        "renewTime",
        "time",
    ];
    let field = path.rsplit('.').next().unwrap_or_default();
    FIELDS.contains(&field) || path.starts_with("status.nodePriority")
}

/// Whether a text has the form of RFC 3339, as in `9999-12-31T23:59:59Z`.
fn looks_like_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    const LONGEST: usize = 40;
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *form,
    };
    let rest = text.bytes().skip(FORM.len());
    (FORM.len() + 1..LONGEST).contains(&text.len()) && text.bytes().zip(FORM).all(fits) && { rest }
        .all(|byte| byte.is_ascii_digit() || b".:+-Z".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_times_numbers_and_flags_are_quoted() {
        let field = |path: &str, value: Value| UnknownField::new(path.to_owned(), &value);
        let quoted = |value: Value| field("eventTime", value).value;
        let time = json!("9999-12-31T23:59:59Z");
        assert_eq!(quoted(time.clone()), "9999-12-31T23:59:59Z");
        assert_eq!(quoted(json!("hunter2")), "a string");
        assert_eq!(quoted(json!(7)), "7");
        assert_eq!(quoted(json!({"a": "hunter2"})), "an object");
        assert!(field("status.conditions[1].lastTransitionTime", time.clone()).is_mere_time);
        assert!(!field("metadata.deletionTimestamp", time).is_mere_time);
        assert!(!field("eventTime", json!(7)).is_mere_time);
        for odd in ["", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z <b>"] {
            assert!(!looks_like_time(odd), "{odd}");
        }
    }
}
