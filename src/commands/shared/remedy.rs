//! The grades and the text of remedies.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::cluster::Cluster;
use crate::commands::shared::command::Run as _;
use crate::commands::{Command, Parser};
use crate::plan::{Grade, Plan};
use crate::rules::Remedy;
use crate::view::shell_words;
use crate::view::text::{self, Line, Span, Text};

/// The grade of a command, and its worst effect in words.
type Graded = (Grade, String);

/// The grades of remedies: those that the previews of their commands show. A command is planned once, and only if its
/// remedy is shown.
pub struct Grades<'a> {
    pub cluster: &'a Cluster,
    /// Number of commands that are planned at most.
    most: usize,
    parser: RefCell<Parser>,
    known: RefCell<HashMap<Vec<String>, Option<Graded>>>,
}

/// Each plan costs a pass over the cluster, and a report may list a remedy for each of thousands of objects.
const MOST_IN_A_REPORT: usize = 50;

impl<'a> Grades<'a> {
    pub fn new(cluster: &'a Cluster) -> Grades<'a> {
        Grades { cluster, most: usize::MAX, parser: RefCell::default(), known: RefCell::default() }
    }

    /// Grades the first fifty commands; later ones have no grade.
    pub fn of_report(cluster: &'a Cluster) -> Grades<'a> {
        Grades { most: MOST_IN_A_REPORT, ..Grades::new(cluster) }
    }

    /// Grades the remedies of a finding. A command that does nothing now follows the command before it.
    pub fn grade(&self, remedies: &mut [Remedy]) {
        for at in 0..remedies.len() {
            if remedies[at].grade.is_some() {
                continue;
            }
            let mut known = self.known.borrow_mut();
            let planned = known.len();
            let grade = known.entry(remedies[at].argv.clone()).or_insert_with(|| {
                let (before, remedy) = (remedies[..at].last(), &remedies[at]);
                (planned < self.most).then(|| self.graded(before, remedy)).flatten()
            });
            (remedies[at].grade, remedies[at].effect) = grade.clone().unzip();
        }
    }

    fn graded(&self, before: Option<&Remedy>, remedy: &Remedy) -> Option<Graded> {
        let mut plan = self.planned(self.cluster, remedy)?;
        match before.filter(|_| plan.is_empty()).and_then(|before| self.planned(self.cluster, before)) {
            Some(before) => {
                let then = before.carried_out(self.cluster);
                plan = self.planned(&then, remedy)?;
                plan.forecast(&then);
            }
            None => plan.forecast(self.cluster),
        }
        let grade = Some(plan.grade()).filter(|_| !plan.is_empty())?;
        Some((grade, plan.consequences.at_worst(grade)))
    }

    /// The plan of a remedy's command; `None` if the command has none, or if it would be refused.
    fn planned(&self, cluster: &Cluster, remedy: &Remedy) -> Option<Plan> {
        self.command(remedy.own()?)?.plan(cluster)?.ok()
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

/// The worst effect and its grade: `packages run again, B2`.
fn remedy_grade(remedy: &Remedy) -> Span {
    let effect = remedy.worst_effect();
    match remedy.grade {
        Some(grade @ (Grade::B0 | Grade::B1)) => text::dim(format!("{effect}, {grade}")),
        Some(grade @ (Grade::B2 | Grade::B3)) => text::warning(format!("{effect}, {grade}")),
        Some(Grade::B4) => text::error(format!("{effect}, B4")),
        None => text::warning(effect.to_owned()),
    }
}
