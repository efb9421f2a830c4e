//! Writes a capture as a `.tar.gz`: the index first, then files that are already compressed.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use jiff::Timestamp;

use super::index::{self, Index};
use super::recording::{Packed, Reel};

/// Top-level directory of the archive.
pub const DIRECTORY: &str = "skyhook-capture";
/// Block size of a tar archive in bytes; files are padded to a multiple.
const BLOCK: u64 = 512;

/// Writes the archive and returns its size in bytes.
///
/// # Errors
///
/// Fails if `out` cannot be written.
pub fn write(
    out: &mut dyn Write,
    index: &Index,
    reels: Vec<(String, Reel)>,
    logs: &BTreeMap<String, Packed>,
) -> Result<u64> {
    let text = serde_json::to_string_pretty(index).expect("an index is plain data") + "\n";
    let mut tar = Tar { out, at: index.taken_at, size: 0 };
    tar.file(index::FILE, &[&Packed::of(text.as_bytes())])?;
    for (file, reel) in reels {
        let (api, kind) = (&reel.api_version, &reel.kind);
        let head = format!("{{\"apiVersion\":\"{api}\",\"kind\":\"{kind}\",\"items\":[\n");
        let (head, comma, tail) = (Packed::of(head.as_bytes()), Packed::of(b",\n"), Packed::of(b"\n]}\n"));
        let mut parts = vec![&head];
        for (at, part) in reel.parts.iter().enumerate() {
            if at > 0 {
                parts.push(&comma);
            }
            parts.push(part);
        }
        parts.push(&tail);
        tar.file(&format!("{file}.json"), &parts)?;
    }
    for (file, log) in logs {
        tar.file(file, &[log])?;
    }
    tar.end()
}

struct Tar<'a> {
    out: &'a mut dyn Write,
    at: Timestamp,
    size: u64,
}

impl Tar<'_> {
    fn file(&mut self, name: &str, parts: &[&Packed]) -> Result<()> {
        let size = parts.iter().map(|part| part.unpacked).sum();
        let mut header = tar::Header::new_ustar();
        header.set_path(format!("{DIRECTORY}/{name}"))?;
        header.set_size(size);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(self.at.as_second()).unwrap_or_default());
        header.set_cksum();
        self.put(&Packed::of(header.as_bytes()))?;
        parts.iter().try_for_each(|part| self.put(part))?;
        let rest = usize::try_from(size.next_multiple_of(BLOCK) - size).unwrap_or_default();
        match rest {
            0 => Ok(()),
            rest => self.put(&Packed::of(&vec![0; rest])),
        }
    }

    fn put(&mut self, packed: &Packed) -> Result<()> {
        self.size += packed.bytes.len() as u64;
        self.out.write_all(&packed.bytes)
    }

    /// Writes the two empty blocks that end an archive.
    fn end(mut self) -> Result<u64> {
        self.put(&Packed::of(&[0; 2 * BLOCK as usize]))?;
        self.out.flush()?;
        Ok(self.size)
    }
}
