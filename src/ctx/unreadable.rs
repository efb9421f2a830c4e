//! Unreadable sources: warn or refuse.

use crate::cluster::{Cluster, Read, Source, Unread};
use crate::error::{Error, Result};

/// The needed sources that could not be read, with the reasons.
pub fn unread(cluster: &Cluster, needs: &[Source]) -> impl Iterator<Item = (Source, Unread)> {
    needs.iter().filter_map(|need| match cluster.source(*need) {
        Read::Incomplete(_, reason) | Read::Unreadable(reason) => Some((*need, reason)),
        Read::Ok(_) => Some((*need, cluster.undecoded(*need)?.into())),
        Read::NotRequested => None,
    })
}

/// Returns the unreadable sources that a writing command can do without, for a warning.
///
/// # Errors
///
/// A required source was not read completely: an object that was not read must not count as absent. Or a
/// value in a required source cannot be read.
pub fn check_required(
    cluster: &Cluster,
    needs: &[Source],
    required: &[Source],
) -> Result<Vec<(Source, Unread)>> {
    let (missed, without): (Vec<_>, Vec<_>) =
        unread(cluster, needs).partition(|(source, _)| required.contains(source));
    if missed.is_empty() {
        Ok(without)
    } else {
        let reasons = one_line(&missed);
        Err(Error::failed(format!("{reasons}; nothing was changed")))
    }
}

/// Fails if none of several sources may be read: otherwise each result would have its own reason.
///
/// # Errors
///
/// Several sources were requested, and all are forbidden.
pub fn any(cluster: &Cluster, needs: &[Source]) -> Result<()> {
    let asked = needs.iter().filter(|need| cluster.source(**need).was_asked());
    let unread: Vec<_> = unread(cluster, needs).collect();
    let forbidden = unread.iter().all(|(_, reason)| reason.is_forbidden());
    if unread.len() > 1 && forbidden && unread.len() == asked.count() {
        Err(Error::failed(one_line(&unread)))
    } else {
        Ok(())
    }
}

/// The unreadable sources with the reasons, in one line; equal reasons are listed once.
pub fn one_line(unread: &[(Source, Unread)]) -> String {
    let mut parts: Vec<(&Unread, Vec<String>)> = Vec::new();
    for (source, reason) in unread {
        let like = |other: &Unread| other == reason || other.is_forbidden() && reason.is_forbidden();
        match parts.iter_mut().find(|(other, _)| like(other)) {
            Some((_, more)) => more.push(source.to_string()),
            None => parts.push((reason, vec![source.to_string()])),
        }
    }
    let part = |(reason, sources): (&Unread, Vec<String>)| match sources.as_slice() {
        [one] => format!("cannot read {one}: {reason}"),
        [first, rest @ ..] => {
            format!("cannot read {first}: {reason}; same error for {}", rest.join(", "))
        }
        [] => String::new(),
    };
    let parts: Vec<String> = parts.into_iter().map(part).collect();
    parts.join("; ")
}
