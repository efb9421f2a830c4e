//! Stages, states and statuses as open enums: unknown values are kept, never rejected.

use std::fmt;

macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// An unknown value, written by a newer operator.
            Other(String),
        }

        impl $name {
            /// The known values, in the operator's spelling.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The operator's spelling.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)+
                    $name::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => $name::$variant,)+
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                super::visit::text(d, |text| Self::from(text))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }
    };
}

open_enum! {
    /// The lifecycle stage of a package on a node.
    Stage {
        Uninstall = "uninstall",
        UninstallInterrupt = "uninstall-interrupt",
        Upgrade = "upgrade",
        Apply = "apply",
        Interrupt = "interrupt",
        PostInterrupt = "post-interrupt",
        Config = "config",
    }
}

open_enum! {
    /// The progress of a package's current stage.
    State {
        Complete = "complete",
        InProgress = "in_progress",
        Skipped = "skipped",
        Erroring = "erroring",
        Unknown = "unknown",
    }
}

open_enum! {
    /// The operator's status of a node or of a whole custom resource.
    Status {
        Complete = "complete",
        Blocked = "blocked",
        Waiting = "waiting",
        Disabled = "disabled",
        Paused = "paused",
        InProgress = "in_progress",
        Erroring = "erroring",
        Unknown = "unknown",
    }
}

impl Stage {
    /// Whether the stage is part of an uninstall.
    pub fn is_uninstall(&self) -> bool {
        matches!(self, Stage::Uninstall | Stage::UninstallInterrupt)
    }

    /// Whether the stage interrupts the node: restarts services or reboots.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Stage::Interrupt | Stage::UninstallInterrupt)
    }
}
