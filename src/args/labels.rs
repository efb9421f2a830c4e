//! Label selectors as kubectl reads them: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`.

use crate::api::LabelSelector;
use crate::api::labels::Requirement;

/// Maximum length of the name in a key, and of a value.
const LONGEST: usize = 63;
/// Maximum length of the prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// Parses a selector.
///
/// # Errors
///
/// The text is no selector; the error has the position and the expected token. An empty selector is refused, because it
/// would match everything, for example with `-l "$UNSET"`.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    let mut tokens = Tokens { rest: text };
    if tokens.peek() == Token::End {
        return Err("expected labels such as a=b".to_owned());
    }
    let mut requirements = Vec::new();
    loop {
        requirements.push(requirement(&mut tokens)?);
        match tokens.next() {
            Token::End => break,
            Token::Symbol(",") => {}
            other => return Err(unexpected(other, "a comma")),
        }
    }
    Ok(LabelSelector { match_expressions: requirements, ..LabelSelector::default() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'static str),
    End,
}

struct Tokens<'a> {
    rest: &'a str,
}

/// Longer symbols come first, because the first match counts.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start();
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol)) {
            self.rest = &self.rest[symbol.len()..];
            return Token::Symbol(symbol);
        }
        let ends = |c: char| c.is_whitespace() || "=!><(),".contains(c);
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "" => Token::End,
            word => Token::Word(word),
        }
    }

    fn peek(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn word(&mut self, expected: &str) -> Result<&'a str, String> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(unexpected(other, expected)),
        }
    }
}

fn unexpected(found: Token<'_>, expected: &str) -> String {
    match found {
        Token::Word(found) => format!("expected {expected}, found {found:?}"),
        Token::Symbol(found) => format!("expected {expected}, found {found:?}"),
        Token::End => format!("expected {expected} at the end"),
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let absent = tokens.peek() == Token::Symbol("!");
    if absent {
        tokens.next();
    }
    let key = key(tokens.word("a label")?)?;
    let of = |operator: &str, values: Vec<String>| Requirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
    };
    if absent {
        return Ok(of("DoesNotExist", Vec::new()));
    }
    if matches!(tokens.peek(), Token::End | Token::Symbol(",")) {
        return Ok(of("Exists", Vec::new()));
    }
    match tokens.next() {
        Token::Symbol("=" | "==") => Ok(of("In", vec![exact(tokens)?])),
        Token::Symbol("!=") => Ok(of("NotIn", vec![exact(tokens)?])),
        Token::Symbol(">") => Ok(of("Gt", vec![number(tokens)?])),
        Token::Symbol("<") => Ok(of("Lt", vec![number(tokens)?])),
        Token::Word("in") => Ok(of("In", values(tokens)?)),
        Token::Word("notin") => Ok(of("NotIn", values(tokens)?)),
        other => Err(unexpected(other, "one of =, ==, !=, in, notin, > or <")),
    }
}

/// Parses one value, which may be empty.
fn exact(tokens: &mut Tokens<'_>) -> Result<String, String> {
    match tokens.peek() {
        Token::End | Token::Symbol(",") => Ok(String::new()),
        _ => value(tokens.word("a value")?),
    }
}

fn number(tokens: &mut Tokens<'_>) -> Result<String, String> {
    let word = tokens.word("a whole number")?;
    match word.parse::<i64>() {
        Ok(_) => value(word),
        Err(_) => Err(format!("expected a whole number, found {word:?}")),
    }
}

/// Parses values in parentheses, each of which may be empty.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    match tokens.next() {
        Token::Symbol("(") => {}
        other => return Err(unexpected(other, "(")),
    }
    let mut values = Vec::new();
    loop {
        values.push(match tokens.peek() {
            Token::Symbol("," | ")") => String::new(),
            _ => value(tokens.word("a value")?)?,
        });
        match tokens.next() {
            Token::Symbol(")") => return Ok(values),
            Token::Symbol(",") => {}
            other => return Err(unexpected(other, "a comma or )")),
        }
    }
}

/// Checks a key: a name with an optional domain, such as `pool` or `example.com/pool`.
fn key(text: &str) -> Result<&str, String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let domain = |prefix: &str| {
        let part = |part: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
        };
        prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(part)
    };
    if is_word(name) && prefix.is_none_or(domain) {
        Ok(text)
    } else {
        Err(format!("{text:?} is not a valid label key"))
    }
}

fn value(text: &str) -> Result<String, String> {
    if is_word(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a valid label value")) }
}

/// Whether a text has only letters and digits, and between them also `-`, `_` and `.`.
fn is_word(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| ends(c) || matches!(c, '-' | '_' | '.');
    (1..=LONGEST).contains(&text.len())
        && text.chars().all(inner)
        && text.starts_with(ends)
        && text.ends_with(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Labels, Name};

    fn picks(text: &str) -> Vec<&'static str> {
        let selector = selector(text).expect(text);
        let nodes = [
            ("a", vec![("pool", "gpu"), ("zone", "1")]),
            ("b", vec![("pool", "cpu"), ("example.com/in", "")]),
            ("c", vec![("zone", "12")]),
        ];
        let nodes = nodes.into_iter().map(|(name, labels)| {
            let labels = labels.into_iter().map(|(k, v)| (Name::from(k), Name::from(v)));
            (name, labels.collect::<Labels>())
        });
        nodes.filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name).collect()
    }

    #[test]
    fn reads_what_kubectl_reads() {
        for (text, picked) in [
            ("pool=gpu", vec!["a"]),
            ("pool==gpu", vec!["a"]),
            (" pool = gpu ", vec!["a"]),
            ("pool!=gpu", vec!["b", "c"]),
            ("pool in (gpu, cpu)", vec!["a", "b"]),
            ("pool in(gpu)", vec!["a"]),
            ("pool notin (gpu,cpu)", vec!["c"]),
            ("pool in (gpu,cpu),zone", vec!["a"]),
            ("!zone", vec!["b"]),
            ("! zone", vec!["b"]),
            ("zone>1", vec!["c"]),
            ("zone > 0", vec!["a", "c"]),
            ("zone<12", vec!["a"]),
            ("pool>1", vec![]),
            ("example.com/in", vec!["b"]),
            ("example.com/in=", vec!["b"]),
            ("example.com/in in ()", vec!["b"]),
            ("pool in (gpu,)", vec!["a"]),
        ] {
            assert_eq!(picks(text), picked, "{text}");
        }
    }

    #[test]
    fn refuses_what_kubectl_refuses() {
        let long = "x".repeat(64);
        for text in [
            "",
            ",",
            "=gpu",
            "a in gpu",
            "a b",
            "!",
            "zone,",
            ",zone",
            "a,,b",
            "a===1",
            "a=b=c",
            "a>b",
            "a>",
            "a>1.5",
            "!a=b",
            "a in (b",
            "a in b)",
            "a=b c",
            "a=-b",
            "a=b.",
            "a=b/c",
            "-a",
            "a/b/c",
            "/a",
            "a/",
            "A.b/c",
            "a=é",
            &format!("a={long}"),
            &long,
            &format!("{}/a", "x.".repeat(127)),
        ] {
            assert!(selector(text).is_err(), "{text}");
        }
    }
}
