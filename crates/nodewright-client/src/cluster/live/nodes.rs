//! Reads all nodes or named nodes, whole or in part.

use std::collections::HashSet;

use super::decode::Listed;
use super::list::List;
use super::request::Failure;
use super::sources::{CORE, Reader, read};
use crate::api::Name;
use crate::cluster::{Node, NodeFields, Read};

impl Reader<'_> {
    pub fn nodes_list() -> List {
        List::all(CORE, "nodes", "Node")
    }

    /// Reads all nodes, or the named nodes one by one: a server finds a node by name without reading the
    /// others.
    pub async fn nodes(&self) -> Read<Vec<Node>> {
        let list = Self::nodes_list();
        if !self.named_nodes.is_empty() {
            let named = self.named_nodes.iter();
            let named = named.map(|name| list.clone().with_fields(&format!("metadata.name={name}")));
            return read(self.all_of(&named.collect::<Vec<List>>()).await);
        }
        read(match (&self.recorder, self.node_fields) {
            (Some(recorder), _) => recorder.list(self.client, &list, &|_| true).await,
            (None, NodeFields::All) => self.list(&list).await,
            (None, fields) => self.metadata_of(list, fields).await,
        })
    }

    /// Reads the metadata of all nodes. Their cordons, if requested, are read from a list of the cordoned
    /// nodes.
    async fn metadata_of(&self, list: List, fields: NodeFields) -> Result<Listed<Node>, Failure> {
        let list = list.of_metadata();
        let cordoned = list.clone().with_fields("spec.unschedulable=true");
        let cordoned = async {
            match fields {
                NodeFields::Metadata => Ok(None),
                _ => self.list::<Node>(&cordoned).await.map(Some),
            }
        };
        let (all, cordoned) = futures::join!(self.list::<Node>(&list), cordoned);
        let (mut all, cordoned) = (all?, cordoned?);
        if let Some(lacking) = &cordoned {
            all.unidentified.extend_from_slice(&lacking.unidentified);
        }
        let cordoned = cordoned.map(|listed| {
            let names = listed.items.into_iter().map(|node| node.name);
            names.collect::<HashSet<Name>>()
        });
        for node in &mut all.items {
            let cordoned = cordoned.as_ref().map(|names| names.contains(&node.name));
            node.limit_to_metadata(cordoned);
        }
        Ok(all)
    }
}
