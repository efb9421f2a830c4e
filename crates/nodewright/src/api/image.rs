//! Image references.

/// The parts of an image reference beside the repository.
pub struct ImageParts<'i> {
    /// Whether the registry has a port.
    pub port: bool,
    pub tag: Option<&'i str>,
    pub digest: Option<&'i str>,
}

impl ImageParts<'_> {
    /// Whether the image has neither a tag nor a digest.
    pub fn is_plain(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }

    pub fn of(image: &str) -> ImageParts<'_> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (registry, last) = name.rsplit_once('/').unwrap_or(("", name));
        ImageParts { port: registry.contains(':'), tag: last.split_once(':').map(|(_, tag)| tag), digest }
    }
}
