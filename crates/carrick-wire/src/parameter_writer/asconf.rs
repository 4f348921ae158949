//! Writing the parameters of ASCONF and ASCONF-ACK (RFC 5061, section 4.2).

use core::net::IpAddr;

use super::{ParameterWriter, address_parameter};
use crate::cause_writer::CauseWriter;
use crate::{AddressRequest, CorrelationId, ParameterType};

impl ParameterWriter<'_> {
    /// We have one more address: Add IP Address.
    pub fn add_ip_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::ADD_IP_ADDRESS, id, address);
    }

    /// We have one address less: Delete IP Address.
    pub fn delete_ip_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::DELETE_IP_ADDRESS, id, address);
    }

    /// We prefer to be sent to at this address: Set Primary IP Address, also of an INIT or
    /// INIT ACK.
    pub fn set_primary_address(&mut self, id: CorrelationId, address: IpAddr) {
        self.address_request(ParameterType::SET_PRIMARY_ADDRESS, id, address);
    }

    /// The request is refused for the causes that the closure writes.
    pub fn error_cause_indication(
        &mut self,
        id: CorrelationId,
        causes: impl FnOnce(&mut CauseWriter<'_>),
    ) {
        let (kind, id) = (ParameterType::ERROR_CAUSE_INDICATION.0, id.0.to_be_bytes());
        self.0
            .nested(kind, &id, |out| causes(&mut CauseWriter::new(out)));
    }

    /// The request is granted.
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
    /// Bytes of the value of the parameter with this address, for
    /// [`ParameterWriter::fits`].
    pub fn value_len(address: IpAddr) -> usize {
        match address.to_canonical() {
            IpAddr::V4(_) => 12,
            IpAddr::V6(_) => 24,
        }
    }
}
