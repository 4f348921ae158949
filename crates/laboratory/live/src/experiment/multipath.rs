//! Path management of Multipath TCP, with `ip mptcp` of iproute2 (RFC 8684).

use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use carrick_lab::live::MultipathTcp;
use socket2::Protocol;

use super::host_addresses::{self, HostAddress};
use super::participant::{Participant, ParticipantError};

/// Protocol number of sockets of Multipath TCP, `IPPROTO_MPTCP`.
pub(crate) const PROTOCOL: Protocol = Protocol::MPTCP;

/// Maximum number of subflows of a connection, and of addresses that a host accepts.
const LIMIT: &str = "4";

/// Endpoints of the path manager of a host. The first address is that of the first subflow.
#[derive(Debug)]
pub(crate) struct Subflows {
    /// Addresses with the numbers of their endpoints; 0 is that of the first subflow.
    endpoints: Vec<(IpAddr, u32)>,
    /// Number of the next endpoint.
    next: u32,
}

impl Subflows {
    /// Configures the path manager: the client opens subflows from all its addresses, the server announces its own.
    pub(crate) fn prepare(
        participant: &Participant,
        settings: MultipathTcp,
    ) -> Result<Self, ParticipantError> {
        let path = "/proc/sys/net/mptcp/stale_loss_cnt";
        std::fs::write(path, settings.stale_loss_count.to_string()).map_err(|error| {
            ParticipantError::Missing(format!(
                "this kernel has no Multipath TCP ({path}: {error})"
            ))
        })?;
        mptcp(&[
            "limits",
            "set",
            "subflows",
            LIMIT,
            "add_addr_accepted",
            LIMIT,
        ])?;
        let mut subflows = Self {
            endpoints: Vec::new(),
            next: 1,
        };
        let present = host_addresses::current()?;
        for (number, address) in participant.addresses.iter().enumerate() {
            let Some(own) = present.iter().find(|(own, _)| own == address) else {
                continue;
            };
            let backup = settings.backup.then_some("backup");
            let flags: &[&str] = match number {
                0 => {
                    subflows.endpoints.push((own.0, 0));
                    continue;
                }
                _ if participant.client => &["subflow", "fullmesh"],
                _ => &["signal"],
            };
            let flags: Vec<&str> = flags.iter().copied().chain(backup).collect();
            subflows.add(own, &flags)?;
        }
        Ok(subflows)
    }

    /// Adds an endpoint with these flags.
    fn add(
        &mut self,
        (address, device): &HostAddress,
        flags: &[&str],
    ) -> Result<(), ParticipantError> {
        let (text, id) = (address.to_string(), self.next.to_string());
        let head = ["endpoint", "add", &text, "dev", device, "id", &id];
        let words = [&head[..], flags].concat();
        mptcp(&words)?;
        self.endpoints.push((*address, self.next));
        self.next += 1;
        Ok(())
    }

    /// Adds a subflow for each new address of the host, and removes those of addresses that it no longer has.
    pub(crate) fn follow_addresses(&mut self) -> Result<(), ParticipantError> {
        let present = host_addresses::current()?;
        let is_known = |own: &HostAddress| self.endpoints.iter().any(|(known, _)| *known == own.0);
        let new: Vec<HostAddress> = present
            .iter()
            .filter(|own| !is_known(own))
            .cloned()
            .collect();
        for own in &new {
            self.add(own, &["subflow"])?;
        }
        let is_present = |address: IpAddr| present.iter().any(|(own, _)| *own == address);
        let gone = self.endpoints.iter().position(|(own, _)| !is_present(*own));
        if let Some(place) = gone {
            let (address, id) = self.endpoints.remove(place);
            let (text, id) = (address.to_string(), id.to_string());
            let mut words = vec!["endpoint", "delete", "id", &id];
            // The endpoint of the first subflow is known by its address.
            words.extend(Some(text.as_str()).filter(|_| id == "0"));
            mptcp(&words)?;
        }
        Ok(())
    }
}

/// Runs `ip mptcp` in the namespace of this thread.
fn mptcp(arguments: &[&str]) -> Result<(), ParticipantError> {
    let mut command = Command::new("ip");
    command.arg("mptcp").args(arguments).stdin(Stdio::null());
    let missing = |what: &str| {
        let line = arguments.join(" ");
        ParticipantError::Missing(format!(
            "ip mptcp {line} fails, of iproute2 5.12 or later: {what}"
        ))
    };
    let output = command
        .output()
        .map_err(|error: io::Error| missing(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(missing(String::from_utf8_lossy(&output.stderr).trim()))
}
