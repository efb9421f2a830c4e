//! Words, numbers, names and documents, independent of a terminal.

mod document;
pub mod escape;
mod nodeset;
mod words;

pub use document::{API_VERSION, Items, ItemsAt, List, Row, document, time, to_json};
pub use escape::{harmless_json, harmless_lines, harmless_xml, is_harmless, sanitize, shell_words};
pub use nodeset::{NodeSet, expand, natural};
pub use words::{
    CLOCK_SKEW, Joined, age, ago, count, distinct, duration_text, for_how_long, human, list, plural, some_of,
};
