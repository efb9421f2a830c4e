//! OpenMetrics text for node_exporter's textfile collector.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge as Value;
use prometheus_client::registry::Registry;

/// Label names and values of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// Prefix of every metric.
const PREFIX: &str = "kubectl_skyhook";

/// Gauges, in the order in which they are added.
#[derive(Debug, Default)]
pub struct Metrics(Vec<Gauge>);

#[derive(Debug)]
struct Gauge {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels, u64)>,
}

impl Metrics {
    /// Adds samples to a gauge. The value of a label set is the sum of its samples; a gauge without samples is omitted.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let samples = samples.into_iter();
        match self.0.iter_mut().find(|gauge| gauge.name == name) {
            Some(gauge) => gauge.samples.extend(samples),
            None => self.0.push(Gauge { name, help, samples: samples.collect() }),
        }
    }

    /// Adds the metrics of one context, with its name as the label `context`.
    pub fn add_context(&mut self, context: &str, metrics: &Metrics) {
        for Gauge { name, help, samples } in &metrics.0 {
            let samples = samples.iter().map(|(labels, value)| {
                let mut labels = labels.clone();
                labels.insert(0, ("context", context.to_owned()));
                (labels, *value)
            });
            self.gauge(name, help, samples);
        }
    }

    /// The text, ending with `# EOF`.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        for gauge in self.0.iter().filter(|gauge| !gauge.samples.is_empty()) {
            let family = Family::<Labels, Value<u64, AtomicU64>>::default();
            for (labels, value) in &gauge.samples {
                family.get_or_create(labels).inc_by(*value);
            }
            registry.register(gauge.name, gauge.help, family);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("writes to a string never fail");
        sorted_samples(&text)
    }
}

/// Sorts the samples of each metric: the library keeps them in a hash map. Values have no line breaks.
fn sorted_samples(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for samples in lines.split_mut(|line| line.starts_with('#')) {
        samples.sort_unstable();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
