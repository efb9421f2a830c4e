//! JSON in which null is as good as absent, as Go reads it.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes a value, without its nulls where it does not decode as it is; says what is wrong with it if that fails, too.
///
/// It goes through text, so that every type is compiled for one reader of JSON alone.
pub fn decode<T: DeserializeOwned>(mut value: Value) -> Result<T, String> {
    let plain = |value: &Value| {
        let text = serde_json::to_vec(value).expect("a value is JSON");
        serde_json::from_slice(&text)
    };
    plain(&value)
        .or_else(|_| {
            drop_nulls(&mut value);
            plain(&value)
        })
        .map_err(|e| without_place(&e))
}

/// The message of an error without its place in the text.
pub fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(message) => message.to_owned(),
        None => message,
    }
}

/// Takes out every member and every item that is null.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => {
            items.retain(|v| !v.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decode;
    use crate::cluster::Pod;

    #[test]
    fn null_metadata_of_a_pod_counts_as_absent() {
        let pod = |value| format!("{:?}", decode::<Pod>(value).expect("a pod"));
        let null = pod(json!({"metadata": null, "spec": {}}));
        assert_eq!(null, pod(json!({"spec": {}})));
    }

    #[test]
    fn metadata_of_another_type_is_refused() {
        let refused = decode::<Pod>(json!({"metadata": "pod"})).expect_err("it is a text");
        assert_eq!(refused, "invalid type: string \"pod\", expected a map");
    }
}
