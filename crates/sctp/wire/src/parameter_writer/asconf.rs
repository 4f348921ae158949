//! Writes the parameters of ASCONF and ASCONF-ACK (RFC 5061, section 4.2).

use core::net::IpAddr;

use super::{ParameterWriter, address_parameter};
use crate::cause_writer::CauseWriter;
use crate::{AddressRequest, CorrelationId, ParameterType};

impl ParameterWriter<'_> {
    /// Writes Add IP Address.
    pub fn add_ip_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::ADD_IP_ADDRESS, id, address);
    }

    /// Writes Delete IP Address.
    pub fn delete_ip_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::DELETE_IP_ADDRESS, id, address);
    }

    /// Writes Set Primary IP Address, also in an INIT or INIT ACK.
    pub fn set_primary_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::SET_PRIMARY_ADDRESS, id, address);
    }

    /// Writes Error Cause Indication with the causes that the closure writes: the request is refused.
    pub fn error_cause_indication(
        &mut self,
        id: CorrelationId,
        causes: impl FnOnce(&mut CauseWriter<'_>),
    ) {
        let (kind, id) = (ParameterType::ERROR_CAUSE_INDICATION.0, id.0.to_be_bytes());
        self.0
            .nested(kind, &id, |out| causes(&mut CauseWriter::new(out)));
    }

    /// Writes Success Indication.
    pub fn success_indication(&mut self, id: CorrelationId) {
        self.raw(ParameterType::SUCCESS_INDICATION, &id.0.to_be_bytes());
    }

    fn address_request(&mut self, kind: ParameterType, id: CorrelationId, address: IpAddr) {
        self.0.nested(kind.0, &id.0.to_be_bytes(), |mut out| {
            address_parameter(&mut out, address);
        });
    }
}

impl AddressRequest {
    /// Returns the length of the parameter's value with this address, for [`ParameterWriter::fits`].
    pub fn value_len(address: IpAddr) -> usize {
        match address.to_canonical() {
            IpAddr::V4(_) => 12,
            IpAddr::V6(_) => 24,
        }
    }
}
