//! Names as printed: `NAME`, or `TYPE/NAME`.

use crate::api::ApiFlavor;

/// The name of a custom resource: `gpu-tune`, `skyhook/gpu-tune`, `nodewrights.GROUP/gpu-tune`.
///
/// # Errors
///
/// The name is missing, or the type does not match.
pub fn skyhook(text: &str) -> Result<String, String> {
    let types = ApiFlavor::ALL
        .map(|flavor| [flavor.kind().to_lowercase(), flavor.plural().to_owned(), flavor.resource()]);
    match text.split_once(',') {
        None => of(text, &types.concat()),
        Some(_) => Err("separate names by spaces".to_owned()),
    }
}

/// The API that the type of a custom resource belongs to, and the name; no API for a name without a type.
///
/// # Errors
///
/// The name is missing, or the type does not match.
pub fn typed_skyhook(text: &str) -> Result<(Option<ApiFlavor>, String), String> {
    let name = skyhook(text)?;
    let of = |flavor: &ApiFlavor| {
        let types = [flavor.kind().to_lowercase(), flavor.plural().to_owned(), flavor.resource()];
        text != name && untyped(text, &types).is_ok()
    };
    Ok((ApiFlavor::ALL.into_iter().find(of), name))
}

/// The name of a node, or a pattern of names: `node-1`, `node/node-1`, `node/gpu-[1-3]`.
///
/// # Errors
///
/// The name is missing, or the type does not match.
pub fn node(text: &str) -> Result<String, String> {
    let types = ["node".to_owned(), "nodes".to_owned()];
    // In brackets, a slash separates the step of a set: `gpu-[1-9/2]`.
    match text.find('[').map(|at| text.split_at(at)) {
        None => of(text, &types),
        Some((before, _)) if !before.contains('/') => Ok(text.to_owned()),
        Some((before, set)) => Ok(untyped(before, &types)?.to_owned() + set),
    }
}

/// The id of a journal: `20261120-174612`, `journal/20261120-174612`.
///
/// # Errors
///
/// The id is missing, or the type does not match.
pub fn journal(text: &str) -> Result<String, String> {
    of(text, &["journal".to_owned()])
}

fn of(text: &str, types: &[String]) -> Result<String, String> {
    match untyped(text, types)? {
        "" => Err("expected a name".to_owned()),
        name if name.contains('/') => Err(format!("{name:?} is not a valid name")),
        name => Ok(name.to_owned()),
    }
}

/// Removes the type from `TYPE/NAME`.
fn untyped<'a>(text: &'a str, types: &[String]) -> Result<&'a str, String> {
    match text.split_once('/') {
        Some((of, name)) if types.iter().any(|known| known.eq_ignore_ascii_case(of)) => Ok(name),
        Some(_) if std::path::Path::new(text).exists() => {
            Err("this is a path: captures are read with --from PATH".to_owned())
        }
        Some((of, name)) => {
            let node = of
                .eq_ignore_ascii_case("node")
                .then(|| format!("; the node: kubectl skyhook diagnose node {name}"));
            Err(format!("expected NAME or {}/NAME{}", types[0], node.unwrap_or_default()))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_names_its_api() {
        assert_eq!(typed_skyhook("x"), Ok((None, "x".to_owned())));
        for flavor in ApiFlavor::ALL {
            for kind in [flavor.kind(), flavor.plural(), &flavor.resource()] {
                assert_eq!(typed_skyhook(&format!("{kind}/x")), Ok((Some(flavor), "x".to_owned())));
            }
        }
        assert!(typed_skyhook("node/x").is_err());
    }

    #[test]
    fn a_type_may_stand_before_a_name() {
        for text in
            ["x", "skyhook/x", "Skyhook/x", "nodewrights/x", &format!("{}/x", ApiFlavor::Skyhook.resource())]
        {
            assert_eq!(skyhook(text), Ok("x".to_owned()), "{text}");
        }
        for text in ["", "skyhook/", "node/x", "/x", "a/b/c"] {
            assert!(skyhook(text).is_err(), "{text}");
        }
        assert_eq!(node("node/n[0-11]"), Ok("n[0-11]".to_owned()));
        assert_eq!(node("skyhook/x"), Err("expected NAME or node/NAME".to_owned()));
        assert_eq!(journal("journal/2026"), Ok("2026".to_owned()));
    }
}
