//! The question before a change, the harder the more it may do.

use std::io::IsTerminal;

use crate::error::{Error, Exit, Result};
use crate::plan::{Grade, Plan};
use crate::view::count;

/// What must be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// y or N.
    YesNo,
    /// These words, typed.
    Type(String),
}

impl Question {
    /// The question that a plan of this grade asks.
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

    /// Asks, on the terminal.
    ///
    /// # Errors
    ///
    /// There is no terminal, or the answer is no.
    pub fn ask(&self, plan: &Plan) -> Result<()> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(refused(
                "not confirmed, and there is no terminal to ask on; nothing was changed",
            )
            .hint("add --confirm, or look first with --dry-run"));
        }
        let answered = match self {
            Question::YesNo => dialoguer::Confirm::new()
                .with_prompt("Go ahead?")
                .default(false)
                .interact_opt()
                .map(|answer| answer == Some(true)),
            Question::Type(words) => {
                let what = match plan.nodes().len() {
                    0 => "the name".to_owned(),
                    nodes if plan.grade() == Grade::B4 => {
                        format!("the name and the number of nodes ({})", count(nodes))
                    }
                    _ => "the name".to_owned(),
                };
                dialoguer::Input::<String>::new()
                    .with_prompt(format!("To go ahead, type {what}: {words}"))
                    .allow_empty(true)
                    .interact_text()
                    .map(|answer| answer.trim() == words)
            }
        };
        match answered {
            Ok(true) => Ok(()),
            Ok(false) => Err(refused("not confirmed; nothing was changed")),
            Err(error) => Err(refused(&format!(
                "no answer ({error}); nothing was changed"
            ))),
        }
    }
}

fn refused(message: &str) -> Error {
    Error {
        exit: Exit::Refused,
        ..Error::failed(message)
    }
}
