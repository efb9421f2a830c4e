//! Assigns objects of files to their sources.

use serde::de::DeserializeOwned;

use super::body::Body;
use crate::api::Object;
use crate::api::object_name::is_word;
use crate::cluster::Read;

/// An item to add to a source.
#[expect(clippy::large_enum_variant, reason = "most are objects, and none is kept")]
pub(super) enum Sorted<'a> {
    /// The kind was requested, without an item.
    Asked,
    /// Items are missing, for this reason.
    Lack(String),
    Object(LoadedObject<'a>),
}

/// An object to add to its source.
pub(super) struct LoadedObject<'a> {
    pub path: &'a str,
    pub kind: &'a str,
    pub body: Body<'a>,
}

/// Adds an item to its source. An item whose identity cannot be read makes the source incomplete.
pub(super) fn take<T: Object + DeserializeOwned + 'static>(read: &mut Read<Vec<T>>, item: Sorted<'_>) {
    if !read.was_asked() {
        *read = Read::Ok(Vec::new());
    }
    match item {
        Sorted::Asked => {}
        Sorted::Lack(why) => read.lacks(|| why.into()),
        Sorted::Object(LoadedObject { path, kind, body }) => {
            let name = body.summary.name.clone();
            let decoded = match body.decode() {
                Ok(_) if !is_word(&name) => Err("the name is invalid".to_owned()),
                decoded => decoded.map_err(|why| why.to_string()),
            };
            match (decoded, read.available_mut()) {
                (Ok(item), Some(items)) => items.push(item),
                (Err(why), _) => read.lacks(|| format!("{path}: {kind} {name}: {why}").into()),
                (Ok(_), None) => {}
            }
        }
    }
}
