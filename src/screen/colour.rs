//! Whether output is colored, and the style of each label.

use owo_colors::Style;

use crate::args::output::ColorChoice;
use crate::view::text::{Label, Line};

/// The environment's settings for colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColourSettings {
    pub never: bool,
    pub always: bool,
    pub dumb: bool,
}

impl ColourSettings {
    /// Reads the environment; see <https://no-color.org>, <https://bixense.com/clicolors> and
    /// <https://force-color.org>.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> ColourSettings {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let on = |name| set(name) && variable(name).as_deref() != Some("0");
        ColourSettings {
            never: set("NO_COLOR"),
            always: on("CLICOLOR_FORCE") || on("FORCE_COLOR"),
            dumb: variable("TERM").as_deref() == Some("dumb"),
        }
    }

    pub fn colour(self, choice: ColorChoice, terminal: bool) -> bool {
        match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if self.never => false,
            ColorChoice::Auto => self.always || (terminal && !self.dumb),
        }
    }
}

pub(super) fn coloured(line: &Line) -> String {
    let spans = line.spans.iter();
    spans.map(|span| style(span.label).style(&span.text).to_string()).collect()
}

/// The style of a label: the only mapping from meanings to terminal colors.
fn style(label: Label) -> Style {
    let style = Style::new();
    match label {
        Label::Plain => style,
        Label::Error => style.red().bold(),
        Label::Warning => style.yellow(),
        Label::Info => style.blue(),
        Label::Good => style.green(),
        Label::Heading => style.bold(),
        Label::Dim => style.dimmed(),
        Label::Command => style.bold(),
        Label::Name => style.cyan(),
        Label::Tint(which) => match which % 6 {
            0 => style.cyan(),
            1 => style.green(),
            2 => style.magenta(),
            3 => style.yellow(),
            4 => style.blue(),
            _ => style.bright_black(),
        },
    }
}
