//! A stream whose lines begin with a prefix.

use std::io::{Result, Write};

/// Writes whole lines to `inner`, each after the prefix. An unfinished line is written on drop.
pub struct Prefixed<W: Write> {
    prefix: String,
    line: Vec<u8>,
    inner: W,
}

impl<W: Write> Prefixed<W> {
    pub fn new(prefix: &str, inner: W) -> Prefixed<W> {
        Prefixed { prefix: prefix.to_owned(), line: Vec::new(), inner }
    }

    fn pass_on(&mut self) -> Result<()> {
        let line = [self.prefix.as_bytes(), &std::mem::take(&mut self.line)].concat();
        self.inner.write_all(&line)
    }
}

impl<W: Write> Write for Prefixed<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.pass_on()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Prefixed<W> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            // Ignore write errors: they cannot be reported.
            let _ = self.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_begins_with_the_prefix() {
        let mut out = Vec::new();
        let mut prefixed = Prefixed::new("prod: ", &mut out);
        for piece in ["a", "b\nc", "\n\n", "d"] {
            prefixed.write_all(piece.as_bytes()).expect("memory");
        }
        drop(prefixed);
        assert_eq!(out, b"prod: ab\nprod: c\nprod: \nprod: d");
    }
}
