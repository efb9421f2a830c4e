//! When certificates expire. Pure.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The earliest end of the certificates in PEM, as a CA bundle holds them.
///
/// # Errors
///
/// What is no certificate.
pub fn first_end(bundle: &str) -> Result<Timestamp, String> {
    let blocks = pem::parse_many(bundle).map_err(|e| e.to_string())?;
    let certificates = blocks.iter().filter(|b| b.tag() == "CERTIFICATE");
    let ends: Option<Vec<Timestamp>> = certificates.map(|b| not_after(b.contents())).collect();
    let ends = ends.ok_or("a certificate in the CA bundle cannot be read")?;
    ends.into_iter()
        .min()
        .ok_or_else(|| "the CA bundle contains no certificate".to_owned())
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `validity.notAfter` of a certificate in DER: version, serial number, algorithm and issuer stand before it.
fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = inside(der, SEQUENCE)?;
    let (mut rest, _) = inside(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = value(rest)?.2;
    }
    for _ in 0..3 {
        rest = value(rest)?.2;
    }
    let (validity, _) = inside(rest, SEQUENCE)?;
    let (tag, time, _) = value(value(validity)?.2)?;
    time_of(tag, std::str::from_utf8(time).ok()?)
}

fn time_of(tag: u8, text: &str) -> Option<Timestamp> {
    let text = match tag {
        // Two digits of the year: those below 50 are of this century.
        UTC_TIME => match text.get(..2)? {
            year if year < "50" => format!("20{text}"),
            _ => format!("19{text}"),
        },
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", &text).ok()?;
    time.to_zoned(TimeZone::UTC).ok().map(|z| z.timestamp())
}

/// What a value of this tag holds, and what follows it.
fn inside(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, contents, rest) = value(der)?;
    (tag == wanted).then_some((contents, rest))
}

/// Tag, contents, and what follows.
fn value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.len() > 4 {
                return None;
            }
            let length = digits.iter().fold(0, |n, d| (n << 8) | usize::from(*d));
            (length, rest)
        }
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read() {
        let mut params =
            rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("names");
        params.not_after = rcgen::date_time_ymd(2031, 5, 17);
        let key = rcgen::KeyPair::generate().expect("a key");
        let one = params.self_signed(&key).expect("a certificate").pem();
        params.not_after = rcgen::date_time_ymd(2065, 1, 2);
        let two = params.self_signed(&key).expect("a certificate").pem();
        let end = first_end(&format!("{two}{one}")).expect("an end");
        assert_eq!(end.to_string(), "2031-05-17T00:00:00Z");
        assert_eq!(
            first_end(&two).expect("an end").to_string(),
            "2065-01-02T00:00:00Z"
        );
        assert!(first_end("").is_err());
        assert!(
            first_end("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").is_err()
        );
    }
}
