//! The grades and the text of remedies.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::cluster::Cluster;
use crate::commands::shared::command::Run as _;
use crate::commands::{Command, Parser};
use crate::plan::{Baseline, Grade, Plan};
use crate::rules::Remedy;
use crate::view::shell_words;
use crate::view::text::{self, Line, Span, Text};

/// The result of planning a command.
#[derive(Clone)]
enum Graded {
    /// Its grade, and the worst effect in words.
    As(Grade, String),
    Nothing,
    /// The command would be refused.
    Refused(String),
    /// The command has no plan, or too many commands were planned before.
    Unknown,
}

/// The grades of remedies: those that the previews of their commands show. A command is planned once, and only if its
/// remedy is shown.
pub struct Grades<'a> {
    pub before: Baseline<'a>,
    /// Number of commands that are planned at most.
    pub most: usize,
    parser: RefCell<Parser>,
    /// By the command that is carried out before, if any, and the command.
    known: RefCell<HashMap<[Vec<String>; 2], Graded>>,
}

/// Maximum number of commands that one run plans: each costs a simulation of the cluster, and there may be a remedy for
/// each of thousands of objects. The time of a simulation grows with the square of the packages of a custom resource.
fn most_plans(cluster: &Cluster) -> usize {
    let packages = cluster.skyhooks.iter().map(|skyhook| skyhook.packages().count());
    (5000 / packages.max().unwrap_or(0).max(1)).clamp(1, 50)
}

impl<'a> Grades<'a> {
    pub fn new(cluster: &'a Cluster) -> Grades<'a> {
        let before = Baseline::of(cluster);
        Grades { before, most: usize::MAX, parser: RefCell::default(), known: RefCell::default() }
    }

    /// Grades at most [`most_plans`] commands; later ones have no grade.
    pub fn of_report(cluster: &'a Cluster) -> Grades<'a> {
        Grades { most: most_plans(cluster), ..Grades::new(cluster) }
    }

    /// Grades the remedies of a finding. A command without an effect now is planned after the command before it.
    pub fn grade(&self, remedies: &mut [Remedy]) {
        for at in 0..remedies.len() {
            if remedies[at].grade.is_some() {
                continue;
            }
            let alone = self.graded(None, &remedies[at]);
            let graded = match remedies[..at].last() {
                Some(before) if matches!(alone, Graded::Nothing) => self.graded(Some(before), &remedies[at]),
                _ => alone,
            };
            (remedies[at].grade, remedies[at].effect) = match graded {
                Graded::As(grade, effect) => (Some(grade), Some(effect)),
                Graded::Nothing => (None, Some("currently changes nothing".to_owned())),
                Graded::Refused(why) => (None, Some(format!("currently refused: {why}"))),
                Graded::Unknown => (None, None),
            };
        }
    }

    fn graded(&self, before: Option<&Remedy>, remedy: &Remedy) -> Graded {
        let key = [before.map(|remedy| remedy.argv.clone()).unwrap_or_default(), remedy.argv.clone()];
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let graded = if self.known.borrow().len() < self.most {
            self.planned(before, remedy).unwrap_or(Graded::Unknown)
        } else {
            Graded::Unknown
        };
        self.known.borrow_mut().insert(key, graded.clone());
        graded
    }

    fn planned(&self, before: Option<&Remedy>, remedy: &Remedy) -> Option<Graded> {
        let Some(before) = before else {
            return self.planned_on(&self.before, remedy);
        };
        let cluster = self.before.cluster;
        let then = self.plan(before.own()?)?.carried_out(cluster);
        self.planned_on(&Baseline::of(&then), remedy)
    }

    fn planned_on(&self, before: &Baseline<'_>, remedy: &Remedy) -> Option<Graded> {
        let mut plan = match self.command(remedy.own()?)?.plan(before.cluster)? {
            Ok(plan) => plan,
            Err(error) => {
                let why = error.message.trim_end_matches("; nothing was changed").to_owned();
                return Some(Graded::Refused(why));
            }
        };
        if plan.is_empty() {
            return Some(Graded::Nothing);
        }
        plan.forecast(before);
        let grade = plan.grade();
        Some(Graded::As(grade, plan.consequences.at_worst(grade)))
    }

    /// The plan of a command; `None` if the words are none, or the command has no plan or is refused.
    pub fn plan(&self, words: &[String]) -> Option<Plan> {
        self.command(words)?.plan(self.before.cluster)?.ok()
    }

    /// A command of this plugin; `None` if the words are none.
    pub fn command(&self, words: &[String]) -> Option<Command> {
        self.parser.borrow_mut().parse(words).ok()
    }
}

/// The title and grade of a remedy, after a mark such as `1. `; below them the command, the nodes to repeat
/// the command on, and the caveats.
pub fn remedy_text(mark: &str, remedy: &Remedy, repeat: Option<String>) -> Text {
    let mut text = Text::new();
    let title = Line::from(remedy.title.as_str());
    // The command of such a remedy only reads; what its title asks for may do more.
    let title = if remedy.changes() { title + " (" + remedy_grade(remedy) + ")" } else { title };
    text.item(mark, title);
    let mut command = Text::new();
    command.line(text::command(shell_words(&remedy.argv)));
    if let Some(repeat) = repeat {
        command.paragraph(text::dim(repeat));
    }
    if let Some(caveat) = &remedy.caveat {
        command.paragraph(text::dim(format!("note: {caveat}")));
    }
    text.indented(if mark.is_empty() { 2 } else { 5 }, command);
    text
}

/// The command with its worst effect as a comment: `kubectl skyhook resume gpu  # packages run; B2`.
pub fn command_with_grade(remedy: &Remedy) -> Line {
    let command = Line::from(text::command(shell_words(&remedy.argv)));
    if remedy.changes() { command + text::dim("  # ") + remedy_grade(remedy) } else { command }
}

/// The worst effect and its grade: `packages run; B2`.
fn remedy_grade(remedy: &Remedy) -> Span {
    let effect = remedy.worst_effect();
    match remedy.grade {
        Some(grade @ (Grade::B0 | Grade::B1)) => text::dim(format!("{effect}; {grade}")),
        Some(grade @ (Grade::B2 | Grade::B3)) => text::warning(format!("{effect}; {grade}")),
        Some(Grade::B4) => text::error(format!("{effect}; B4")),
        None => text::warning(effect.to_owned()),
    }
}
