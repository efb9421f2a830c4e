//! Violations of a schema.

/// A part of a manifest that violates its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Keys and indexes from the root of the object.
    pub path: Vec<String>,
    pub kind: ViolationKind,
    /// The error message, which contains the path.
    pub message: String,
    pub fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViolationKind {
    UnknownField,
    WrongType,
    MissingField,
    Value,
}
