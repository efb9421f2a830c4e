//! (edge) Size limits of input files, with their reasons.
//!
//! The limits are high because captures of large clusters are large; larger input is rejected early.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use flate2::read::MultiGzDecoder;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Maximum size of a capture, or of a file in an archive, in bytes.
pub const MOST_CAPTURE: u64 = 8 * GIB;
/// Maximum number of bytes that are read of one log in a capture.
pub const MOST_LOG: u64 = 16 * MIB;
/// Maximum size of a plan in bytes: in a large cluster, it may contain every object twice.
pub const MOST_PLAN: u64 = GIB;
/// Maximum size of a kubeconfig in bytes.
pub const MOST_KUBECONFIG: u64 = 64 * MIB;
/// Maximum number of consecutive bytes of whitespace or zeros.
const MOST_BLANKS: u64 = MIB;
/// Maximum ratio of unpacked to packed size, checked after [`UNFOLDED_UNWATCHED`] unpacked bytes.
const MOST_UNFOLDED: u64 = 500;
const UNFOLDED_UNWATCHED: u64 = 64 * MIB;
/// Number of bytes that one read requests.
pub const PIECE: usize = 1 << 16;

/// An exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("it is a device, not a file")]
    Device,
    #[error("it is larger than {}", size(*.0))]
    Bytes(u64),
    #[error("it contains more than {} of whitespace or zeros", size(MOST_BLANKS))]
    Blanks,
    #[error("it expands to more than {MOST_UNFOLDED} times its size")]
    Unfolds,
}

impl From<Excess> for Error {
    fn from(excess: Excess) -> Error {
        Error::other(excess)
    }
}

/// Formats a size in the largest unit that fits, rounded down.
pub fn size(bytes: u64) -> String {
    let [kib, mib, gib] = [KIB, MIB, GIB].map(|unit| bytes / unit);
    match (gib, mib) {
        (0, 0) => format!("{kib} KiB"),
        (0, mib) => format!("{mib} MiB"),
        (gib, _) => format!("{gib} GiB"),
    }
}

/// Opens a file or a pipe.
///
/// # Errors
///
/// Fails if the file cannot be opened. On Unix, also fails for a device other than `/dev/null`: a device may be endless.
pub fn open(path: &Path) -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = std::fs::metadata(path)?.file_type();
        let is_device = kind.is_char_device() || kind.is_block_device();
        if is_device && path != Path::new("/dev/null") {
            return Err(Excess::Device.into());
        }
    }
    File::open(path)
}

/// Reads the whole stream.
///
/// # Errors
///
/// Fails if the stream cannot be read, is longer than `most` bytes, or contains too many consecutive blanks.
pub fn read(stream: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    BoundedReader::new(stream, most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A reader that fails beyond its limit; see [`read`].
pub struct BoundedReader<R> {
    inner: R,
    most: u64,
    bytes: u64,
    blanks: u64,
}

impl<R: Read> BoundedReader<R> {
    pub fn new(inner: R, most: u64) -> BoundedReader<R> {
        BoundedReader { inner, most, bytes: 0, blanks: 0 }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let blank = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        let trailing = buffer[..read].iter().rev().take_while(|b| blank(b)).count();
        self.blanks = if trailing == read { self.blanks + read as u64 } else { trailing as u64 };
        if self.blanks > MOST_BLANKS {
            return Err(Excess::Blanks.into());
        }
        if self.bytes > self.most {
            return Err(Excess::Bytes(self.most).into());
        }
        Ok(read)
    }
}

/// Decompresses gzip. Fails if the content is far larger than its packed form.
pub struct Unpacked<R> {
    packed: MultiGzDecoder<Counted<R>>,
    unpacked: u64,
}

impl<R: Read> Unpacked<R> {
    pub fn new(packed: R) -> Unpacked<R> {
        let packed = Counted { inner: packed, count: 0 };
        Unpacked { packed: MultiGzDecoder::new(packed), unpacked: 0 }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.packed.read(buffer)?;
        self.unpacked += read as u64;
        let packed = self.packed.get_ref().count;
        if self.unpacked > UNFOLDED_UNWATCHED && self.unpacked > packed * MOST_UNFOLDED {
            return Err(Excess::Unfolds.into());
        }
        Ok(read)
    }
}

/// Counts the bytes read.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

/// The decoder of a character's half, if a text begins with the byte order mark of UTF-16.
fn utf16_unit(head: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match head {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Whether a text begins with the byte order mark of UTF-16.
pub fn is_utf16(head: &[u8]) -> bool {
    utf16_unit(head).is_some()
}

/// Converts text in UTF-16 to UTF-8; returns other bytes unchanged.
///
/// # Errors
///
/// Fails if the text has the byte order mark of UTF-16, but is not valid UTF-16.
pub fn to_utf8(text: Vec<u8>) -> Result<Vec<u8>> {
    let Some(unit) = utf16_unit(&text) else {
        return Ok(text);
    };
    let (units, rest) = text.as_chunks();
    let text: Option<String> =
        char::decode_utf16(units.iter().map(|half| unit(*half))).map(|c| c.ok()).collect();
    let text = text.filter(|_| rest.is_empty()).map(String::into_bytes);
    text.ok_or_else(|| Error::new(ErrorKind::InvalidData, "it is not valid UTF-16"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that a failed read exceeded.
    fn excess(read: Result<Vec<u8>>) -> Option<Excess> {
        read.err()?.get_ref()?.downcast_ref::<Excess>().copied()
    }

    #[test]
    fn what_never_ends_is_given_up() {
        for byte in [b' ', b'\n', 0] {
            let endless = std::io::repeat(byte);
            assert_eq!(excess(read(endless, u64::MAX)), Some(Excess::Blanks), "{byte}");
        }
        let endless = std::io::repeat(b'a');
        assert_eq!(excess(read(endless, MIB)), Some(Excess::Bytes(MIB)));
        let little = [b' '; PIECE + 1];
        assert_eq!(read(little.as_slice(), MIB).map(|b| b.len()).ok(), Some(PIECE + 1));
    }

    #[test]
    fn what_unfolds_too_far_is_given_up() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let copied = std::io::copy(&mut std::io::repeat(b'a').take(80 * MIB), &mut packed);
        assert_eq!(copied.expect("writing to memory succeeds"), 80 * MIB);
        let packed = packed.finish().expect("writing to memory succeeds");
        let unpacked = read(Unpacked::new(packed.as_slice()), MOST_CAPTURE);
        assert_eq!(excess(unpacked), Some(Excess::Unfolds));
    }

    #[test]
    fn both_byte_orders_are_read() {
        let text = "\u{feff}a😀".repeat(3);
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(is_utf16(&little) && is_utf16(&big));
        assert_eq!(to_utf8(little.clone()).expect("the text is valid UTF-16"), text.as_bytes());
        assert_eq!(to_utf8(big).expect("the text is valid UTF-16"), text.as_bytes());
        for cut in [1, 2] {
            assert!(to_utf8(little[..little.len() - cut].to_vec()).is_err());
        }
    }
}
