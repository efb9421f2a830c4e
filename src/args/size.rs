//! Sizes as values of flags.

use crate::api::quantity;

/// Parses a number of bytes in the notation of Kubernetes quantities: `100Mi`, `1Gi`, `500k`.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::parse_text(text);
    let bytes = bytes.filter(|bytes| (1.0..1e15).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(|| "expected a size such as 100Mi or 1Gi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("100Mi"), Ok(104_857_600));
        assert_eq!(size("1G"), Ok(1_000_000_000));
        for wrong in ["", "0", "-1", "some", "1e30", "100 Mi"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
