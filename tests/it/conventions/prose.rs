//! The phrases that make a comment a riddle: a clause where a noun belongs, and things that act like people.

use regex::Regex;

use super::source::sources;

/// Allowed riddles per 1,000 words of comments in `src`.
const MOST: usize = 4;
/// Each family of phrases, in lower case.
const RIDDLES: [&str; 6] = [
    r"\b(what (is|was|the|has|of|they|a|no)|(of|all|from|with|for|by|in|on) what)\b",
    r"\b(says|said|say|tells|told|tell)\b",
    r"\b(stands|stand|standing|stood)\b",
    r"\b(asks|asked|ask for|waited for|looked at|taken back|takes? back|is wanted|sought)\b",
    r"\b(is gone|are gone|is left|are left|is there|are there|of its own|nobody|nothing is|whatever|as it was|as it is|as they are)\b",
    r"\b(comes? about|came of|becomes? of|became of|as far as|so many|so long|once more|anew|for good|its turn|in vain|by itself|thereby)\b",
];

#[test]
fn comments_name_things() {
    let riddles = RIDDLES.map(|pattern| Regex::new(pattern).expect("a pattern"));
    let (word, code) = (r"[a-z][a-z']+", r"`[^`]*`");
    let (word, code) = (Regex::new(word).expect("a pattern"), Regex::new(code).expect("a pattern"));
    let (mut words, mut found) = (0, Vec::new());
    for source in sources() {
        let comments = source.whole.lines().map(str::trim_start);
        for line in comments.filter_map(|line| line.strip_prefix("//")) {
            let text = line.trim_start_matches(['/', '!']).to_lowercase();
            let text = code.replace_all(&text, "CODE");
            words += word.find_iter(&text).count();
            let hits = riddles.iter().map(|riddle| riddle.find_iter(&text).count()).sum::<usize>();
            found.extend(std::iter::repeat_n(format!("{}: {line}", source.path), hits));
        }
    }
    assert!(found.len() * 1000 <= MOST * words, "{} in {words} words:\n{}", found.len(), found.join("\n"));
}
