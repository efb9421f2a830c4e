//! Words, numbers, names and documents, independent of a terminal.

mod document;
pub mod escape;
mod nodeset;
mod words;

pub use document::{API_VERSION, Items, ItemsAt, List, Row, any_case, document, time, to_json};
pub use escape::shell_words;
pub use escape::{harmless_json, harmless_lines, harmless_xml, is_harmless, sanitize};
pub use nodeset::{NodeSet, expand, natural};
pub use words::{CLOCK_SKEW, age, ago, duration_text, for_how_long, human};
pub use words::{Joined, count, distinct, list, plural, some_of};
