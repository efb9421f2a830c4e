//! Files that arguments name, other than `--from` and manifests.

use std::path::Path;

use super::Ctx;
use crate::bounded::{self, MOST_PLAN};
use crate::cluster::Cluster;
use crate::dump;
use crate::error::{Error, Result};
use crate::reason::plain_reason;

impl Ctx {
    /// Reads a file of at most `MOST_PLAN` bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = bounded::open(path).and_then(|file| bounded::read(file, MOST_PLAN));
        bytes.map_err(|error| {
            let path = path.display();
            Error::failed(format!("cannot read {path}: {}", plain_reason(&error)))
        })
    }

    /// Loads a capture other than the input of `--from`.
    ///
    /// # Errors
    ///
    /// The capture cannot be read.
    pub fn load_capture(&self, path: &Path) -> Result<Cluster> {
        Ok(dump::load(&[path.to_owned()], self.global.reading.api)?)
    }
}
