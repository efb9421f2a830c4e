//! Suggestions for a name that matches nothing.

/// The known names most similar to the typed one, best first, at most three.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(distance, k)| {
            let length = name.chars().count().max(k.chars().count());
            *distance <= 1 + length / 4 || k.starts_with(name)
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, k)| k).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_few_and_nearest_first() {
        let known = ["gpu-tune", "gpu-tone", "kernel", "gpu-tuned", "gpu-t"];
        assert_eq!(near("gpu-tunr", known), ["gpu-tune", "gpu-tone", "gpu-tuned"]);
        assert_eq!(near("zzz", known), Vec::<&str>::new());
    }
}
