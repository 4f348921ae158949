//! What a table is made of.

use carrick_simco::backend::PortPool;

use crate::error::NftablesError;

/// How the packet filter is to be.
#[derive(Clone, Debug)]
pub struct NftablesConfig {
    /// The name of the table, of family inet, which belongs to this backend.
    pub table: String,
    /// What happens to packets that no rule lets pass.
    pub policy: Policy,
    /// The priority of the chain at the hook forward; 0 is `filter`.
    pub priority: i32,
    /// The interface to the internal hosts. With it, packets must come from and go to the side that
    /// their addresses claim.
    pub internal_interface: Option<String>,
    /// Elements of a set at most.
    pub max_elements: u32,
    /// Rules with wildcards or port ranges at most: each packet that no exact flow matches is compared
    /// with all of them.
    pub max_patterns: usize,
    /// Prohibits at most: each packet is compared with all of them. They have places of their own, so
    /// that nothing that lets pass keeps anybody from blocking.
    pub max_blocks: usize,
    /// Addresses and ports for traditional NAT; none for a packet filter only. Packets to the
    /// addresses must reach this host.
    pub translation: Vec<PortPool>,
    /// Whether the end of an element is moved in its place, where the kernel can (since Linux 6.12).
    /// If not, it is removed and added in one batch, as on older kernels, and counts anew.
    pub move_ends: bool,
    /// Whether the table stays when the backend is dropped, so that what was granted goes on while
    /// the middlebox starts again. If not, the table goes with all of its rules, and what it
    /// blocked passes.
    pub keep: bool,
}

impl Default for NftablesConfig {
    fn default() -> Self {
        Self {
            table: "carrick".to_owned(),
            policy: Policy::Drop,
            priority: 0,
            internal_interface: None,
            max_elements: 1 << 20,
            max_patterns: 1024,
            max_blocks: 1024,
            translation: Vec::new(),
            move_ends: true,
            keep: true,
        }
    }
}

/// What happens to forwarded packets that no rule lets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// They are dropped.
    #[default]
    Drop,
    /// They pass, if no other table drops them: only prohibits (PDR) have an effect.
    Accept,
}

impl NftablesConfig {
    /// Whether its values make sense.
    ///
    /// # Errors
    /// [`NftablesError::Configuration`] says which doesn't.
    pub fn check(&self) -> Result<(), NftablesError> {
        let wrong = |text: String| Err(NftablesError::Configuration(text));
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = &self.table;
        if name.is_empty() || name.len() > 64 || !name.chars().all(letter) {
            return wrong(format!(
                "table {name:?}: give 1 to 64 letters, digits, hyphens and underscores"
            ));
        }
        if let Some(name) = &self.internal_interface
            && (name.is_empty() || name.len() > 15)
        {
            return wrong(format!(
                "internal interface {name:?}: give the name of an interface, 1 to 15 octets"
            ));
        }
        if self.max_elements == 0 {
            return wrong("elements is 0: give at least 1".to_owned());
        }
        Ok(())
    }
}
