//! Kubernetes objects whose types are from `k8s_openapi`.

use std::ops::Deref;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::api::{Object, UnknownFields};

/// An object, with its fields that could not be decoded.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Standard<T> {
    object: T,
    #[serde(skip)]
    unknown_fields: UnknownFields,
}

impl<T> Deref for Standard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: Metadata<Ty = ObjectMeta>> Object for Standard<T> {
    fn key(&self) -> (&str, &str) {
        let metadata = self.object.metadata();
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(Option::as_deref);
        (namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown_fields
    }

    fn set_unknown_fields(&mut self, fields: UnknownFields) {
        self.unknown_fields = fields;
    }
}
