//! Command lines without secrets, for storage and display.

use clap::Args;

use super::connection::Connection;
use crate::redact;

/// The part of a flag's value to mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    All,
    /// Everything in a URL but its address.
    Url,
    /// The value in KEY=VALUE.
    Pair,
}

/// Flags whose values hold secrets, by id.
pub const SECRETS: [(&str, Mask); 3] =
    [("token", Mask::All), ("server", Mask::Url), ("impersonate_extra", Mask::Pair)];

impl Mask {
    fn shown(self, value: &str) -> String {
        match self {
            Mask::All => redact::MASKED.to_owned(),
            Mask::Url => redact::url(value),
            Mask::Pair => {
                let (key, _) = value.split_once('=').unwrap_or((value, ""));
                format!("{key}={}", redact::MASKED)
            }
        }
    }
}

/// Masks the secrets in the words of a command line.
pub fn redacted(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let flags = Connection::augment_args(clap::Command::new("flags"));
    let secrets: Vec<(&clap::Arg, Mask)> = flags
        .get_arguments()
        .filter_map(|arg| {
            let (_, mask) = SECRETS.iter().find(|(id, _)| *id == arg.get_id())?;
            Some((arg, *mask))
        })
        .collect();
    let mut awaited = None;
    let mut shown = Vec::new();
    for word in words {
        let word = match awaited.take() {
            Some(mask) => Mask::shown(mask, &word),
            None => match secrets.iter().find_map(|(arg, mask)| Some((value_position(arg, &word)?, *mask))) {
                Some((ValuePosition::Next, mask)) => {
                    awaited = Some(mask);
                    word
                }
                Some((ValuePosition::From(at), mask)) => {
                    format!("{}{}", &word[..at], mask.shown(&word[at..]))
                }
                None => redact::urls(&word),
            },
        };
        shown.push(word);
    }
    shown
}

/// The position of a flag's value.
enum ValuePosition {
    /// The next word.
    Next,
    /// The rest of this word, from this byte on.
    From(usize),
}

/// The position of the flag's value, if the word contains the flag: `--flag`, `--flag=value`, `-f`,
/// `-fvalue`, `-f=value`, `-abf value`.
///
/// After other letters in the same word, the letter may also be part of their value. Treat it as this flag,
/// so that no secret is missed.
fn value_position(arg: &clap::Arg, word: &str) -> Option<ValuePosition> {
    let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
        return longs.contains(&name).then(|| match value {
            Some(value) => ValuePosition::From(word.len() - value.len()),
            None => ValuePosition::Next,
        });
    }
    let at = word.strip_prefix('-')?.find(arg.get_short()?)? + 2;
    Some(match &word[at..] {
        "" => ValuePosition::Next,
        rest => ValuePosition::From(at + usize::from(rest.starts_with('='))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_secret_flags_are_taken_out_however_they_are_given() {
        for (given, shown) in [
            ("pause x --token hunter2 -y", "pause x --token <masked> -y"),
            ("--token=hunter2 pause x", "--token=<masked> pause x"),
            ("--token a --token b", "--token <masked> --token <masked>"),
            ("-s https://me:pw@host pause", "-s https://host pause"),
            ("-shttps://me:pw@host pause", "-shttps://host pause"),
            ("-s=me:pw@host pause", "-s=host pause"),
            ("-ys me:pw@host pause", "-ys host pause"),
            ("-yshttps://host?k=v", "-yshttps://host?<masked>"),
            ("--server me:pw@host", "--server host"),
            ("--server=https://host/?k=v", "--server=https://host/?<masked>"),
            ("--as ann --as-user-extra reason=hunter2 x", "--as ann --as-user-extra reason=<masked> x"),
            ("--as-user-extra=reason=a=b pause x", "--as-user-extra=reason=<masked> pause x"),
            ("pause x --reason https://me:pw@host", "pause x --reason https://host"),
            ("status -l app=skyhook -oyaml", "status -l app=skyhook -oyaml"),
            ("pause tokens --confirm", "pause tokens --confirm"),
        ] {
            let words = given.split(' ').map(str::to_owned);
            assert_eq!(redacted(words).join(" "), shown, "{given}");
        }
    }
}
