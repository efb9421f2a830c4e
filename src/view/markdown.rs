//! Doc comments as text: `explain` prints the documentation of rules.

use super::text::{Text, command, heading, prose};

impl Text {
    /// Parses the Markdown that doc comments use: headings, lists, indented or fenced code, `code`.
    ///
    /// Lines of one paragraph are joined, and wrapped to the width of the terminal.
    pub fn markdown(markdown: &str) -> Text {
        let mut text = Text::new();
        let mut open: Option<(String, String)> = None;
        let mut fenced = false;
        // The text of a doc comment begins one blank after its slashes.
        let lines = || markdown.lines().map(str::trim_end);
        let padded = lines().all(|line| line.is_empty() || line.starts_with(' '));
        for line in lines() {
            let line = if padded { line.strip_prefix(' ').unwrap_or(line) } else { line };
            if line.trim_start().starts_with("```") {
                finish(&mut text, &mut open);
                fenced = !fenced;
            } else if fenced || (open.is_none() && line.starts_with("    ")) {
                let code = if fenced { line } else { &line[4..] };
                let mut block = Text::new();
                block.line(command(code));
                text.indented(4, block);
            } else if line.is_empty() {
                finish(&mut text, &mut open);
                text.blank();
            } else if line.starts_with('#') {
                finish(&mut text, &mut open);
                text.line(heading(line.trim_start_matches('#').trim_start()));
            } else if let Some((mark, rest)) = list_mark(line) {
                finish(&mut text, &mut open);
                open = Some((mark.to_owned(), rest.to_owned()));
            } else {
                let (_, paragraph) = open.get_or_insert_default();
                paragraph.push(' ');
                paragraph.push_str(line.trim_start());
            }
        }
        finish(&mut text, &mut open);
        text
    }
}

fn finish(text: &mut Text, open: &mut Option<(String, String)>) {
    if let Some((mark, paragraph)) = open.take() {
        text.item(&mark, prose(paragraph.trim()));
    }
}

/// Splits a list mark off a line: `- `, `* ` or `1. `, with the blanks before and after it.
fn list_mark(line: &str) -> Option<(&str, &str)> {
    let item = line.trim_start();
    let digits = item.len() - item.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => item.strip_prefix(['-', '*']),
        _ => item[digits..].strip_prefix('.'),
    };
    let rest = rest?.strip_prefix(' ')?.trim_start();
    Some((&line[..line.len() - rest.len()], rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Layout;

    #[test]
    fn prints_what_a_doc_comment_says() {
        let text = Text::markdown(
            "A package of the resource
             errors.

# How to confirm

1. Look at the node state with
   `kubectl skyhook node status`, and at the pod.
2. Then:

    kubectl get pods   -A

```console
kubectl  logs x
```
- done
\x20 - or not",
        );
        assert_eq!(
            text.labelled(Layout::columns(40)),
            "A package of the resource errors.

[heading:How to confirm]

1. Look at the node state with
   [command:`kubectl skyhook node status`], and at
   the pod.
2. Then:

    [command:kubectl get pods   -A]

    [command:kubectl  logs x]
- done
  - or not
"
        );
    }

    #[test]
    fn odd_marks_are_text() {
        assert_eq!(Text::markdown("a ` b\n1.x -y\n#\n").plain(), "a ` b 1.x -y\n");
        assert_eq!(Text::markdown("").plain(), "");
        assert_eq!(Text::markdown(" # A\n\n b\n\n     c\n").plain(), "A\n\nb\n\n    c\n");
    }
}
