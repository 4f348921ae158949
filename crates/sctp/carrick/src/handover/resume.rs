//! The endpoint before and after a handover.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use carrick_proto::{Endpoint as Core, ImportConfig, ImportError, Time};
use tokio::sync::{mpsc, oneshot};

use super::{EndpointState, HandOverError, Handover, ResumeError, clock};
use crate::association::Association;
use crate::close_report::ReportedEnds;
use crate::command::Command;
use crate::config::Config;
use crate::driver::{Driver, Limits, LowerLayer, backlog};
use crate::endpoint::{Endpoint, EndpointParts, current_runtime};
use crate::error::ConfigError;
use crate::network::{HostRoutes, InheritedSocket, Network};
use crate::packets::PacketTap;
use crate::unread_memory::UnreadMemory;

impl Endpoint {
    /// Stops the endpoint without an end of its associations, for a successor that continues them with [`Self::resume`]: a
    /// new version of the program, for instance. No SHUTDOWN and no ABORT is sent; peers see a pause.
    ///
    /// The state has all that the protocol, the queues and the handles have: messages that [`SendHalf::send`](crate::SendHalf::send)
    /// accepted, received messages and notifications that the program has not received, associations that wait for
    /// [`Self::accept`], and [`AssociationControl::set_user_data`](crate::AssociationControl::set_user_data). A message that the program has received is not
    /// in it.
    ///
    /// The handles of this endpoint get [`CloseReason::HandedOver`](crate::CloseReason::HandedOver): waiting calls return it as their error or
    /// reason. A call of [`SendHalf::send`](crate::SendHalf::send) that returns an error has not sent its message: send it again in the
    /// successor, as those that [`SendHalf::send_many`](crate::SendHalf::send_many) has left. Dropping the handles has no effect. Set-ups that are not complete are aborted
    /// ([`ConnectError::Failed`](crate::ConnectError::Failed)). An association that has ended is handed over as well if the program has not received its end.
    ///
    /// ```
    /// use carrick::{CloseReason, Config, ConnectOptions, Endpoint, SendOptions};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = || Config::udp([[127, 0, 0, 1].into()]).encapsulation_port(0);
    /// let server = Endpoint::bind(config().port(5000))?;
    /// let client = Endpoint::bind(config())?;
    /// let udp_port = server.encapsulation_port().ok_or("not in UDP")?;
    /// let options = ConnectOptions::new().encapsulation_port(udp_port);
    /// let sender = client.connect_with("127.0.0.1:5000", options).await?;
    /// let receiver = server.accept().await.ok_or("closed")?.accept();
    /// receiver.control().set_user_data("client 1");
    /// sender.send("hello", SendOptions::on_stream(0)).await?;
    ///
    /// let handover = server.hand_over().await?;
    /// assert_eq!(receiver.closed().await, CloseReason::HandedOver);
    /// // Usually in another process: see Handover::send.
    /// let (server, mut associations) = Endpoint::resume(config(), &handover)?;
    /// drop(handover);
    /// let mut receiver = associations.pop().ok_or("no association")?;
    /// assert_eq!(receiver.control().user_data(), "client 1");
    /// let message = receiver.recv().await?.ok_or("no message")?;
    /// assert_eq!(message.payload.into_bytes(), "hello");
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If this future is dropped before it is ready, the endpoint continues, or its associations have ended, with or
    /// without an ABORT: await it to its end.
    ///
    /// # Errors
    /// The endpoint has several shards, DTLS or a port of a daemon, is closed, or a part of it can't be exported. Unless it is
    /// closed it continues.
    pub async fn hand_over(&self) -> Result<Handover, HandOverError> {
        let ([commands], [report]) = (self.tasks(), self.reports()) else {
            return Err(HandOverError::Shards);
        };
        let (answer, answered) = oneshot::channel();
        // If the task has ended, the answer's channel closes.
        let _ = commands.send(Command::HandOver(answer));
        let answered = answered.await;
        let handover = answered.map_err(|_| HandOverError::EndpointClosed)??;
        // The task publishes its report when its sockets are closed; without a task they are.
        let _ = report.clone().wait_for(Option::is_some).await;
        Ok(handover)
    }

    /// Continues an endpoint that [`Self::hand_over`] has stopped in another process, or in this one. Returns it with handles
    /// of the associations that the program had accepted or connected, by their identifiers; those that it
    /// had not accepted are returned by [`Self::accept`]. [`AssociationControl::id`](crate::AssociationControl::id) and
    /// [`AssociationControl::user_data`](crate::AssociationControl::user_data) are those of the predecessor's handles.
    ///
    /// Addresses, ports, limits of associations and their parameters are those of the handover, also those that
    /// were changed at run time. `config` has the remaining ones: lengths of queues, observers, [`Config::linger`],
    /// [`Config::auto_addresses`], and what is code: the algorithm of congestion control in [`Config::association`] and
    /// [`Config::chunk_protection`], which are found by name and type.
    ///
    /// All timers continue as if the endpoint had been there: both processes read the monotonic clock of the host.
    ///
    /// The endpoint has duplicates of the descriptors, which are closed at `exec`. Drop the handover afterwards: it keeps
    /// the sockets open, and nothing else may continue its associations.
    ///
    /// # Errors
    /// The state is damaged, of another version or of another clock, descriptors are missing, or `config` has another port, UDP
    /// port or kind of transport, several shards, DTLS or a daemon, or lacks an algorithm or a protection of the state. The
    /// handover is unchanged: resume it with another configuration, or let the predecessor do so.
    pub fn resume(
        mut config: Config,
        handover: &Handover,
    ) -> Result<(Self, Vec<Association>), ResumeError> {
        let runtime = current_runtime()?;
        config.merge()?;
        let state = EndpointState::decode(handover.state())?;
        let elapsed = clock().checked_sub(state.clock).ok_or(ResumeError::Clock)?;
        let since = Duration::from_nanos(state.now) + Duration::from_nanos(elapsed);
        let core = imported(&config, &state)?;
        check(&config, &state, core.port())?;
        let network = continued_network(&config, &state, core.port(), handover.descriptors())?;
        let epoch = Instant::now()
            .checked_sub(since)
            .ok_or(ResumeError::Clock)?;
        let (port, transport) = (core.port(), state.transport);
        let (commands, orders) = mpsc::unbounded_channel();
        let (accepted, to_accept) = backlog(config.backlog);
        let unread = Arc::new(UnreadMemory::new(config.unread_memory));
        let failure = Arc::new(OnceLock::new());
        let packets = config.packets.clone();
        let packets = packets.map(|p| PacketTap::new(p, transport.encapsulation_port()));
        let (ends, report) = ReportedEnds::new();
        let mut driver = Driver::new(
            (core, LowerLayer::none()),
            (network, packets, None),
            (Limits::new(&config), unread),
            (&commands, orders, accepted),
            (Arc::clone(&failure), ends),
        );
        let associations = driver.resume(epoch, state.associations, &commands);
        runtime.spawn(driver);
        let endpoint = Self::from_parts(EndpointParts {
            shards: vec![commands],
            accepted: to_accept,
            port,
            transport,
            failure,
            reports: vec![report],
        });
        Ok((endpoint, associations))
    }
}

/// Reason why a state needs more than the configuration has.
const MISSING: &str = "an association of the handover has a congestion control or chunk protection of the program that is \
    missing here: set it in Config::association or Config::chunk_protection, one of each for all associations";

/// Continues the protocol.
fn imported(config: &Config, state: &EndpointState) -> Result<Core, ResumeError> {
    let association = &config.association;
    let import = ImportConfig {
        source_selection: Box::new(HostRoutes::default()),
        algorithms: vec![Arc::clone(&association.research.policies.congestion)],
        protections: association.security.protection.iter().cloned().collect(),
    };
    let now = Time::from_nanos(state.now);
    let core = Core::import(import, now, &state.core);
    let mut core = core.map_err(|error| match error {
        ImportError::UnknownAlgorithm(_) | ImportError::MissingProtection(_) => {
            ConfigError::new("association", MISSING).into()
        }
        error => ResumeError::State(error),
    })?;
    state.check(&core)?;
    core.set_observer(now, crate::observers::observer(config));
    Ok(core)
}

/// Checks that the configuration is that of the endpoint that was handed over, where it has to be.
fn check(config: &Config, state: &EndpointState, port: u16) -> Result<(), ConfigError> {
    const SHARDS: &str = "an endpoint that is resumed has one shard: leave it at 1";
    const DAEMON: &str = "an endpoint that is resumed has its own sockets: leave it out";
    const DTLS: &str = "an endpoint that is resumed has no sessions: leave it out";
    const PORT: &str = "differs from that of the handover: use the same one, or 0";
    const TRANSPORT: &str = "differs from that of the handover: use the same one";
    let same_kind =
        std::mem::discriminant(&config.transport) == std::mem::discriminant(&state.transport);
    let udp = config.transport.encapsulation_port();
    let same_udp =
        udp.is_none_or(|udp| udp == 0 || Some(udp) == state.transport.encapsulation_port());
    #[cfg(feature = "dtls")]
    let has_dtls = config.dtls.is_some();
    #[cfg(not(feature = "dtls"))]
    let has_dtls = false;
    let conditions = [
        (config.shards == 1, "shards", SHARDS),
        (config.daemon.is_none(), "daemon", DAEMON),
        (!has_dtls, "dtls", DTLS),
        ([0, port].contains(&config.port), "port", PORT),
        (same_kind, "transport", TRANSPORT),
        (same_udp, "encapsulation_port", PORT),
    ];
    match conditions.into_iter().find(|(holds, ..)| !holds) {
        Some((_, field, reason)) => Err(ConfigError::new(field, reason)),
        None => Ok(()),
    }
}

/// Continues the sockets and the claim of the port.
fn continued_network(
    config: &Config,
    state: &EndpointState,
    port: u16,
    descriptors: &[OwnedFd],
) -> Result<Network, ResumeError> {
    let (expected, found) = (state.descriptors(), descriptors.len());
    if expected != found {
        return Err(ResumeError::Descriptors { expected, found });
    }
    let duplicates: io::Result<VecDeque<OwnedFd>> =
        descriptors.iter().map(OwnedFd::try_clone).collect();
    let mut descriptors = duplicates.map_err(ResumeError::Duplicates)?;
    let entries = state
        .sockets
        .iter()
        .zip(descriptors.drain(..state.sockets.len()));
    let sockets = entries.map(|(entry, descriptor)| InheritedSocket {
        kind: entry.kind,
        address: entry.address,
        descriptor,
    });
    let sockets = sockets.collect();
    let follow = config.auto_addresses.then(|| config.addresses.clone());
    let claim = (port, descriptors.pop_front());
    let network = Network::resume(
        state.transport,
        config.socket_buffer,
        sockets,
        claim,
        follow,
    );
    Ok(network?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_state_of_a_later_clock_is_refused() {
        let mut state = EndpointState::decode(include_bytes!("../../tests/exports/1.bin")).unwrap();
        state.clock = u64::MAX;
        let handover = Handover::from_parts(state.encode().unwrap(), Vec::new());
        let config = Config::udp([]).encapsulation_port(0);
        let refused = Endpoint::resume(config.clone(), &handover).map(drop);
        assert!(matches!(refused, Err(ResumeError::Clock)), "{refused:?}");
        state.clock = 0;
        let handover = Handover::from_parts(state.encode().unwrap(), Vec::new());
        let refused = Endpoint::resume(config, &handover).map(drop);
        let missing = matches!(
            refused,
            Err(ResumeError::Descriptors {
                expected: 3,
                found: 0
            })
        );
        assert!(missing, "{refused:?}");
    }
}
