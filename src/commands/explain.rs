use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::shared::command::command;
use super::shared::rule::{self, Document, find_rule};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::lint;
use crate::plan::Grade;
use crate::view::text::{self, Text};
use crate::view::{Items, Joined, List, View, document, list};

/// Explain a rule: what it means, how to confirm it, how to fix it
///
/// Also explains the grades that previews and remedies carry, from B0 to B4, and the terms of the glossary.
/// Without an argument, lists the rules of `diagnose stuck` and `lint`; those from SKY801 on are about
/// manifests. Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook explain
  kubectl skyhook explain SKY101
  kubectl skyhook explain migration-hold
  kubectl skyhook explain SKY101 --markdown > runbook.md
  kubectl skyhook explain B4
  kubectl skyhook explain compartment")]
pub struct Args {
    /// Code or name of the rule, a grade, or a term of the glossary; default: list the rules
    #[arg(value_name = "CODE|NAME|TERM")]
    topics: Vec<String>,

    /// Print Markdown, for a ticket or a runbook
    #[arg(long, requires = "topics")]
    markdown: bool,
}

command! {
    "explain": Args => run,
    prints: { "Rules": Items<Document>, "Rule": Document, "Grade": GradeDocument, "Term": TermDocument, "Explanations": Items<Topic> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if args.topics.is_empty() {
        ctx.show(&Rules)?;
        return Ok(Exit::Done);
    }
    let topics: Vec<Topic> = args.topics.iter().map(|t| Topic::named(t)).collect::<Result<_>>()?;
    if args.markdown {
        if ctx.global().output.format.is_data() {
            return Err(Error::usage("--markdown and -o are mutually exclusive"));
        }
        let pages = topics.iter().map(Topic::markdown).joined("\n");
        ctx.print(&pages)?;
        return Ok(Exit::Done);
    }
    ctx.show(&Explanation(topics))?;
    Ok(Exit::Done)
}

/// A term of the glossary.
#[derive(Clone, Serialize, JsonSchema)]
struct TermDocument {
    /// The term.
    term: &'static str,
    /// The definition of the term.
    meaning: String,
}

/// The terms of `docs/glossary.md`.
fn glossary() -> impl Iterator<Item = TermDocument> {
    include_str!("../../docs/glossary.md").split("\n- **").skip(1).filter_map(|entry| {
        let (term, meaning) = entry.split_once("**: ")?;
        Some(TermDocument { term, meaning: meaning.split_whitespace().joined(" ") })
    })
}

/// A grade: the worst effect of a command on the cluster.
#[derive(Serialize, JsonSchema)]
struct GradeDocument {
    /// The grade.
    grade: Grade,
    /// The meaning of the grade.
    meaning: &'static str,
}

/// A rule, a grade or a term, recognizable by its field `code`, `grade` or `term`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TopicDocument")]
enum Topic {
    Rule(Document),
    Grade(GradeDocument),
    Term(TermDocument),
}

impl Topic {
    fn named(name: &str) -> Result<Topic> {
        let is_code = name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit());
        let name = &*if is_code { format!("SKY{name}") } else { name.to_owned() };
        if let Some(grade) = Grade::named(name) {
            return Ok(Topic::Grade(GradeDocument { grade, meaning: grade.meaning() }));
        }
        if let Some(rule) = lint::find(name) {
            return Ok(Topic::Rule(Document::of_lint(rule)));
        }
        let plural = |term: &str| format!("{term}s").eq_ignore_ascii_case(name);
        let named = |term: &str| term.eq_ignore_ascii_case(name) || plural(term);
        match glossary().find(|term| named(term.term)) {
            Some(term) => Ok(Topic::Term(term)),
            None => find_rule(name).map(|rule| Topic::Rule(Document::of(rule))),
        }
    }

    fn text(&self) -> Text {
        let mut text = Text::new();
        match self {
            Topic::Rule(rule) => {
                text.line(
                    text::name(&rule.code)
                        + " "
                        + text::heading(&rule.name)
                        + " ("
                        + rule::severity(rule.severity)
                        + ")",
                );
                if rule.of_manifests {
                    text.line(text::dim("checked by lint, before a manifest is applied"));
                } else if !rule.blocks.is_empty() {
                    text.line(text::dim(blocks(rule)));
                }
                text.blank().indented(2, Text::markdown(rule.docs));
            }
            Topic::Grade(GradeDocument { grade, meaning }) => {
                text.line(text::name(grade) + " (grade): " + *meaning);
                text.blank();
                let mut all = Text::new();
                all.paragraph(
                    "The grade of a plan or remedy shows its worst possible effect on the cluster:",
                );
                for grade in Grade::ALL {
                    all.item("- ", grade_line(grade));
                }
                text.indented(2, all);
            }
            Topic::Term(term) => {
                text.paragraph(text::name(term.term) + ": " + text::prose(&term.meaning));
            }
        }
        text
    }

    fn markdown(&self) -> String {
        match self {
            Topic::Rule(rule) => rule_page(rule),
            Topic::Grade(GradeDocument { grade, meaning }) => {
                let rows = Grade::ALL.map(|grade| format!("- {}\n", grade_line(grade))).concat();
                format!(
                    "# {grade}: {meaning}\n\nThe grade of a plan or remedy shows its worst possible effect on the cluster:\n\n{rows}"
                )
            }
            Topic::Term(term) => format!("# {}\n\n{}\n", term.term, term.meaning),
        }
    }

    fn reference(&self) -> String {
        match self {
            Topic::Rule(rule) => format!("rule/{}", rule.code),
            Topic::Grade(grade) => format!("grade/{}", grade.grade),
            Topic::Term(term) => format!("term/{}", term.term),
        }
    }
}

/// The list of all rules.
struct Rules;

impl View for Rules {
    fn blocks(&self, _wide: bool) -> Text {
        rule::table(&rule::all()).into()
    }

    fn names(&self) -> Vec<String> {
        rule::all().into_iter().map(|rule| format!("rule/{}", rule.code)).collect()
    }

    fn document(&self) -> Value {
        List::new("Rules", rule::all().into_iter()).document()
    }
}

struct Explanation(Vec<Topic>);

impl View for Explanation {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for topic in &self.0 {
            text.blank();
            text.append(topic.text());
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(Topic::reference).collect()
    }

    fn document(&self) -> Value {
        match self.0.as_slice() {
            [Topic::Rule(rule)] => document("Rule", rule),
            [Topic::Grade(grade)] => document("Grade", grade),
            [Topic::Term(term)] => document("Term", term),
            several => List::new("Explanations", several.iter()).document(),
        }
    }
}

/// The effects of a rule's findings: `blocks installs and every reconcile of every custom resource; usually retried
/// automatically`.
fn blocks(rule: &Document) -> String {
    let words: Vec<&str> = rule.blocks.iter().map(|b| b.meaning()).collect();
    let retried = if rule.retried { "; usually retried automatically" } else { "" };
    format!("blocks {}{retried}", list(&words))
}

/// Every page of `docs/codes` by file name: `SKY101.md`.
pub fn pages() -> BTreeMap<String, String> {
    rule::all().iter().map(|rule| (format!("{}.md", rule.code), rule_page(rule))).collect()
}

fn rule_page(rule: &Document) -> String {
    let Document { code, name, severity, .. } = rule;
    let docs = body(rule.docs);
    let diagnose = format!("kubectl skyhook diagnose stuck --rule {code}");
    let (checked, command) = if rule.of_manifests {
        (" Checked by `lint`, before a manifest is applied.".to_owned(), "kubectl skyhook lint -f FILE")
    } else if rule.blocks.is_empty() {
        (String::new(), &*diagnose)
    } else {
        (format!(" It {}.", blocks(rule)), &*diagnose)
    };
    format!(
        "# {code}: {name}\n\n{docs}\n\n## On the command line\n\nSeverity: {severity}.{checked}\n\n    {command}\n    kubectl skyhook explain {code}\n"
    )
}

/// A grade in a list: `B2 (rerun): packages run`.
fn grade_line(grade: Grade) -> String {
    format!("{grade} ({}): {}", grade.word(), grade.meaning())
}

/// A doc comment with its headings one level down, below the title of the page.
fn body(docs: &str) -> String {
    let mut fenced = false;
    let lines = docs.lines().map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        fenced ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !fenced { format!("#{line}") } else { line.to_owned() }
    });
    lines.joined("\n").trim().to_owned()
}
