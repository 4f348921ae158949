//! Parameters with which sockets are created, changed at run time.

use carrick_proto::{AssociationConfig, ConfigError};

use super::Sockets;
use crate::host::calls::listen::update_listening;
use crate::settings::Options;

/// Replaces the fields that have the old default.
macro_rules! follow {
    ($own:expr, $old:expr, $new:expr; $($group:ident . $($field:ident),+;)+) => {
        $($(
            if $own.$group.$field == $old.$group.$field {
                $own.$group.$field = $new.$group.$field;
            }
        )+)+
    };
}

/// Replaces the parameters of future associations that a program has left at the old defaults.
fn follow_defaults(own: &mut AssociationConfig, old: &AssociationConfig, new: &AssociationConfig) {
    follow! { own, old, new;
        timers.rto_initial, rto_min, rto_max, sack_delay, valid_cookie_life,
            max_cookie_life_increment, max_init_retransmits;
        paths.association_max_retrans, path_max_retrans, potentially_failed_max_retrans,
            primary_switchover_max_retrans, expose_potentially_failed, hb_interval;
        mtu.path_mtu_discovery;
        transmission.max_burst, nagle;
        extensions.partial_reliability, interleaved_partial_reliability, authentication,
            dynamic_addresses, reconfiguration, interleaving, ecn, nr_sack, zero_checksum;
        security.dynamic_addresses_without_authentication;
    }
}

impl Sockets {
    /// Changes the parameters of associations that are set up later. Sockets that exist follow where a program has
    /// left a parameter at its old default, and keep all of theirs if they contradict the new ones. Parameters
    /// that no `net.sctp` of Linux has, such as buffers and algorithms, change for new sockets alone.
    ///
    /// # Errors
    /// Returns the first parameter that is out of its range; nothing changes.
    pub fn set_default_association(
        &mut self,
        config: AssociationConfig,
    ) -> Result<(), ConfigError> {
        config.validate()?;
        let old_options = Options::new(&self.config);
        self.config.association = config;
        let new_options = Options::new(&self.config);
        let new = &self.config.association;
        let with_future = self
            .table
            .iter_mut()
            .filter(|(_, socket)| !socket.is_one_to_one() || socket.associations().is_empty());
        for (_, socket) in with_future {
            let options = socket.options_mut();
            let mut own = options.config.clone();
            follow_defaults(&mut own, &old_options.config, new);
            if own.validate().is_err() {
                continue;
            }
            options.config = own;
            if options.exposed_pf == old_options.exposed_pf {
                options.exposed_pf = new_options.exposed_pf;
            }
            if options.fragment_interleave == old_options.fragment_interleave {
                options.fragment_interleave = new_options.fragment_interleave;
            }
        }
        for port in self.ports.ids() {
            update_listening(self, port);
        }
        Ok(())
    }
}
