//! OpenMetrics text, as node_exporter's textfile collector reads it.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Label names and values of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// Prefix of every metric.
const PREFIX: &str = "kubectl_skyhook";

/// Gauges, in the order in which they are added.
#[derive(Default)]
pub struct Metrics(Registry);

impl Metrics {
    pub fn new() -> Metrics {
        Metrics(Registry::with_prefix(PREFIX))
    }

    /// Adds a gauge with the sum of the values of each label set. A gauge without samples is left out.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let family = Family::<Labels, Gauge<u64, AtomicU64>>::default();
        for (labels, value) in samples {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    /// The text; it ends with `# EOF`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.0).expect("a string takes every text");
        sorted_samples(&text)
    }
}

/// The samples of each metric in order: the library keeps them in a hash map. Values have no line breaks.
fn sorted_samples(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for samples in lines.split_mut(|line| line.starts_with('#')) {
        samples.sort_unstable();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
