//! Our commands in texts.

use std::ffi::OsString;

use clap::error::ErrorKind;
use kubectl_skyhook::program::Program;

const OURS: &str = "kubectl skyhook";

/// The commands of a text that do not parse, with their errors.
pub fn wrong(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines
        .flat_map(commands)
        .filter_map(|command| {
            let error = parse(&command).err()?;
            Some(format!("{OURS} {}: {error}", command.words.join(" ")))
        })
        .collect()
}

/// A command found in a text.
#[derive(Debug, PartialEq)]
struct Found {
    /// Words after `kubectl skyhook`.
    words: Vec<String>,
    /// Whether the command is in backticks in prose, where it may lack its arguments.
    in_prose: bool,
}

/// All commands in a line: in backticks in prose, or alone on the line.
fn commands(line: &str) -> Vec<Found> {
    let quoted = line.split('`').skip(1).step_by(2);
    let bare = if line.contains('`') { "" } else { line };
    let in_prose = quoted.map(|piece| (piece, true));
    let pieces = in_prose.chain([(bare, false)]);
    pieces
        .flat_map(|(piece, in_prose)| piece.split(" | ").map(move |piece| (piece, in_prose)))
        .filter_map(|(piece, in_prose)| {
            let piece = piece.trim().trim_start_matches("$ ").trim_start_matches("source <(");
            let rest = piece.strip_prefix(OURS)?;
            (rest.is_empty() || rest.starts_with(' ')).then(|| Found { words: words(rest), in_prose })
        })
        .collect()
}

/// Splits as a shell does, as far as examples need: quotes, and an end at shell operators.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '>' | '<' | ';' | '&' | ')' | '#') if word.is_none() || c == ')' => break,
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Parses a command. A group without a subcommand and a request for help are valid.
fn parse(found: &Found) -> Result<(), String> {
    let words = found.words.iter().map(String::as_str);
    let line = std::iter::once("kubectl-skyhook").chain(words);
    match Program::SKYHOOK.parse(line.map(OsString::from), None) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(()),
            ErrorKind::MissingRequiredArgument if found.in_prose => Ok(()),
            _ => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
        },
    }
}

#[test]
fn commands_are_found_in_text() {
    let found = |line| commands(line).iter().map(|found| found.words.join(" ")).collect::<Vec<_>>();
    assert_eq!(found("  kubectl skyhook explain -o json"), ["explain -o json"]);
    assert_eq!(found("a | kubectl skyhook diagnose --from - # why"), ["diagnose --from -"]);
    assert_eq!(found("see `kubectl skyhook` and `kubectl skyhook explain`, or not"), ["", "explain"]);
    assert_eq!(found("source <(kubectl skyhook completion bash)"), ["completion bash"]);
    assert_eq!(
        commands("kubectl skyhook node status 'a b' > x"),
        [Found { words: ["node", "status", "a b"].map(str::to_owned).to_vec(), in_prose: false }]
    );
    assert_eq!(
        wrong("kubectl skyhook frobnicate"),
        ["kubectl skyhook frobnicate: error: unrecognized subcommand 'frobnicate'"]
    );
}
