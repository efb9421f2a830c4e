//! Streaming conversion of UTF-16 to UTF-8. PowerShell redirects output, such as kubectl's, to files in
//! UTF-16.

use std::io::{Error, ErrorKind, Read, Result};

use super::PIECE;

/// Whether a text begins with the byte order mark of UTF-16.
pub fn begins(head: &[u8]) -> bool {
    head.starts_with(&LITTLE_ENDIAN) || head.starts_with(&BIG_ENDIAN)
}

const LITTLE_ENDIAN: [u8; 2] = [0xff, 0xfe];
const BIG_ENDIAN: [u8; 2] = [0xfe, 0xff];

/// Converts text in UTF-16 to UTF-8; returns other bytes unchanged.
///
/// # Errors
///
/// Fails if the text has the byte order mark of UTF-16, but is not valid UTF-16.
pub fn to_utf8(text: Vec<u8>) -> Result<Vec<u8>> {
    if !begins(&text) {
        return Ok(text);
    }
    let mut utf8 = Vec::new();
    Utf16::new(text.as_slice(), &text).read_to_end(&mut utf8)?;
    Ok(utf8)
}

/// Reads a stream of UTF-16 as UTF-8. The byte order mark determines the byte order.
pub struct Utf16<R> {
    stream: R,
    big_endian: bool,
    /// Bytes of an incomplete character.
    rest: Vec<u8>,
    text: std::io::Cursor<String>,
}

impl<R: Read> Utf16<R> {
    pub fn new(stream: R, head: &[u8]) -> Utf16<R> {
        Utf16 {
            stream,
            big_endian: head.starts_with(&BIG_ENDIAN),
            rest: Vec::new(),
            text: std::io::Cursor::default(),
        }
    }

    /// Decodes the next piece, without an incomplete character at its end; empty at the end of the stream.
    fn piece(&mut self) -> Result<String> {
        let mut bytes = std::mem::take(&mut self.rest);
        (&mut self.stream).take(PIECE as u64).read_to_end(&mut bytes)?;
        let unit = |pair: &[u8]| {
            let pair = [pair[0], pair[1]];
            if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
        };
        let mut whole = bytes.len() - bytes.len() % 2;
        let is_high = |pair: &[u8]| (0xd800..0xdc00).contains(&unit(pair));
        if bytes.len() >= PIECE && is_high(&bytes[whole - 2..whole]) {
            whole -= 2;
        }
        self.rest = bytes.split_off(whole);
        if bytes.is_empty() && !self.rest.is_empty() {
            return Err(invalid());
        }
        let characters = char::decode_utf16(bytes.chunks_exact(2).map(unit));
        let text: std::result::Result<String, _> = characters.collect();
        text.map_err(|_| invalid())
    }
}

fn invalid() -> Error {
    Error::new(ErrorKind::InvalidData, "it is not valid UTF-16")
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.text.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        self.text = std::io::Cursor::new(self.piece()?);
        self.text.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<String> {
        let mut text = String::new();
        Utf16::new(bytes, bytes).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn both_byte_orders_and_characters_between_pieces() {
        // The byte order mark is one unit long, so that a surrogate pair lies across each even boundary.
        let text = format!("\u{feff}a{}", "😀".repeat(PIECE));
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(begins(&little) && begins(&big));
        assert_eq!(decoded(&little).expect("the text is valid UTF-16"), text);
        assert_eq!(decoded(&big).expect("the text is valid UTF-16"), text);
        let odd = format!("\u{feff}{}", "😀".repeat(PIECE));
        let odd: Vec<u8> = odd.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(decoded(&odd).is_ok());
        assert!(decoded(&odd[..odd.len() - 1]).is_err());
        assert!(decoded(&odd[..odd.len() - 2]).is_err());
    }
}
