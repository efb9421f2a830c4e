//! The stored objects, with the API server's semantics of reads and writes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::Problem;
use super::kind::Kinds;
use super::patch;
use super::route::Route;
use super::select::Selector;
use super::watch::History;

/// The server's time, which never changes.
pub const NOW: &str = "2026-11-20T12:00:00Z";

/// Resource (`plural.group`), namespace and name.
type Key = (String, String, String);

/// All stored objects.
#[derive(Default)]
pub struct Store {
    pub kinds: Kinds,
    objects: BTreeMap<Key, Value>,
    /// The changes that watches receive.
    pub history: History,
    /// Package fields that the CustomResourceDefinition lacks: writes drop them.
    pub pruned: Vec<&'static str>,
    version: u64,
    made: u64,
}

impl Store {
    /// Stores an object unchanged, or all items of a list.
    pub fn load(&mut self, mut object: Value) {
        let is_list = object["kind"].as_str().is_some_and(|k| k.ends_with("List"));
        if is_list && let Value::Array(items) = object["items"].take() {
            return items.into_iter().for_each(|item| self.load(item));
        }
        let kind = self.kinds.of(&object);
        let version = object["metadata"]["resourceVersion"].as_str();
        match version.and_then(|v| v.parse::<u64>().ok()) {
            Some(version) => self.version = self.version.max(version),
            None => self.stamp(&mut object),
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = self.uid().into();
        }
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let key = (kind.resource(), text("namespace"), text("name"));
        if self.objects.contains_key(&key) {
            // Watches must see the replaced object, even if its own `resourceVersion` is not newer.
            self.version += 1;
        }
        self.put(key, object);
    }

    fn put(&mut self, key: Key, object: Value) {
        let event_type = if self.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        self.history.note(self.version, event_type, &key.0, &object);
        self.objects.insert(key, object);
    }

    fn take(&mut self, key: &Key) {
        if let Some(object) = self.objects.remove(key) {
            self.version += 1;
            self.history.note(self.version, "DELETED", &key.0, &object);
        }
    }

    /// Removes an object of any group by plural and name, regardless of its finalizers.
    pub fn forget(&mut self, plural: &str, namespace: &str, name: &str) {
        let named = |(resource, ns, n): &&Key| {
            resource.split('.').next() == Some(plural) && ns == namespace && n == name
        };
        let keys: Vec<Key> = self.objects.keys().filter(named).cloned().collect();
        self.version += 1;
        keys.iter().for_each(|key| self.take(key));
    }

    /// An object of any group, by plural and name.
    pub fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects
            .iter()
            .find(|((resource, ns, n), _)| {
                resource.split('.').next() == Some(plural) && ns == namespace && n == name
            })
            .map(|(_, object)| object)
    }

    /// All stored objects.
    pub fn objects(&self) -> Vec<Value> {
        self.objects.values().cloned().collect()
    }

    pub fn get(&self, route: &Route) -> Result<Value, Problem> {
        let found = self.objects.get(&key(route));
        found.cloned().ok_or_else(|| Problem::not_found(route))
    }

    /// A list, or one page of it, sorted by namespace and name.
    pub fn list(&self, route: &Route, query: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let text = |key: &str| query.get(key).map_or("", String::as_str);
        let labels = Selector::labels(text("labelSelector"))?;
        let fields = Selector::fields(text("fieldSelector"), &route.kind)?;
        let limit = match text("limit") {
            "" | "0" => usize::MAX,
            limit => limit.parse().map_err(|_| Problem::bad_request("limit is not a number"))?,
        };
        let start: Option<(String, String)> = match text("continue") {
            "" => None,
            token => Some(
                serde_json::from_str(token).map_err(|_| Problem::bad_request("continue key is not valid"))?,
            ),
        };
        let resource = route.kind.resource();
        let mut matching = self
            .objects
            .iter()
            .filter(|((r, namespace, _), _)| {
                *r == resource && (route.namespace.is_empty() || *namespace == route.namespace)
            })
            .filter(|((_, namespace, name), _)| {
                start.as_ref().is_none_or(|(n, m)| (namespace, name) >= (n, m))
            })
            .filter(|(_, o)| labels.matches_labels(o) && fields.matches_fields(o));
        let items: Vec<Value> =
            matching.by_ref().take(limit).map(|(_, object)| list_item(object, route.kind.custom)).collect();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if let Some(((_, namespace, name), _)) = matching.next() {
            metadata["continue"] = json!([namespace, name]).to_string().into();
            // Like a real server, do not count the remaining items of a list with selectors.
            if text("labelSelector").is_empty() && text("fieldSelector").is_empty() {
                metadata["remainingItemCount"] = (1 + matching.count()).into();
            }
        }
        Ok(json!({
            "kind": format!("{}List", route.kind.kind),
            "apiVersion": route.kind.api_version(),
            "metadata": metadata,
            "items": items,
        }))
    }

    pub fn create(&mut self, route: &Route, mut object: Value, dry: bool) -> Result<Value, Problem> {
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"].as_str();
            let prefix =
                prefix.ok_or_else(|| Problem::new(422, "Invalid", "name or generateName is required"))?;
            object["metadata"]["name"] = format!("{prefix}{:05}", self.made + 1).into();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = (route.kind.resource(), route.namespace.clone(), name.to_owned());
        if self.objects.contains_key(&key) {
            return Err(Problem::already_exists(route, name));
        }
        if !route.namespace.is_empty() {
            object["metadata"]["namespace"] = route.namespace.clone().into();
        }
        object["apiVersion"] = route.kind.api_version().into();
        object["kind"] = route.kind.kind.clone().into();
        object["metadata"]["creationTimestamp"] = NOW.into();
        object["metadata"]["generation"] = 1.into();
        if !dry {
            object["metadata"]["uid"] = self.uid().into();
            self.stamp(&mut object);
            self.put(key, object.clone());
        }
        Ok(object)
    }

    /// Patches an object, or only its status.
    pub fn patch(
        &mut self,
        route: &Route,
        content_type: &str,
        patch: &Value,
        dry: bool,
    ) -> Result<Value, Problem> {
        let old = self.get(route)?;
        let mut new = old.clone();
        patch::apply(&route.kind, content_type, &mut new, patch)?;
        self.replace(route, old, new, dry)
    }

    pub fn update(&mut self, route: &Route, new: Value, dry: bool) -> Result<Value, Problem> {
        let old = self.get(route)?;
        self.replace(route, old, new, dry)
    }

    /// Stores the new version of an object, except changes that the write must not make.
    fn replace(&mut self, route: &Route, old: Value, mut new: Value, dry: bool) -> Result<Value, Problem> {
        for precondition in ["resourceVersion", "uid"] {
            let (was, is) = (&old["metadata"][precondition], &new["metadata"][precondition]);
            if !is.is_null() && was != is {
                return Err(Problem::conflict(route));
            }
        }
        for fixed in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "generation",
        ] {
            restore(&mut new["metadata"], &old["metadata"], fixed);
        }
        match (route.subresource.as_str(), route.kind.custom) {
            // A write to the status subresource of a custom resource changes only the status.
            ("status", true) => {
                let status = new["status"].take();
                new = old.clone();
                new["status"] = status;
            }
            ("status", false) => restore(&mut new, &old, "spec"),
            _ => restore(&mut new, &old, "status"),
        }
        let packages = new.pointer_mut("/spec/packages").and_then(Value::as_object_mut);
        for package in packages.into_iter().flat_map(|all| all.values_mut()) {
            let members = package.as_object_mut().into_iter();
            members.for_each(|all| all.retain(|member, _| !self.pruned.contains(&member.as_str())));
        }
        if new == old {
            return Ok(old);
        }
        let generation = old["metadata"]["generation"].as_u64();
        if let Some(generation) = generation.filter(|_| new["spec"] != old["spec"]) {
            new["metadata"]["generation"] = (generation + 1).into();
        }
        if dry {
            return Ok(new);
        }
        self.stamp(&mut new);
        if new["metadata"]["deletionTimestamp"].is_string() && finalizers(&new) == 0 {
            self.take(&key(route))
        } else {
            self.put(key(route), new.clone())
        }
        Ok(new)
    }

    /// Deletes an object, or sets its `deletionTimestamp` if it has finalizers.
    pub fn delete(&mut self, route: &Route, options: &Value, dry: bool) -> Result<Value, Problem> {
        let mut object = self.get(route)?;
        for precondition in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][precondition];
            if !wanted.is_null() && *wanted != object["metadata"][precondition] {
                return Err(Problem::conflict(route));
            }
        }
        if finalizers(&object) > 0 {
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = NOW.into();
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                if !dry {
                    self.stamp(&mut object);
                    self.put(key(route), object.clone());
                }
            }
            return Ok(object);
        }
        if !dry {
            self.take(&key(route));
        }
        let details = json!({
            "name": route.name,
            "group": route.kind.group,
            "kind": route.kind.plural,
            "uid": object["metadata"]["uid"],
        });
        Ok(json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }))
    }

    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
    }

    fn uid(&mut self) -> String {
        self.made += 1;
        format!("00000000-0000-4000-8000-{:012}", self.made)
    }
}

fn key(route: &Route) -> Key {
    (route.kind.resource(), route.namespace.clone(), route.name.clone())
}

fn finalizers(object: &Value) -> usize {
    object["metadata"]["finalizers"].as_array().map_or(0, Vec::len)
}

/// Restores the old value of a field.
fn restore(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(was) => new[field] = was.clone(),
        None => {
            if let Some(map) = new.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// An object as a list item: items of built-in kinds have no `kind` and no `apiVersion`.
fn list_item(object: &Value, custom: bool) -> Value {
    let mut item = object.clone();
    if !custom && let Some(item) = item.as_object_mut() {
        item.remove("kind");
        item.remove("apiVersion");
    }
    item
}
