//! Writes findings as marks, the notation of the fixtures.

use serde::Serialize;
use serde_json::Value;

/// `SKY101 node-2 gpu-tune driver`: the code, the severity where it is not error, the name of the
/// subject, the custom resource if it is another, and the package.
pub fn of_finding(code: &str, severity: impl Serialize, subject: impl Serialize) -> String {
    of_document(&serde_json::json!({"code": code, "severity": severity, "subject": subject}))
}

/// The mark of a finding in a Diagnosis document.
pub fn of_document(finding: &Value) -> String {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let subject = &finding["subject"];
    let mut words = vec![word(&finding["code"]).expect("a code")];
    words.extend(word(&finding["severity"]).map(|s| s.to_lowercase()).filter(|s| s != "error"));
    words.extend(word(&subject["name"]));
    words.extend(word(&subject["skyhook"]).filter(|_| subject["skyhook"] != subject["name"]));
    words.extend(word(&subject["package"]));
    words.join(" ")
}
