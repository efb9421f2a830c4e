//! Words, numbers, names and documents, independent of a terminal.

mod age;
mod document;
pub mod go_json;
mod nodeset;
mod sanitize;
mod shell_words;
mod words;

pub use age::{CLOCK_SKEW, age, ago, duration_text, for_how_long, human};
pub use document::{API_VERSION, Items, List, Row, any_case, document, time, to_json};
pub use nodeset::{NodeSet, expand, natural};
pub use sanitize::{harmless_json, harmless_lines, harmless_xml, is_harmless, sanitize};
pub use shell_words::shell_words;
pub use words::{count, list, plural, some_of};
