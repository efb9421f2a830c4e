//! Node arguments: names, folded sets and globs, narrowed by regular expression and labels.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::Args;
use glob::Pattern;
use regex::Regex;

use super::labels::selector;
use crate::api::{ApiFlavor, LabelSelector};
use crate::view::expand;

/// One node argument: `gpu-0001`, `gpu-[0001-0870]` or `gpu-00*`, optionally after `node/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeArg {
    text: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// A single name, or the names of a folded set: each node must exist.
    Names(Vec<String>),
    Glob(Pattern),
}

impl NodeArg {
    /// The named nodes; `None` for a glob.
    pub fn names(&self) -> Option<&[String]> {
        match &self.form {
            Form::Names(names) => Some(names),
            Form::Glob(_) => None,
        }
    }

    pub fn matches(&self, node: &str) -> bool {
        match &self.form {
            Form::Names(names) => names.iter().any(|name| name == node),
            Form::Glob(glob) => glob.matches(node),
        }
    }
}

impl fmt::Display for NodeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for NodeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeArg, String> {
        let text = node(text)?;
        let form = if let Some(names) = expand(&text) {
            Form::Names(names.map_err(|why| format!("not a valid set of nodes: {why}"))?)
        } else {
            let glob = glob(&text)?;
            if text.contains(['*', '?', '[']) { Form::Glob(glob) } else { Form::Names(vec![text.clone()]) }
        };
        Ok(NodeArg { text, form })
    }
}

const EXPECTED: &str = "expected a node name, a set such as gpu-[01-12], or a glob such as 'gpu-*'; \
                        --match takes regular expressions";

/// Globs of names whose brackets each match one character.
static GLOB: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-.A-Za-z0-9*?]|\[!?[-.A-Za-z0-9]+\])+$").expect("the pattern is valid")
});

/// A range of numbers with several digits, such as `[0001-0870]`. As a character class, it would match only the digits
/// 0, 7 and 8.
static NUMBER_RANGE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[!?(?:[0-9]{2,}-[0-9]+|[0-9]+-[0-9]{2,})\]").expect("the pattern is valid")
});

fn glob(text: &str) -> Result<Pattern, String> {
    if !GLOB.is_match(text) {
        return Err(EXPECTED.to_owned());
    }
    if let Some(range) = NUMBER_RANGE.find(text) {
        let range = range.as_str();
        return Err(format!("{range} is a range of numbers, but in a glob, brackets match one character"));
    }
    Pattern::new(text).map_err(|error| error.msg.to_owned())
}

/// Parses a regular expression that matches whole names.
fn pattern(text: &str) -> Result<Regex, String> {
    whole(text).map_err(|e| e.to_string())
}

/// Compiles a regular expression that matches whole names.
///
/// # Errors
///
/// The text is not a regular expression.
pub fn whole(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(&format!("^(?:{text})$"))
}

/// The nodes that the arguments and flags of a command select; all nodes if none are given.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeQuery<'a> {
    pub named: &'a [NodeArg],
    pub pattern: Option<&'a Regex>,
    pub selector: Option<&'a LabelSelector>,
}

impl NodeQuery<'_> {
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.pattern.is_none() && self.selector.is_none()
    }
}

/// Nodes as positional arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct AnyNodes {
    /// Node names, sets such as gpu-[01-12], or globs such as 'gpu-*'; default: all nodes
    #[arg(value_name = "NODE")]
    pub nodes: Vec<NodeArg>,

    /// Only nodes whose full name matches the regular expression
    #[arg(long = "match", value_name = "REGEX", value_parser = pattern)]
    pub pattern: Option<Regex>,

    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<LabelSelector>,
}

impl AnyNodes {
    pub fn query(&self) -> NodeQuery<'_> {
        NodeQuery { named: &self.nodes, pattern: self.pattern.as_ref(), selector: self.selector.as_ref() }
    }
}

/// [`AnyNodes`] for commands that require a selection.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("nodes", |nodes| {
    nodes
        .required_unless_present_any(["pattern", "selector"])
        .help("Node names, sets such as gpu-[01-12], or globs such as 'gpu-*'")
}))]
pub struct SomeNodes {
    #[command(flatten)]
    nodes: AnyNodes,
}

impl SomeNodes {
    pub fn query(&self) -> NodeQuery<'_> {
        self.nodes.query()
    }
}

/// Nodes as flags.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeFlags {
    /// Only this node, a set such as gpu-[01-12], or a glob such as 'gpu-*'; may be repeated
    #[arg(long, value_name = "NODE")]
    pub node: Vec<NodeArg>,

    /// Only nodes whose full name matches the regular expression
    #[arg(long = "match", value_name = "REGEX", value_parser = pattern)]
    pub pattern: Option<Regex>,
}

impl NodeFlags {
    /// The regular expression as it was typed.
    pub fn pattern_text(&self) -> Option<&str> {
        self.pattern.as_ref()?.as_str().strip_prefix("^(?:")?.strip_suffix(")$")
    }

    pub fn query(&self) -> NodeQuery<'_> {
        NodeQuery { named: &self.node, pattern: self.pattern.as_ref(), selector: None }
    }
}

/// Nodes as flags, with a label selector.
#[derive(Debug, Clone, Default, Args)]
pub struct OnNodes {
    #[command(flatten)]
    pub flags: NodeFlags,

    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<LabelSelector>,
}

impl OnNodes {
    pub fn query(&self) -> NodeQuery<'_> {
        NodeQuery { selector: self.selector.as_ref(), ..self.flags.query() }
    }
}

/// The name of a custom resource: `gpu-tune`, `skyhook/gpu-tune`, `nodewrights.GROUP/gpu-tune`.
///
/// # Errors
///
/// The name is missing, or the type does not match.
pub fn skyhook(text: &str) -> Result<String, String> {
    let types = ApiFlavor::ALL.map(names_of_type).concat();
    match text.split_once(',') {
        None => of(text, &types),
        Some(_) => Err("separate names with spaces".to_owned()),
    }
}

/// `skyhook`, `skyhooks`, `sk` and `skyhooks.GROUP`; or those of the newer API.
pub fn names_of_type(flavor: ApiFlavor) -> [String; 4] {
    let short = match flavor {
        ApiFlavor::Skyhook => "sk",
        ApiFlavor::NodeWright => "nw",
    };
    [flavor.kind().to_lowercase(), flavor.plural().to_owned(), short.to_owned(), flavor.resource()]
}

/// The name of a node, or a pattern of names: `node-1`, `node/node-1`, `node/gpu-[1-3]`.
///
/// # Errors
///
/// The name is missing, or the type does not match.
pub fn node(text: &str) -> Result<String, String> {
    let types = ["node".to_owned(), "nodes".to_owned()];
    // In brackets, a slash separates the step of a set: `gpu-[1-9/2]`.
    match text.find('[').map(|at| text.split_at(at)) {
        None => of(text, &types),
        Some((before, _)) if !before.contains('/') => Ok(text.to_owned()),
        Some((before, set)) => Ok(untyped(before, &types)?.to_owned() + set),
    }
}

/// The id of a journal: `20261120-174612`, `journal/20261120-174612`.
///
/// # Errors
///
/// The id is missing, or the type does not match.
pub fn journal(text: &str) -> Result<String, String> {
    of(text, &["journal".to_owned()])
}

fn of(text: &str, types: &[String]) -> Result<String, String> {
    match untyped(text, types)? {
        "" => Err("expected a name".to_owned()),
        name if name.contains('/') => Err(format!("{name:?} is not a valid name")),
        name => Ok(name.to_owned()),
    }
}

/// Removes the type from `TYPE/NAME`.
fn untyped<'a>(text: &'a str, types: &[String]) -> Result<&'a str, String> {
    match text.split_once('/') {
        Some((of, name)) if types.iter().any(|known| known.eq_ignore_ascii_case(of)) => Ok(name),
        Some(_) if std::path::Path::new(text).exists() => {
            Err("this is a path: captures are read with --from PATH".to_owned())
        }
        Some((of, name)) => {
            let node = of
                .eq_ignore_ascii_case("node")
                .then(|| format!("; the node: kubectl skyhook diagnose node {name}"));
            Err(format!("expected NAME or {}/NAME{}", types[0], node.unwrap_or_default()))
        }
        None => Ok(text),
    }
}

/// The custom resource that a package belongs to.
#[derive(Debug, Clone, Args)]
pub struct OfSkyhook {
    /// The custom resource
    #[arg(long, value_name = "NAME", alias = "nodewright", required = true, value_parser = skyhook)]
    pub skyhook: String,
}

/// The custom resource of a command; by default, the only one that fits.
#[derive(Debug, Clone, Args)]
pub struct OnlySkyhook {
    /// The custom resource; required if several fit
    #[arg(long, value_name = "NAME", alias = "nodewright", value_parser = skyhook)]
    pub skyhook: Option<String>,
}

/// The nodes of a change; by default, all nodes with keys of the custom resource.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Node options")]
pub struct Selection {
    #[command(flatten)]
    on: OnNodes,

    /// Only failed nodes
    #[arg(long)]
    pub failed_only: bool,
}

impl Selection {
    pub fn query(&self) -> NodeQuery<'_> {
        self.on.query()
    }

    /// Whether no flag restricts the nodes.
    pub fn is_everything(&self) -> bool {
        self.query().is_empty() && !self.failed_only
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NodeArg, String> {
        text.parse()
    }

    #[test]
    fn names_and_sets_name_each_node() {
        for (text, names) in [
            ("gpu-1", &["gpu-1"][..]),
            ("node/ip-10-0-0-1.ec2.internal", &["ip-10-0-0-1.ec2.internal"]),
            ("n[08-10]", &["n08", "n09", "n10"]),
            ("a,n[0-1]", &["a", "n0", "n1"]),
            ("n[1-5/2]", &["n1", "n3", "n5"]),
            ("nodes/n[01-05/4]-x", &["n01-x", "n05-x"]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(parse(text).map(|arg| arg.names().map(<[_]>::to_vec)), Ok(Some(names)));
        }
    }

    #[test]
    fn globs_match_whole_names() {
        let nodes = ["n1", "n02", "n020", "n29", "xn02", "n02.example"];
        for (text, expected) in [
            ("n02*", &["n02", "n020", "n02.example"][..]),
            ("n??", &["n02", "n29"]),
            ("*.example", &["n02.example"]),
            ("n[02]?", &["n02", "n29"]),
            ("n[!0]?", &["n29"]),
            ("n[1-2]*", &["n1", "n29"]),
            ("*", &nodes),
            ("n02.*", &["n02.example"]),
        ] {
            let arg = parse(text).expect(text);
            assert_eq!(arg.names(), None, "{text}");
            let matched: Vec<&str> = nodes.into_iter().filter(|n| arg.matches(n)).collect();
            assert_eq!(matched, expected, "{text}");
        }
    }

    /// Recognizable regular expressions are refused: as globs, they would select other nodes.
    #[test]
    fn other_patterns_are_refused() {
        for text in [
            "a|b",
            "(a)",
            "a+",
            "^a$",
            "a\\d",
            "n[0-9]{2}",
            "n[0-9]+",
            "n[^1]",
            "n[[:digit:]]",
            "n(1|2)*",
            "a,b*",
            "n[1-",
            "n[]",
            "a_b",
            "a b",
        ] {
            assert_eq!(parse(text), Err(EXPECTED.to_owned()), "{text}");
        }
        for text in ["pod/n[1-5/2]", "pod/n[1-5]"] {
            assert_eq!(parse(text), Err("expected NAME or node/NAME".to_owned()), "{text}");
        }
        assert_eq!(
            parse("n[0001-0870]*"),
            Err("[0001-0870] is a range of numbers, but in a glob, brackets match one character".to_owned())
        );
        assert_eq!(parse("n[21-13]"), Err("not a valid set of nodes: range 21-13 is reversed".to_owned()));
    }

    #[test]
    fn a_type_may_stand_before_a_name() {
        for text in [
            "x",
            "skyhook/x",
            "Skyhook/x",
            "nodewrights/x",
            "sk/x",
            "nw/x",
            &format!("{}/x", ApiFlavor::Skyhook.resource()),
        ] {
            assert_eq!(skyhook(text), Ok("x".to_owned()), "{text}");
        }
        for text in ["", "skyhook/", "node/x", "/x", "a/b/c"] {
            assert!(skyhook(text).is_err(), "{text}");
        }
        assert_eq!(node("node/n[0-11]"), Ok("n[0-11]".to_owned()));
        assert_eq!(node("skyhook/x"), Err("expected NAME or node/NAME".to_owned()));
        assert_eq!(journal("journal/2026"), Ok("2026".to_owned()));
    }
}
