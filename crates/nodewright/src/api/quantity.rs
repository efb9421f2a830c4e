//! Kubernetes quantities such as `500m`, `1.5Gi` or `2e3`, as approximate numbers for comparisons.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Suffixes of quantities with their factors.
const SUFFIXES: [(&str, f64); 16] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// Parses a JSON number or string; `None` if it is not a quantity.
pub fn parse(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => parse_text(text),
        _ => None,
    }
}

/// Deserializes a quantity as text: a string as written, null as the empty text, any other value as JSON.
///
/// # Errors
///
/// Fails only if the input is not JSON.
pub fn text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(value_text(&Value::deserialize(value)?))
}

/// Deserializes a quantity as a count: without fraction, from 0 to the greatest number that fits.
///
/// # Errors
///
/// Fails if the value is not a quantity.
pub fn count<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    let amount = parse(&Value::deserialize(value)?);
    amount.map(|amount| amount as u64).ok_or_else(|| D::Error::custom("expected a quantity"))
}

/// Text of a decoded value: a string as written, null as empty, any other value as JSON.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Parses a quantity in text form.
pub fn parse_text(text: &str) -> Option<f64> {
    let text = text.trim();
    let amount = |(suffix, factor): &(&str, f64)| {
        let number = text.strip_suffix(suffix)?;
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let number: f64 = number.parse().ok().filter(|_| plain)?;
        Some(number * factor)
    };
    SUFFIXES.iter().find_map(amount)
}

/// The amount in thousandths, such as millicores, up to the greatest number that fits; `None` if the value is
/// negative or not a quantity.
pub fn thousandths(value: &Value) -> Option<u64> {
    let amount = parse(value)? * 1000.0;
    (amount >= 0.0).then_some(amount.round() as u64)
}

/// Deserializes an amount in thousandths; `None` if the value is not a quantity.
pub fn optional_thousandths<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    Ok(thousandths(&Value::deserialize(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_is_a_count() {
        let count = |value: Value| count(value).ok();
        for (text, expected) in [
            ("8", 8),
            ("9223372036854775808", 1 << 63),
            ("1e18", 1_000_000_000_000_000_000),
            ("10E", 10_000_000_000_000_000_000),
            ("1e30", u64::MAX),
            ("500m", 0),
            ("-1", 0),
        ] {
            assert_eq!(count(Value::from(text)), Some(expected), "{text}");
        }
        assert_eq!(count(Value::from(8)), Some(8));
        assert_eq!(count(Value::from("some")), None);
        assert_eq!(thousandths(&Value::from("10E")), thousandths(&Value::from("20E")));
        assert!(thousandths(&Value::from("10E")) > thousandths(&Value::from("1Pi")));
    }

    #[test]
    fn amounts_compare_whatever_their_suffix() {
        let amount = parse_text;
        assert_eq!(amount("1Gi"), amount("1024Mi"));
        assert_eq!(amount("2e3"), amount("2k"));
        assert_eq!(amount("1E"), Some(1e18));
        assert_eq!(parse(&Value::from(2)), amount("2"));
        for odd in ["", "some", "1 Gi", "Gi", "inf", "1GiB"] {
            assert_eq!(amount(odd), None, "{odd}");
        }
        assert_eq!(thousandths(&"0.5".into()), thousandths(&"500m".into()));
    }
}
