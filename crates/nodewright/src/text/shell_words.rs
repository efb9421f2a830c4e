//! Command lines, quoted for a shell.

use shlex::Quoter;

/// Quotes the words of a command for a shell.
pub fn shell_words<S: AsRef<str>>(argv: &[S]) -> String {
    let words: Vec<String> = argv.iter().map(|word| shell_word(word.as_ref())).collect();
    words.join(" ")
}

/// Quotes a word if necessary; for a flag, only its value: `--for=deleted`, `--for='a b'`.
fn shell_word(word: &str) -> String {
    match word.split_once('=') {
        _ if is_bare(word) => word.to_owned(),
        Some((flag, value)) if is_bare(flag) => format!("{flag}={}", quoted(value)),
        _ => quoted(word),
    }
}

/// Whether a word needs no quotes. Shells do not interpret `=` and `,` within a word.
fn is_bare(word: &str) -> bool {
    let mut parts = word.split(['=', ',']).filter(|part| !part.is_empty());
    !word.is_empty() && !word.starts_with('=') && parts.all(|part| quoted(part) == part)
}

fn quoted(word: &str) -> String {
    let quoter = Quoter::new().allow_nul(true);
    let word = quoter.quote(word).expect("only NUL cannot be quoted");
    word.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        for (words, line) in [
            (&["wait", "gpu", "--for=deleted"][..], "wait gpu --for=deleted"),
            (&["-l", "pool=gpu", ""], "-l pool=gpu ''"),
            (&["--reason=two words"], "--reason='two words'"),
            (&["it's", "$HOME", "a;b", "{a,b}"], r#""it's" '$HOME' 'a;b' '{a,b}'"#),
            (&["=x", "x=", "a,b=c"], "'=x' x= a,b=c"),
        ] {
            let argv: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(shell_words(&argv), line);
            assert_eq!(shlex::split(line), Some(argv));
        }
    }
}
