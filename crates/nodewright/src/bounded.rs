//! (edge) Size limits of input files, with their reasons.
//!
//! The limits are high because captures of large clusters are large; larger input is rejected early.

use std::fs::File;
use std::io::{Chain, Cursor, Error, ErrorKind, Read, Result};
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
    #[error("it is a pipe, and no process writes to it")]
    NoWriter,
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
/// Fails if the file cannot be opened. On Unix, also fails for a device other than `/dev/null` (a device may
/// be endless), and for a named pipe that gets no writer within five seconds.
pub fn open(path: &Path) -> Result<Input> {
    #[cfg(unix)]
    {
        unix::open(path)
    }
    #[cfg(not(unix))]
    {
        Ok(Cursor::new(Vec::new()).chain(File::open(path)?))
    }
}

/// An open file, preceded by the bytes that were read to detect the writer of a pipe.
pub type Input = Chain<Cursor<Vec<u8>>, File>;

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io::{Cursor, ErrorKind, Read, Result};
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use rustix::fs::OFlags;

    use super::{Excess, Input};

    /// Maximum wait for a writer of a named pipe: usually reader and writer start at about the same time.
    const NO_WRITER: Duration = Duration::from_secs(5);
    /// Interval between two checks for a writer.
    const AGAIN: Duration = Duration::from_millis(20);

    pub fn open(path: &Path) -> Result<Input> {
        let kind = std::fs::metadata(path)?.file_type();
        let is_device = kind.is_char_device() || kind.is_block_device();
        if is_device && path != Path::new("/dev/null") {
            return Err(Excess::Device.into());
        }
        // Without this flag, opening a named pipe blocks until it has a writer, and reading files such as
        // /proc/kmsg blocks until there is text.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut file = file?;
        let mut begin = Vec::new();
        if kind.is_fifo() {
            // The pipe of `<(…)` has a writer from its creation.
            let is_inherited = ["/dev", "/proc"].iter().any(|at| path.starts_with(at));
            let patience = if is_inherited { Duration::ZERO } else { NO_WRITER };
            begin = first_byte(&mut file, patience)?;
            rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        }
        Ok(Cursor::new(begin).chain(file))
    }

    #[expect(clippy::disallowed_methods, reason = "a pipe does not tell when its first writer opens it")]
    fn wait(time: Duration) {
        std::thread::sleep(time);
    }

    /// Returns the first byte of a pipe, or nothing if there is a writer but no byte yet. Waits up to
    /// `patience` for a writer. With zero patience, a pipe without a writer counts as empty.
    fn first_byte(pipe: &mut File, patience: Duration) -> Result<Vec<u8>> {
        let since = Instant::now();
        let mut byte = [0];
        loop {
            match pipe.read(&mut byte) {
                // No process has the pipe open for writing.
                Ok(0) if patience.is_zero() => return Ok(Vec::new()),
                Ok(0) if since.elapsed() >= patience => return Err(Excess::NoWriter.into()),
                Ok(0) => wait(AGAIN),
                Ok(read) => return Ok(byte[..read].to_vec()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
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
    text: Cursor<String>,
}

impl<R: Read> Utf16<R> {
    pub fn new(stream: R, head: &[u8]) -> Utf16<R> {
        Utf16 { stream, big_endian: head.starts_with(&BIG_ENDIAN), rest: Vec::new(), text: Cursor::default() }
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
        self.text = Cursor::new(self.piece()?);
        self.text.read(buffer)
    }
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
