use proptest::prelude::*;
use serde_json::json;

use super::*;

fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {"a.b/c": "dotted", "json": "{\"x\":1}", "quote": "it's \"so\"", "zz": "1"},
            "labels": {"rank": "2", "zone": "a"},
            "name": "gpu-1",
        },
        "spec": {
            "podCIDRs": ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"],
            "taints": [
                {"effect": "NoSchedule", "key": "k1", "value": "v1"},
                {"effect": "NoExecute", "key": "k2"},
                {"effect": "NoSchedule", "key": "k3", "value": "v3"},
            ],
            "unschedulable": true,
        },
        "status": {
            "conditions": [
                {"reason": "KubeletReady", "status": "True", "type": "Ready"},
                {"status": "False", "type": "DiskPressure"},
            ],
            "images": [
                {"names": ["a", "b"], "sizeBytes": 100},
                {"names": ["c"], "sizeBytes": 2_500_000},
            ],
        },
    })
}

fn text(template: &str) -> String {
    let path = JsonPath::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    path.text(&node()).expect(template).text
}

fn check(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(text(template), *expected, "{template}");
    }
}

/// Templates that kubectl refuses, or for which it prints nothing.
#[test]
fn goes_beyond_kubectl() {
    check(&[
        (".metadata.name", "gpu-1"),
        ("metadata.name", "gpu-1"),
        ("{metadata.name}", "gpu-1"),
        ("['metadata'].name", "gpu-1"),
        ("$.spec.taints[*].key", "k1 k2 k3"),
        ("{.metadata.annotations['a.b/c']}", "dotted"),
        (r#"{.metadata["annotations"]["a.b/c"]}"#, "dotted"),
        ("{.metadata.labels[*]}", "2 a"),
        ("{.spec.taints[ 0 ].key}", "k1"),
        ("{.metadata.name.*}", ""),
        ("{.status.images[?(@.names[1])].sizeBytes}", "100"),
        ("{.status.images[?(@.sizeBytes>1000.5)].names}", r#"["c"]"#),
        ("{.status.images[?(@.nope==null)].names}", ""),
        (
            r#"{.status[?(@[0].type=="Ready")][1].type}{.status.images[?(@.names[?(@=="b")])].sizeBytes}"#,
            "DiskPressure100",
        ),
    ]);
    assert_eq!(text("{.}"), node().to_string());
    assert_eq!(text("{}"), node().to_string());
}

#[test]
fn errors_point_at_the_place() {
    let cases = [
        ("{.metadata.name", "unclosed `{` at character 1"),
        ("{.spec.taints[0}", "expected `,` or `]`, found `}` at character 16, after `{.spec.taints[0`"),
        ("{.a[", "unclosed `[` at character 4, after `{.a`"),
        ("x{end}", "`{end}` without `{range}` at character 2, after `x`"),
        ("{.a,.b}", "expected `}`, found `,` at character 4, after `{.a`"),
        ("{{.a}}", "expected `}`, found `{` at character 2, after `{`"),
        ("{.a.}", "expected a key, found `}` at character 5, after `{.a.`"),
        ("{.a..}", "expected a key, found `}` at character 6, after `{.a..`"),
        ("{\"a}", "unclosed quote at character 2, after `{`"),
        ("{\"bad\\q\"}", "unknown escape sequence at character 7, after `{\"bad\\`"),
        ("{.a['b}", "unclosed quote at character 5, after `{.a[`"),
        (
            "{.metadata[name]}",
            "expected an index, a slice, a key in quotes, `*` or `?(filter)`, found `n` at character 12, after `{.metadata[`",
        ),
        ("{.a[1.5]}", "expected `,` or `]`, found `.` at character 6, after `{.a[1`"),
        ("{.a[99999999999]}", "invalid index at character 5, after `{.a[`"),
        ("{.a[::0]}", "invalid slice step, expected 1 or more, at character 5, after `{.a[`"),
        ("{.a[?(@.b==\"c\"]}", "expected `)`, found `]` at character 15, after `{.a[?(@.b==\"c\"`"),
        ("{.a[?(@.b==\"c\")}", "expected `]`, found `}` at character 16, after `{.a[?(@.b==\"c\")`"),
        (
            "{.a[?(@.b=~\"c\")]}",
            "unknown operator `=~`, expected ==, !=, <, <=, > or >=, at character 7, after `{.a[?(`",
        ),
        ("{.a[?(@.b==c)]}", "missing quotes around `c` at character 12, after `{.a[?(@.b==`"),
        (
            "{.a[?(@.b==\"c\" && @.d)]}",
            "unsupported second condition in a filter, as in kubectl, at character 16, after `{.a[?(@.b==\"c\" `",
        ),
        ("{.a[?(\"b\")]}", "expected a comparison, found `)` at character 10, after `{.a[?(\"b\"`"),
        (
            "{.a[?(@.b[*]==\"c\")]}",
            "comparison with a path that can match several values at character 7, after `{.a[?(`",
        ),
        (
            "{.a}, {.b} and {.c} and {.d} and {.e",
            "unclosed `{` at character 34, after `…} and {.c} and {.d} and `",
        ),
    ];
    for (template, expected) in cases {
        let error = JsonPath::parse(template).expect_err(template);
        assert_eq!(error.to_string(), expected, "{template}");
    }
    let deep = "{range .a}".repeat(100_000);
    let error = JsonPath::parse(&deep).expect_err("too deep");
    assert_eq!(
        error.to_string(),
        "too many nested `{range}` at character 321, after `… .a}{range .a}{range .a}`"
    );
    let deep = format!("{{.a[?({}", "(".repeat(100_000));
    assert!(JsonPath::parse(&deep).is_err());
    let deep = "{.a[?(@".to_owned() + &"[?(@".repeat(100_000);
    assert!(JsonPath::parse(&deep).is_err());
}

fn templates() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "?(",
        "[?(",
        ")]",
        ".",
        "..",
        "*",
        "@",
        "$",
        ",",
        ":",
        "-1",
        "0",
        "2",
        "-",
        "'",
        "\"",
        "\\",
        " ",
        "key",
        "spec",
        "taints",
        "range",
        "end",
        "{end}",
        "{range ",
        "==",
        "!=",
        "<",
        "&&",
        "||",
        "!",
        "true",
        "null",
        "é",
        "\n",
        "{.spec.taints",
        "status",
        "images",
        "names",
        "\\u",
        "1.5",
        "99999999999999999999",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat()), any::<String>(),]
}

/// Number of fuzzed cases; FUZZ_CASES overrides the small default.
fn cases() -> u32 {
    std::env::var("FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
}

/// Evaluates a template in all its uses.
fn used(template: &str) {
    if let Ok(path) = JsonPath::parse(template) {
        let _ = path.text(&node());
        let _ = path.json(&node());
    }
    let _ = crate::view::format::Columns::parse(template).map(|c| c.table(&node()).map(|table| table.len()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_template_panics(template in templates()) {
        used(&template);
    }
}

#[test]
fn no_template_of_the_corpus_panics() {
    let corpus = include_str!("../../../tests/corpora/jsonpath.jsonl");
    for line in corpus.lines() {
        used(&serde_json::from_str::<String>(line).expect("a JSON string a line"));
    }
}

#[test]
fn no_index_is_the_first_and_a_brace_that_closes_nothing_is_text() {
    assert_eq!(text("{.status.images[].names[]}"), "a");
    assert_eq!(text("}"), "}");
    assert_eq!(text("{.metadata.name}}"), "gpu-1}");
    let none = JsonPath::parse("{.items[]}").expect("a path");
    assert!(none.text(&json!({"items": []})).is_err());
}

#[test]
fn a_template_whose_paths_find_nothing_is_told_from_an_empty_text() {
    for (template, matched) in [
        ("{.nope}", false),
        (".nope", false),
        ("{.metadata.nope}{.metadata.name}", false),
        (r#"{range .spec.taints[*]}{.nope}{"\n"}{end}"#, false),
        (r#"{range .spec.taints[*]}{.value}{"\n"}{end}"#, true),
        (r#"{range .nope[*]}{.value}{end}"#, false),
        (r#"{.spec.taints[?(@.key=="k9")].key}"#, false),
        (r#"text{"\n"}"#, true),
        ("{}", true),
    ] {
        let path = JsonPath::parse(template).expect(template);
        assert_eq!(path.text(&node()).expect(template).matched, matched, "{template}");
        assert_eq!(path.json(&node()).expect(template).matched, matched, "{template}");
    }
}

#[test]
fn what_data_says_is_harmless_and_what_the_template_says_is_as_it_is() {
    let path = JsonPath::parse(r#"{.a}{"\x1b[0m"}"#).expect("a path");
    let printed = path.text(&json!({"a": "\u{1b}[31m\u{202e}x\n"})).expect("it fits");
    assert_eq!(printed.text, "^[[31m<U+202E>x\n\u{1b}[0m");
}
