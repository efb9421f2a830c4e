//! The progress line, and notices about throttling.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::apply::{ApplyEvent, StepResult};
use crate::plan::Plan;
use crate::screen;
use crate::view::plural;

/// The progress of applying a plan.
pub struct Progress {
    bar: ProgressBar,
    failed: usize,
    /// Whether throttling was reported.
    throttled: bool,
}

impl Progress {
    pub fn of(plan: &Plan, terminal: bool) -> Progress {
        let steps = plan.steps().filter(|step| plan.is_work(step)).count();
        // A single step ends before anybody could read the line.
        let target =
            if terminal && steps > 1 { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(u64::try_from(steps).ok(), target);
        let style = ProgressStyle::with_template("{pos}/{len} objects  {rate}  {msg}");
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Ignore write errors of the progress bar.
            let _ = write!(out, "{:.1}/s", state.per_sec());
        };
        bar.set_style(style.expect("the template is sound").with_key("rate", rate));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, failed: 0, throttled: false }
    }

    pub fn on_event(&mut self, event: &ApplyEvent<'_>) {
        match event {
            ApplyEvent::Step { step, result, .. } => {
                self.failed +=
                    usize::from(matches!(result, StepResult::Failed { .. } | StepResult::Unknown { .. }));
                if self.failed > 0 {
                    self.bar.set_message(format!("{} failed", self.failed));
                }
                self.bar.inc(u64::from(!step.change.is_hold()));
            }
            ApplyEvent::Throttled { wait } => self.throttled(*wait),
            ApplyEvent::Waiting { until } => {
                self.bar.set_message(format!("waiting until {}", until.describe()))
            }
            ApplyEvent::Pausing { pause, left, .. } => {
                let seconds = pause.as_secs();
                self.bar.set_message(format!("{} left; pausing for {seconds} s", plural(*left, "node")));
            }
            _ => {}
        }
    }

    /// Shows the wait in the progress line, and once on its own line: a silent wait looks like a hang.
    fn throttled(&mut self, wait: Duration) {
        let seconds = wait.as_secs_f32().ceil();
        let message = format!("throttled by the API server, retrying in {seconds} s");
        if !std::mem::replace(&mut self.throttled, true) {
            self.bar.suspend(|| screen::trace(&message));
        }
        self.bar.set_message(message);
    }

    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
