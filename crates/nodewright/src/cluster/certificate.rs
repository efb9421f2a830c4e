//! Expiry times of certificates.

use jiff::Timestamp;
use x509_parser::pem::Pem;

use crate::api::time;

/// The expiry times of the PEM certificates of a CA bundle, in its order; at least one.
///
/// # Errors
///
/// Fails if a certificate cannot be parsed, or the bundle contains none.
pub fn ends(bundle: &str) -> Result<Vec<Timestamp>, String> {
    let blocks = Pem::iter_from_buffer(bundle.as_bytes());
    let blocks: Result<Vec<Pem>, _> = blocks.collect();
    let blocks = blocks.map_err(|e| e.to_string())?;
    let certificates = blocks.iter().filter(|b| b.label == "CERTIFICATE");
    let ends: Option<Vec<Timestamp>> = certificates.map(end).collect();
    let ends = ends.ok_or("a certificate in the CA bundle cannot be read")?;
    if ends.is_empty() {
        return Err("the CA bundle contains no certificate".to_owned());
    }
    Ok(ends)
}

fn end(block: &Pem) -> Option<Timestamp> {
    let certificate = block.parse_x509().ok()?;
    Some(time::nearest(certificate.validity().not_after.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read() {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("names");
        params.not_after = rcgen::date_time_ymd(2031, 5, 17);
        let key = rcgen::KeyPair::generate().expect("a key");
        let one = params.self_signed(&key).expect("a certificate").pem();
        params.not_after = rcgen::date_time_ymd(2065, 1, 2);
        let two = params.self_signed(&key).expect("a certificate").pem();
        let both = ends(&format!("{two}{one}")).expect("two ends");
        let both: Vec<String> = both.iter().map(Timestamp::to_string).collect();
        assert_eq!(both, ["2065-01-02T00:00:00Z", "2031-05-17T00:00:00Z"]);
        assert!(ends("").is_err());
        assert!(ends("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").is_err());
    }
}
