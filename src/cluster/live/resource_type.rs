//! One kind of thing, before it is known where it is listed.

use super::list::List;

/// What is listed, wherever that may be.
pub(super) struct ResourceType {
    api: &'static str,
    plural: &'static str,
    singular: &'static str,
    fields: Option<String>,
}

impl ResourceType {
    pub fn new(api: &'static str, plural: &'static str, singular: &'static str) -> ResourceType {
        ResourceType {
            api,
            plural,
            singular,
            fields: None,
        }
    }

    /// Only those whose fields match.
    pub fn with_fields(self, fields: String) -> ResourceType {
        ResourceType {
            fields: Some(fields),
            ..self
        }
    }

    pub fn everywhere(&self) -> List {
        self.narrowed(List::all(self.api, self.plural, self.singular))
    }

    pub fn inside(&self, namespace: &str) -> List {
        self.narrowed(List::inside(
            self.api,
            namespace,
            self.plural,
            self.singular,
        ))
    }

    fn narrowed(&self, list: List) -> List {
        match &self.fields {
            Some(fields) => list.with_fields(fields),
            None => list,
        }
    }
}
