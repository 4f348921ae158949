//! Configuration of a table.

use carrick_simco::backend::PortPool;

use crate::error::NftablesError;

/// Configuration of the packet filter.
#[derive(Clone, Debug)]
pub struct NftablesConfig {
    /// Name of the table of family inet, owned by this backend.
    pub table: String,
    /// Policy for packets that no rule enables.
    pub policy: Policy,
    /// Priority of the chain at the forward hook; 0 is `filter`.
    pub priority: i32,
    /// Interface to the internal hosts. If set, packets must arrive and leave on the side that their
    /// addresses indicate.
    pub internal_interface: Option<String>,
    /// Maximum number of elements of a set.
    pub max_elements: u32,
    /// Maximum number of rules with wildcards or port ranges. Each packet without an exact flow is
    /// compared with all of them.
    pub max_patterns: usize,
    /// Maximum number of prohibits. Each packet is compared with all of them. Counted apart, so that
    /// pinholes never prevent a prohibit.
    pub max_blocks: usize,
    /// Addresses and ports for traditional NAT; empty for a packet filter only. Packets to the
    /// addresses must be routed to this host.
    pub translation: Vec<PortPool>,
    /// True if the timeout of an element may be changed in place, if the kernel can (Linux 6.12). Otherwise
    /// the element is removed and added in one batch, as on older kernels, and its counters restart.
    pub update_timeouts: bool,
    /// True if the table stays when the backend is dropped, so that rules stay in force during a
    /// restart. Otherwise the table is removed, and packets that it blocked pass.
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
            update_timeouts: true,
            keep: true,
        }
    }
}

/// Policy for forwarded packets that no rule enables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Drop them.
    #[default]
    Drop,
    /// Accept them unless another table drops them: only prohibits (PDR) have an effect.
    Accept,
}

impl NftablesConfig {
    /// Validates the values.
    ///
    /// # Errors
    /// [`NftablesError::Configuration`] with the invalid value.
    pub fn check(&self) -> Result<(), NftablesError> {
        let invalid = |text: String| Err(NftablesError::Configuration(text));
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = &self.table;
        if name.is_empty() || name.len() > 64 || !name.chars().all(letter) {
            return invalid(format!(
                "table {name:?}: give 1 to 64 letters, digits, hyphens and underscores"
            ));
        }
        if let Some(name) = &self.internal_interface
            && (name.is_empty() || name.len() > 15)
        {
            return invalid(format!(
                "internal interface {name:?}: give the name of an interface, 1 to 15 octets"
            ));
        }
        if self.max_elements == 0 {
            return invalid("elements: must be at least 1".to_owned());
        }
        Ok(())
    }
}
