use crate::rules::Subject;

/// The text for a subject: `Skyhook gpu-tune, package driver`.
pub(super) fn subject_text(subject: &Subject) -> String {
    let mut text = format!("{} {}", subject.kind, subject.name);
    if let Some(package) = &subject.package {
        text += &format!(", package {package}");
    }
    if let Some(compartment) = &subject.compartment {
        text += &format!(", compartment {compartment}");
    }
    text
}
