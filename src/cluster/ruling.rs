//! Which generation rules: whose objects the running operator acts on.

use crate::api::{Generation, Version};

/// The generation that rules, and what decided it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    pub generation: Generation,
    /// The evidence, strongest first, in words.
    pub because: Vec<String>,
    /// Which APIs the cluster serves, or of which the files hold traces.
    pub served: Vec<Generation>,
    pub operator_version: Option<Version>,
}

/// What is known before the decision.
#[derive(Debug, Clone, Default)]
pub struct Signs {
    pub served: Vec<Generation>,
    pub operator_version: Option<Version>,
    /// NodeWright objects that an operator has given a status.
    pub nodewrights_with_status: usize,
    /// Nodes on which the newer operator left its version.
    pub adopted_nodes: usize,
    /// `--api`.
    pub asked_for: Option<Generation>,
    /// Files may leave a kind out; a server that serves one API has no other.
    pub from_files: bool,
}

/// The first operator that rules by NodeWright objects.
const FIRST_NODEWRIGHT: (u64, u64) = (0, 18);

impl Ruling {
    /// Decides; `None` if neither API is served.
    ///
    /// Both groups served does not prove that a newer operator runs: `helm rollback` keeps the
    /// newer CRDs. So the operator's version decides, then what an operator left on the objects.
    pub fn decide(signs: Signs) -> Option<Ruling> {
        let (generation, because) = if let Some(generation) = signs.asked_for {
            (generation, vec![format!("--api {generation}")])
        } else {
            Self::weigh(&signs)?
        };
        Some(Ruling {
            generation,
            because,
            served: signs.served,
            operator_version: signs.operator_version,
        })
    }

    fn weigh(signs: &Signs) -> Option<(Generation, Vec<String>)> {
        let only = |g: &Generation| format!("only {} is there", g.resource());
        let by_version = signs.operator_version.as_ref().map(|version| {
            let (major, minor) = FIRST_NODEWRIGHT;
            let generation = if version.at_least(major, minor) {
                Generation::NodeWright
            } else {
                Generation::Skyhook
            };
            (version, generation)
        });
        let both = "both APIs are there";
        match (signs.served.as_slice(), by_version) {
            ([], _) => return None,
            ([one], Some((version, generation))) if signs.from_files && generation != *one => {
                let because = format!("{}, but the operator is {version}", only(one));
                return Some((generation, vec![because]));
            }
            ([one], _) => return Some((*one, vec![only(one)])),
            (_, Some((version, generation))) => {
                let because = format!("{both}, and the operator is {version}");
                return Some((generation, vec![because]));
            }
            _ => {}
        }
        let mut because = Vec::new();
        if signs.nodewrights_with_status > 0 {
            because.push(format!(
                "{} NodeWright objects have a status",
                signs.nodewrights_with_status
            ));
        }
        if signs.adopted_nodes > 0 {
            because.push(format!(
                "{} nodes carry the newer operator's version",
                signs.adopted_nodes
            ));
        }
        if because.is_empty() {
            because.push(format!(
                "{both}, the operator's version is not known, and nothing says that it was rolled \
                 back; --api decides otherwise"
            ));
        }
        Some((Generation::NodeWright, because))
    }

    /// Whether a newer operator was rolled back and left its objects behind.
    pub fn rolled_back(&self) -> bool {
        self.generation == Generation::Skyhook && self.served.contains(&Generation::NodeWright)
    }

    /// Whether the older objects are still there beside the ones that rule.
    pub fn migrating(&self) -> bool {
        self.generation == Generation::NodeWright && self.served.contains(&Generation::Skyhook)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Generation::{NodeWright, Skyhook};

    fn decide(served: &[Generation], version: Option<&str>, evidence: usize) -> Option<Generation> {
        Ruling::decide(Signs {
            served: served.to_vec(),
            operator_version: version.and_then(Version::parse),
            nodewrights_with_status: evidence,
            ..Signs::default()
        })
        .map(|r| r.generation)
    }

    #[test]
    fn the_four_cases() {
        let both = [Skyhook, NodeWright];
        assert_eq!(decide(&[], None, 0), None);
        assert_eq!(decide(&[Skyhook], Some("v0.20.0"), 0), Some(Skyhook));
        assert_eq!(decide(&[NodeWright], None, 0), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.18.0-rc1"), 0), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.17.1"), 3), Some(Skyhook));
        assert_eq!(decide(&both, None, 3), Some(NodeWright));
        assert_eq!(decide(&both, None, 0), Some(NodeWright));
    }

    #[test]
    fn files_that_leave_a_kind_out_do_not_outweigh_the_operator() {
        let decide = |served, version| {
            let signs = Signs {
                served: vec![served],
                operator_version: Version::parse(version),
                from_files: true,
                ..Signs::default()
            };
            Ruling::decide(signs).map(|r| r.generation)
        };
        assert_eq!(decide(Skyhook, "v0.20.0"), Some(NodeWright));
        assert_eq!(decide(Skyhook, "v0.17.1"), Some(Skyhook));
        assert_eq!(decide(NodeWright, "v0.17.1"), Some(Skyhook));
    }

    #[test]
    fn the_user_decides_over_everything() {
        let ruling = Ruling::decide(Signs {
            asked_for: Some(Skyhook),
            ..Signs::default()
        });
        assert_eq!(ruling.map(|r| r.generation), Some(Skyhook));
    }
}
