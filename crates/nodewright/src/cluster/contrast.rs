//! Attributes that distinguish the nodes on which a package fails from the healthy nodes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::Node;
use crate::api::Name;
use crate::api::keys::NodeKey;

/// Maximum probability that a reported difference is due to chance.
const CHANCE: f64 = 0.01;
/// The attribute of creation times.
const CREATED: &str = "created";
/// Labels that identify a single node, or repeat another attribute.
const NOT_ATTRIBUTES: [&str; 3] = ["kubernetes.io/hostname", "kubernetes.io/os", "beta.kubernetes.io/os"];

/// A value of an attribute that failing nodes have more often than healthy nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contrast {
    /// `osImage`, `kernelVersion`, `created`, `nvidia.com/gpu`, or the key of a label.
    pub attribute: String,
    /// The attribute's value on the failing nodes; for `created`, `not after TIME` or `since TIME`.
    pub value: String,
    /// Number of failing nodes with this value.
    pub failing: usize,
    /// Number of all failing nodes.
    pub failing_total: usize,
    /// Number of healthy nodes with this value.
    pub healthy: usize,
    /// Number of all healthy nodes.
    pub healthy_total: usize,
}

/// Numbers of failing and of healthy nodes from which on a perfect split is reported, whatever its chance.
const PERFECT: (usize, usize) = (3, 2);

impl Contrast {
    /// Whether all failing nodes have the value, and no healthy node.
    pub fn separates(&self) -> bool {
        self.failing == self.failing_total && self.healthy == 0
    }

    /// Whether few nodes suffice: a perfect split by anything but age.
    fn is_perfect(&self) -> bool {
        let enough = self.failing >= PERFECT.0 && self.healthy_total >= PERFECT.1;
        enough && self.separates() && self.attribute != CREATED
    }
}

/// Attributes that separate failing from healthy nodes, most significant first, of equals those of the machine. Empty if
/// chance can explain all differences.
///
/// A value is reported if its share among the failing nodes is larger than chance allows (hypergeometric
/// tail, corrected for the number of values that were tried), or if it splits at least three failing from two healthy
/// nodes perfectly.
pub fn contrasts(failing: &[&Node], healthy: &[&Node]) -> Vec<Contrast> {
    let counts = Counts { failing: failing.len(), healthy: healthy.len() };
    let mut tried = values(failing, healthy);
    tried.extend(ages(failing, healthy));
    let tries = tried.len();
    let mut found: Vec<(f64, Contrast)> = tried
        .into_iter()
        .map(|(value, has)| (counts.chance(has) * tries as f64, value, has))
        .map(|(chance, (attribute, value), has)| {
            let contrast = Contrast {
                attribute,
                value,
                failing: has.failing,
                failing_total: counts.failing,
                healthy: has.healthy,
                healthy_total: counts.healthy,
            };
            (chance, contrast)
        })
        .filter(|(chance, contrast)| *chance < CHANCE || contrast.is_perfect())
        .collect();
    // The system first, as it explains its kernel and its labels.
    let of_label = |contrast: &Contrast| match contrast.attribute.as_str() {
        "osImage" => 0,
        attribute => 1 + usize::from(attribute.contains(['/', '.'])),
    };
    found.sort_by(|(a, one), (b, other)| {
        a.total_cmp(b)
            .then_with(|| of_label(one).cmp(&of_label(other)))
            .then_with(|| one.attribute.cmp(&other.attribute))
            .then_with(|| one.value.cmp(&other.value))
    });
    found.into_iter().map(|(_, contrast)| contrast).collect()
}

/// Numbers of nodes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    failing: usize,
    healthy: usize,
}

type Value = (String, String);

/// Every value of every attribute, with its node counts, except values that all nodes share. A missing label
/// has the value `<none>`.
///
/// Nodes share label strings, so labels (up to a million) are counted by address instead of content.
fn values(failing: &[&Node], healthy: &[&Node]) -> Vec<(Value, Counts)> {
    let mut places: HashMap<(usize, usize), (&Name, &Name, Counts), RandomState> = HashMap::default();
    let mut values: BTreeMap<(&str, Cow<'_, str>), Counts> = BTreeMap::new();
    for (node, fails) in with_outcome(failing, healthy) {
        for (key, value) in node.labels.iter() {
            let place = places.entry((key.place(), value.place()));
            let (_, _, has) = place.or_insert((key, value, Counts::default()));
            has.add(fails);
        }
        let gpus = ("nvidia.com/gpu", node.gpus().to_string().into());
        let system = node.body().map(|body| body.system.attributes()).into_iter().flatten();
        for value in system.map(|(key, value)| (key, value.into())).chain([gpus]) {
            values.entry(value).or_default().add(fails);
        }
    }
    let mut keys: BTreeMap<&str, Counts> = BTreeMap::new();
    for (key, value, has) in places.into_values() {
        let key = key.as_str();
        if !NOT_ATTRIBUTES.contains(&key) && !NodeKey::is_ours(key) {
            keys.entry(key).or_default().join(has);
            values.entry((key, value.as_str().into())).or_default().join(has);
        }
    }
    for (key, has) in keys {
        let lack = Counts { failing: failing.len() - has.failing, healthy: healthy.len() - has.healthy };
        if lack.failing + lack.healthy > 0 {
            values.entry((key, "<none>".into())).or_default().join(lack);
        }
    }
    let all = failing.len() + healthy.len();
    // A value that all nodes share separates nothing: do not count it as tried.
    values.retain(|_, has| has.failing + has.healthy < all);
    let owned =
        |((key, value), has): ((&str, Cow<'_, str>), Counts)| ((key.to_owned(), value.into_owned()), has);
    values.into_iter().map(owned).collect()
}

/// Creation times as attributes: the failing nodes may be the oldest or the youngest.
fn ages(failing: &[&Node], healthy: &[&Node]) -> Vec<(Value, Counts)> {
    let created: Option<Vec<Timestamp>> = failing.iter().map(|node| node.created).collect();
    let Some(created) = created.filter(|all| !all.is_empty()) else {
        return Vec::new();
    };
    let [first, last] = [created.iter().min(), created.iter().max()].map(|t| t.copied());
    let with = |is: &dyn Fn(Timestamp) -> bool| Counts {
        failing: failing.len(),
        healthy: healthy.iter().filter(|n| n.created.is_some_and(is)).count(),
    };
    let mut ages = Vec::new();
    if let (Some(first), Some(last)) = (first, last) {
        let named = |value: String| (CREATED.to_owned(), value);
        ages.push((named(format!("since {first}")), with(&|at| at >= first)));
        ages.push((named(format!("not after {last}")), with(&|at| at <= last)));
    }
    ages
}

fn with_outcome<'n>(
    failing: &'n [&'n Node],
    healthy: &'n [&'n Node],
) -> impl Iterator<Item = (&'n Node, bool)> {
    failing.iter().map(|node| (*node, true)).chain(healthy.iter().map(|node| (*node, false)))
}

impl Counts {
    fn add(&mut self, fails: bool) {
        if fails {
            self.failing += 1;
        } else {
            self.healthy += 1;
        }
    }

    fn join(&mut self, other: Counts) {
        self.failing += other.failing;
        self.healthy += other.healthy;
    }

    /// Probability that at least this many failing nodes have a value by chance.
    fn chance(self, has: Counts) -> f64 {
        let (all, with) = (self.failing + self.healthy, has.failing + has.healthy);
        let most = self.failing.min(with);
        let ways = |failing: usize| {
            ln_choose(with, failing) + ln_choose(all - with, self.failing - failing)
                - ln_choose(all, self.failing)
        };
        (has.failing..=most).filter(|n| self.failing - n <= all - with).map(|n| ways(n).exp()).sum()
    }
}

/// The logarithm of the number of ways to choose `k` of `n`.
fn ln_choose(n: usize, k: usize) -> f64 {
    let k = k.min(n - k.min(n));
    (0..k).map(|i| ((n - i) as f64).ln() - ((i + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::cluster::node::NodeBody;

    const IMAGES: [&str; 2] = ["Ubuntu 22.04.5 LTS", "Ubuntu 24.04.4 LTS"];
    const KERNELS: [&str; 3] = ["5.15.0", "6.6.52-flatcar", "6.8.0"];

    /// A cheap pseudorandom sequence (xorshift).
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 11).expect("64 bits") % sides
        }
    }

    fn cluster(dice: &mut Dice, nodes: usize) -> Vec<Node> {
        let node = |n: usize| {
            let [image, kernel, zone, pool, rack] = [2, 3, 3, 4, 20].map(|s| dice.roll(s));
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("node-{n}"),
                    "creationTimestamp": format!("2026-11-{:02}T00:00:00Z", dice.roll(28) + 1),
                    "labels": {
                        "kubernetes.io/hostname": format!("node-{n}"),
                        "topology.kubernetes.io/zone": format!("eu-{zone}"),
                        "pool": format!("p{pool}"),
                        "rack": format!("r{rack}"),
                    },
                },
                "status": {"nodeInfo": {"osImage": IMAGES[image], "kernelVersion": KERNELS[kernel]}},
            }))
            .expect("a node")
        };
        (0..nodes).map(node).collect()
    }

    fn split(nodes: &[Node], fails: impl FnMut(&&Node) -> bool) -> (Vec<&Node>, Vec<&Node>) {
        nodes.iter().partition(fails)
    }

    fn body(node: &Node) -> &NodeBody {
        node.body().expect("a whole node")
    }

    #[test]
    fn names_the_attribute_that_makes_nodes_fail() {
        let mut dice = Dice(42);
        for nodes in [200, 1000] {
            let all = cluster(&mut dice, nodes);
            let (failing, healthy) = split(&all, |n| {
                body(n).system.os_image == IMAGES[1] && n.labels.get("pool").is_some_and(|pool| pool == "p1")
            });
            let found = contrasts(&failing, &healthy);
            let two: BTreeSet<&str> = found.iter().take(2).map(|c| c.attribute.as_str()).collect();
            assert_eq!(two, BTreeSet::from(["osImage", "pool"]), "{nodes}: {found:?}");
            let (failing, healthy) = split(&all, |n| body(n).system.kernel_version == KERNELS[1]);
            let first = contrasts(&failing, &healthy).remove(0);
            assert_eq!((first.attribute.as_str(), first.value.as_str()), ("kernelVersion", KERNELS[1]));
            assert_eq!((first.failing, first.healthy), (failing.len(), 0));
        }
    }

    #[test]
    fn says_nothing_where_nodes_fail_at_random() {
        let mut dice = Dice(7);
        let mut loud = 0;
        for round in 0..300 {
            let all = cluster(&mut dice, 20 + round);
            let often = 2 + round % 20;
            let (failing, healthy) = split(&all, |_| dice.roll(often) == 0);
            loud += usize::from(!contrasts(&failing, &healthy).is_empty());
        }
        assert!(loud <= 3, "{loud} of 300 random clusters");
    }

    #[test]
    fn young_nodes_are_told_from_old_ones() {
        let mut dice = Dice(3);
        let mut all = cluster(&mut dice, 100);
        let young: Timestamp = "2026-12-24T00:00:00Z".parse().expect("a time");
        for node in all.iter_mut().step_by(9) {
            node.created = Some(young);
        }
        let (failing, healthy) = split(&all, |n| n.created == Some(young));
        let first = contrasts(&failing, &healthy).remove(0);
        assert_eq!(first.attribute, "created");
        assert_eq!(first.value, "since 2026-12-24T00:00:00Z");
    }

    #[test]
    fn a_perfect_split_of_five_nodes_is_reported() {
        let node = |name: &str, image: &str| -> Node {
            let node = json!({"metadata": {"name": name, "labels": {"pool": image}}, "status": {"nodeInfo": {"osImage": image}}});
            serde_json::from_value(node).expect("a node")
        };
        let failing = ["a", "b", "c"].map(|name| node(name, "Fedora"));
        let healthy = ["d", "e"].map(|name| node(name, "Debian"));
        let (failing, healthy) = (failing.iter().collect::<Vec<_>>(), healthy.iter().collect::<Vec<_>>());
        let found = contrasts(&failing, &healthy);
        let names: Vec<&str> = found.iter().map(|contrast| contrast.attribute.as_str()).collect();
        assert_eq!(names, ["osImage", "pool"]);
        assert_eq!(contrasts(&failing[..2], &healthy), []);
        let mixed = node("f", "Fedora");
        assert_eq!(contrasts(&failing, &[healthy[0], healthy[1], &mixed]), []);
    }

    #[test]
    fn a_few_nodes_prove_nothing() {
        let mut dice = Dice(11);
        let all = cluster(&mut dice, 6);
        let (failing, healthy) = (all[..2].iter().collect::<Vec<_>>(), all[2..].iter().collect::<Vec<_>>());
        assert_eq!(contrasts(&failing, &healthy), []);
        assert_eq!(contrasts(&failing, &[]), []);
        assert_eq!(contrasts(&[], &healthy), []);
    }
}
