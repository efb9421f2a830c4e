//! The confirmation of a plan: the higher its grade, the more the user has to type.

use std::io::IsTerminal;

use dialoguer::theme::{SimpleTheme, Theme};

use super::Ctx;
use super::process::{self, Line};
use crate::args::safety::{DryRun, Safety};
use crate::error::{Error, Exit};
use crate::plan::{Grade, Plan};
use crate::screen::Screen;
use crate::view::count;
use crate::view::preview::Preview;

/// The answer that confirms a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `y`.
    YesNo,
    /// Exactly this text.
    Type(String),
}

/// Why a plan was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconfirmed {
    /// The user answered no on the terminal.
    No,
    /// There is no terminal, and standard input holds no `y`.
    Unanswered,
    /// Standard input holds a `y`, but the plan requires a stronger confirmation.
    NotEnough(String),
    Interrupted,
}

impl Question {
    /// The confirmation required for the plan's grade.
    pub fn of(plan: &Plan) -> Question {
        match plan.grade() {
            Grade::B0 | Grade::B1 | Grade::B2 => Question::YesNo,
            Grade::B3 => Question::Type(plan.subject.clone()),
            Grade::B4 => Question::Type(match plan.nodes().len() {
                0 => plan.subject.clone(),
                nodes => format!("{} {nodes}", plan.subject),
            }),
        }
    }

    /// Prompts on stderr and reads a whole line from standard input, with the terminal's line editing.
    /// dialoguer reads single keys and leaves the rest of the line to the shell.
    ///
    /// Without a terminal, a piped line can only answer y or N: a question that asks for a name fails.
    ///
    /// # Errors
    ///
    /// The plan is not confirmed.
    pub async fn ask(&self, plan: &Plan, screen: &mut Screen) -> Result<(), Unconfirmed> {
        let terminal = std::io::stdin().is_terminal();
        if terminal && !screen.can_ask() {
            return Err(Unconfirmed::Unanswered);
        }
        // Catch Ctrl-C before the question is shown.
        let interrupt = process::interrupt();
        screen.prompt(&self.words(plan, terminal));
        let line = process::line(interrupt).await;
        // Start the next output on a new line, even if Enter was not pressed.
        if !matches!(&line, Line::Of(typed) if terminal && typed.ends_with('\n')) {
            screen.prompt("\n");
        }
        let Line::Of(line) = line else {
            return Err(Unconfirmed::Interrupted);
        };
        let yes = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        match (terminal, self) {
            (true, _) if !line.ends_with('\n') => Err(Unconfirmed::No),
            (true, Question::Type(words)) if line.trim() == words => Ok(()),
            (_, Question::YesNo) if yes => Ok(()),
            (true, _) => Err(Unconfirmed::No),
            (false, Question::Type(_)) if yes => {
                Err(Unconfirmed::NotEnough(plan.consequences.at_worst(plan.grade())))
            }
            (false, _) => Err(Unconfirmed::Unanswered),
        }
    }

    fn words(&self, plan: &Plan, terminal: bool) -> String {
        let mut asked = String::new();
        let written = match self {
            Question::Type(words) if terminal => {
                let what = match plan.nodes().len() {
                    nodes if nodes > 0 && plan.grade() == Grade::B4 => {
                        format!("the name and the number of nodes ({})", count(nodes))
                    }
                    _ => "the name".to_owned(),
                };
                let worst = plan.consequences.at_worst(plan.grade());
                let question = format!("Worst effect: {worst}. To confirm, type {what}: {words}");
                SimpleTheme.format_input_prompt(&mut asked, &question, None)
            }
            _ => SimpleTheme.format_confirm_prompt(&mut asked, "Proceed?", Some(false)),
        };
        written.expect("writes to a string never fail");
        asked
    }
}

impl Screen {
    /// Whether the terminal shows the question and accepts the answer.
    pub(super) fn can_ask(&self) -> bool {
        std::io::stdin().is_terminal() && self.err.terminal
    }
}

impl Ctx {
    /// Refuses `--confirm` for a change to files.
    ///
    /// # Errors
    ///
    /// `--confirm` is set with `--from`, and neither `--dry-run` nor `--plan-out` is.
    pub(super) fn refuse_files(&self, safety: &Safety) -> Result<(), Error> {
        let only_looks = safety.dry_run != DryRun::None || safety.plan_out.is_some();
        if self.global.reading.from.is_empty() || !safety.confirm || only_looks {
            return Ok(());
        }
        let reason = "--confirm cannot be used with --from: files cannot be changed";
        Err(Error::usage(reason).hint("use only one of them, or add --dry-run"))
    }

    /// Ends the command without a change and without an error.
    pub(super) fn abort(&mut self, preview: &Preview<'_>) -> Result<Exit, Error> {
        if self.global.output.format.is_data() {
            self.show(preview)?;
        }
        self.note("Aborted.");
        self.note("hint: add --confirm to proceed without a terminal");
        Ok(Exit::Done)
    }
}

impl From<Unconfirmed> for Error {
    fn from(unconfirmed: Unconfirmed) -> Error {
        const HINT: &str = "add --confirm, or preview the change with --dry-run";
        match unconfirmed {
            Unconfirmed::No => Error::unchanged("not confirmed"),
            Unconfirmed::Unanswered => {
                Error::unchanged("not confirmed, and there is no terminal for the prompt").hint(HINT)
            }
            Unconfirmed::NotEnough(worst) => Error::unchanged(format!(
                "y on standard input is not enough to confirm this change ({worst})"
            ))
            .hint(HINT),
            Unconfirmed::Interrupted => {
                Error { exit: Exit::Interrupted, ..Error::failed("interrupted; nothing was changed") }
            }
        }
    }
}
