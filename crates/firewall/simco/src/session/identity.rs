//! Names of agents and middleboxes.

use core::fmt;

use bytes::Bytes;
use carrick_proto::PeerText;

use crate::message::{MAX_OWNER, Owner};

/// Name of an agent or a middlebox: 1 to 255 octets of UTF-8. The name of an agent is the owner of its
/// policy rules.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Bytes);

impl Identity {
    /// Creates a name; `None` if it is empty or too long.
    pub fn new(name: &str) -> Option<Self> {
        Self::from_octets(Bytes::copy_from_slice(name.as_bytes()))
    }

    pub(crate) fn from_octets(name: Bytes) -> Option<Self> {
        let fits = (1..=MAX_OWNER).contains(&name.len());
        (fits && core::str::from_utf8(&name).is_ok()).then_some(Self(name))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the octets of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name as the owner of policy rules.
    pub fn owner(&self) -> Owner {
        Owner::new(self.0.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&PeerText::new(&self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_are_a_single_line() {
        let name = Identity::new("box\u{1b}[31m\r\nagent: connected\u{202e}").unwrap();
        let shown = name.to_string();
        assert!(shown.starts_with("box") && shown.ends_with('}'), "{shown}");
        assert!(
            shown.is_ascii() && !shown.contains(char::is_control),
            "{shown}"
        );
    }
}
