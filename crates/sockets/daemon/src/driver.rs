//! The task: owns the protocol, the sockets of the network and all descriptors.
//!
//! Each round processes packets, readiness of descriptors and control connections, and timeouts; then it
//! serves the descriptors that changed, and only then asks the protocol for packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use carrick::Transport;
use carrick::network::{Network, NetworkInput, StrayPackets, TransmitOutcome, route_mtu};
use carrick_ipc::{LEASE_FIELDS, MAX_FRAME, MAX_LEASED, MAX_REQUEST};
use carrick_proto::{JoinedTransmits, Time};
use carrick_sockets::{AssocId, SocketId, Sockets};
use rustix::event::epoll;
use rustix::net::sockopt;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use crate::association_log::AssociationLog;
use crate::capture::{Captures, DaemonPacket};
use crate::clients::Client;
use crate::closing::Closers;
use crate::config::{Config, DaemonEnd};
use crate::descriptor::{Descriptor, FrameBuffers};
use crate::lease::Leases;
use crate::linger::LingeringSocket;
use crate::metrics::Scrape;
use crate::poller::{EVENTS, Poller, Token};
use crate::turns::{Budget, Turns};
use crate::users::Users;

/// Maximum number of rounds before other tasks run.
const ROUNDS: usize = 8;
/// Stands for all SCTP ports in [`StrayPackets::answers`].
const ALL_PORTS: u16 = 0;
/// Pause after a lack of file descriptors.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// Task of the daemon: owns the sockets, clients and descriptors.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) network: Network,
    strays: StrayPackets,
    pub(crate) sockets: Sockets,
    pub(crate) control: Arc<OwnedFd>,
    pub(crate) poller: Poller,
    pub(crate) clients: BTreeMap<Token, Client>,
    pub(crate) descriptors: BTreeMap<Token, Descriptor>,
    pub(crate) by_cookie: BTreeMap<u64, Token>,
    pub(crate) by_socket: BTreeMap<SocketId, Token>,
    /// Users and descriptors of callers blocked in connect, by association.
    pub(crate) setups: BTreeMap<AssocId, (u32, OwnedFd)>,
    /// Closed sockets with `SO_LINGER`, by the cookies of their descriptors.
    pub(crate) lingering: BTreeMap<u64, LingeringSocket>,
    /// Descriptors to be served.
    pub(crate) ready: BTreeSet<Token>,
    /// Descriptors that wait for their turn.
    ready_descriptors: Turns,
    /// Clients with requests.
    pub(crate) ready_clients: Turns,
    /// An epoll instance with the programs' ends of pairs by their cookies: those that are closed are no longer in it.
    pub(crate) open_ends: OwnedFd,
    /// Cookies and users of programs' ends without a descriptor, until the next check, or as long as they are open: the
    /// program has shut the pair down by itself, or the daemon has replaced it.
    pub(crate) departed: BTreeMap<u64, u32>,
    /// Descriptors whose association has ended, until the program closes them.
    pub(crate) ended: BTreeSet<Token>,
    /// Programs may have closed some of these since they were checked.
    pub(crate) ended_changed: bool,
    pub(crate) users: Users,
    pub(crate) frames: FrameBuffers,
    /// Buffer of received requests.
    pub(crate) request: Vec<u8>,
    /// Buffer of other frames.
    pub(crate) buffer: Vec<u8>,
    outgoing: JoinedTransmits,
    epoch: Instant,
    sleep: Pin<Box<Sleep>>,
    armed: Option<Time>,
    pub(crate) next_check: Option<Time>,
    /// Time at which clients are accepted again after an error of the system.
    accept_again: Option<Time>,
    /// Time at which remaining associations are aborted.
    pub(crate) ends: Option<Time>,
    /// The service manager is to hold all sockets ([`StopRequest::Hold`](crate::StopRequest::Hold)).
    pub(crate) is_to_be_held: bool,
    /// Descriptors whose associations have been shut down because the daemon stops.
    pub(crate) stopped: BTreeSet<Token>,
    /// Requests for the metrics.
    scrapes: Option<mpsc::Receiver<Scrape>>,
    /// Address and socket of the metrics, for a successor.
    pub(crate) metrics: Option<(SocketAddr, OwnedFd)>,
    /// The daemon has created the path of the control socket, and removes it.
    pub(crate) owns_path: bool,
    /// Control connection of a process that takes over after this round.
    pub(crate) successor: Option<Client>,
    pub(crate) captures: Captures,
    pub(crate) leases: Leases,
    /// Listening descriptors whose associations wait for file descriptors.
    pub(crate) starved: BTreeSet<Token>,
    /// Time at which they are served again.
    pub(crate) serve_again: Option<Time>,
    pub(crate) association_log: AssociationLog,
}

impl Driver {
    pub(crate) fn new(
        config: Config,
        network: Network,
        mut sockets: Sockets,
        control: OwnedFd,
    ) -> rustix::io::Result<Self> {
        if config.association_log.is_some() {
            sockets.report_events();
        }
        let poller = Poller::new()?;
        poller.watch_control(&control)?;
        let control = Arc::new(control);
        let closers = Closers::new(control.clone());
        Ok(Self {
            users: Users::new(config.limits, config.log, closers),
            config,
            network,
            strays: StrayPackets::default(),
            sockets,
            control,
            poller,
            clients: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            setups: BTreeMap::new(),
            lingering: BTreeMap::new(),
            ready: BTreeSet::new(),
            ready_descriptors: Turns::default(),
            ready_clients: Turns::default(),
            open_ends: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            departed: BTreeMap::new(),
            ended: BTreeSet::new(),
            ended_changed: false,
            frames: FrameBuffers::default(),
            // One byte more than the largest request and frame, to detect larger ones.
            request: vec![0; MAX_REQUEST + 1],
            buffer: vec![0; MAX_FRAME.max(MAX_LEASED + LEASE_FIELDS) + 1],
            outgoing: JoinedTransmits::default(),
            epoch: Instant::now(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
            next_check: None,
            accept_again: None,
            ends: None,
            is_to_be_held: false,
            stopped: BTreeSet::new(),
            scrapes: None,
            metrics: None,
            owns_path: false,
            successor: None,
            captures: Captures::default(),
            leases: Leases::default(),
            starved: BTreeSet::new(),
            serve_again: None,
            association_log: AssociationLog::default(),
        })
    }

    /// Continues the clock of a predecessor.
    pub(crate) fn with_epoch(mut self, epoch: Instant) -> Self {
        self.epoch = epoch;
        self
    }

    pub(crate) fn transport(&self) -> Transport {
        self.network.transport()
    }

    /// Answers requests for the metrics from now on.
    pub(crate) fn answer_scrapes(&mut self, scrapes: mpsc::Receiver<Scrape>) {
        self.scrapes = Some(scrapes);
    }

    pub(crate) fn now(&self) -> Time {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(nanos)
    }

    /// Keeps the program's end of a pair in [`Self::open_ends`] until it is closed.
    pub(crate) fn watch_end(&self, theirs: impl AsFd) -> rustix::io::Result<()> {
        // The end reports a hang-up without being asked for.
        let data = epoll::EventData::new_u64(sockopt::socket_cookie(&theirs)?);
        epoll::add(&self.open_ends, theirs, data, epoll::EventFlags::empty())
    }

    /// Stops accepting clients until a time.
    pub(crate) fn pause_accepting(&mut self, until: Time) {
        self.poller.unwatch(&self.control);
        self.accept_again = Some(until);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DaemonEnd> {
        for _ in 0..ROUNDS {
            let now = self.now();
            let mut busy = self.receive(cx, now);
            busy |= self.poll_descriptors(cx, now).is_ready();
            busy |= self.expire(now);
            busy |= self.follow_host(cx, now);
            self.resume_clients(cx);
            self.serve_clients(now);
            self.serve_descriptors(now);
            busy |= self.serve_leases(cx, now);
            self.transmit(cx, now);
            self.poll_scrapes(cx);
            self.collect_changes();
            self.end_lingering();
            self.log_associations(now);
            if let Some(client) = self.successor.take()
                && let Some(process) = self.hand_over(now, &client)
            {
                return Poll::Ready(DaemonEnd::HandedOver { process });
            }
            if std::mem::take(&mut self.is_to_be_held) {
                match self.hold(now) {
                    Ok(()) => return Poll::Ready(DaemonEnd::Held),
                    Err(reason) => {
                        (self.config.log)(&format!(
                            "the service manager does not hold the sockets: {reason}; associations end"
                        ));
                        self.end_associations();
                    }
                }
            }
            busy |= !self.ready.is_empty()
                || !self.ready_descriptors.is_empty()
                || !self.ready_clients.is_empty();
            if self.ends.is_some() {
                ready!(self.poll_end(cx, now, busy));
                return Poll::Ready(DaemonEnd::Stopped);
            }
            if !busy && self.arm(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when no association is left, or when the time for their shutdown is over.
    fn poll_end(&mut self, cx: &mut Context<'_>, now: Time, busy: bool) -> Poll<()> {
        let is_over = self.ends.is_some_and(|at| at <= now);
        if !is_over && self.has_work() {
            let busy = self.shut_down_descriptors(now) || busy;
            if busy || self.arm(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        self.abort_associations(now);
        let ids: Vec<SocketId> = self.by_socket.keys().copied().collect();
        for id in ids {
            // The socket exists as long as its descriptor.
            let _ = self.sockets.abort(now, id);
        }
        self.transmit(cx, now);
        self.log_associations(now);
        Poll::Ready(())
    }

    /// Returns the number of suppressed lines of the log since the start.
    pub(crate) fn suppressed_lines(&self) -> u64 {
        self.association_log.suppressed() + self.users.suppressed()
    }

    /// Logs what has happened to associations and paths, and how many lines about programs were suppressed.
    fn log_associations(&mut self, now: Time) {
        self.users.report_suppressed(now);
        if let Some(log) = self.config.association_log {
            self.association_log.write(now, &mut self.sockets, log);
        }
    }

    /// Processes received packets. Returns true if more may wait.
    fn receive(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let udp_port = self.transport().encapsulation_port();
        let (sockets, strays) = (&mut self.sockets, &mut self.strays);
        let (captures, leases) = (&mut self.captures, &mut self.leases);
        let more = self.network.poll_receive(cx, |arrival| match arrival {
            NetworkInput::Packets(route, packets)
                if route.encapsulation.is_some() && captures.is_empty() && leases.is_empty() =>
            {
                sockets.handle_datagrams(now, route, packets);
            }
            NetworkInput::Packets(route, packets) => {
                for packet in packets {
                    // A raw socket gets the packets for all SCTP implementations of the host.
                    let is_ours = route.encapsulation.is_some()
                        || sockets.has_port(route, &packet)
                        || strays.answers(now, ALL_PORTS, route.local, &packet);
                    if !is_ours {
                        continue;
                    }
                    let received = DaemonPacket {
                        is_sent: false,
                        route: *route,
                        traffic_class: route.ecn.bits(),
                        bytes: &packet,
                    };
                    captures.record(sockets, udp_port, &received);
                    if let Some(packet) = leases.take(sockets, route, packet) {
                        sockets.handle_datagram(now, route, packet);
                    }
                }
            }
            NetworkInput::Icmp(icmp) => {
                leases.pass_icmp(&icmp);
                sockets.handle_icmp(now, &icmp);
            }
        });
        self.leases.flush();
        more
    }

    /// Reads the readiness of descriptors and clients; ready if there was any.
    fn poll_descriptors(&mut self, cx: &mut Context<'_>, now: Time) -> Poll<()> {
        let mut events = Vec::with_capacity(EVENTS);
        ready!(self.poller.poll_read(cx, &mut events));
        self.handle_events(now, &mut events);
        Poll::Ready(())
    }

    /// Marks the clients and descriptors of events as ready.
    pub(crate) fn handle_events(&mut self, now: Time, events: &mut Vec<epoll::Event>) {
        for event in events.drain(..) {
            let token = Token(event.data.u64());
            if token == Token::CONTROL {
                self.accept_clients(now);
            } else if let Some(client) = self.clients.get(&token) {
                self.ready_clients.insert(client.uid, token);
            } else if self.leases.mark_readable(token) {
                // Served in this round.
            } else if self.ended.contains(&token) {
                self.note_ended(now);
            } else if let Some(descriptor) = self.descriptors.get_mut(&token) {
                let input = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                let flags = event.flags;
                if flags.intersects(input) {
                    descriptor.incoming.set_readable(true);
                }
                if flags.contains(epoll::EventFlags::HUP) {
                    descriptor.hang_up();
                }
                self.ready.insert(token);
            }
        }
    }

    fn expire(&mut self, now: Time) -> bool {
        let mut any = false;
        if self.sockets.poll_timeout().is_some_and(|at| at <= now) {
            self.sockets.handle_timeout(now);
            any = true;
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.check_ended(now);
            any = true;
        }
        if self.serve_again.is_some_and(|at| at <= now) {
            self.serve_again = None;
            self.ready.append(&mut self.starved);
            any = true;
        }
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            if self.poller.watch_control(&self.control).is_err() {
                self.accept_again = Some(now + PAUSE);
            }
            any = true;
        }
        any
    }

    fn follow_host(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let changes = self.network.poll_host(cx, self.sockets.host_addresses());
        if changes.routes {
            self.sockets.host_routes_changed();
        }
        for address in changes.added {
            self.sockets.host_address_added(address);
        }
        for address in changes.removed {
            self.sockets.host_address_removed(now, address);
        }
        if changes.checked {
            self.close_unused_loopback();
        }
        changes.checked
    }

    /// Closes the sockets of addresses of 127.0.0.0/8 that no interface has and no program uses.
    fn close_unused_loopback(&mut self) {
        let known = self.sockets.host_addresses();
        let mut open = self.network.loopback_addresses();
        if open.any(|address| !known.contains(&address)) {
            let used = self.sockets.loopback_in_use();
            self.network.close_loopback(known, &used);
            self.users.count_files();
        }
    }

    /// Sends the statistics to those who wait for them.
    fn poll_scrapes(&mut self, cx: &mut Context<'_>) {
        while let Some(scrapes) = &mut self.scrapes
            && let Poll::Ready(Some(scrape)) = scrapes.poll_recv(cx)
        {
            // The request may have timed out.
            let _ = scrape.send(self.statistics());
        }
    }

    /// Processes requests, one at a time of each user in turn.
    fn serve_clients(&mut self, now: Time) {
        let budget = Budget::begin();
        while budget.is_left()
            && let Some((uid, token)) = self.ready_clients.next()
        {
            if self.users.is_behind(uid) {
                self.ready_clients.insert(uid, token);
                self.ready_clients.suspend(uid);
            } else if self.serve_client(now, token) {
                self.ready_clients.insert(uid, token);
            }
        }
    }

    /// Serves descriptors, one at a time of each user in turn.
    fn serve_descriptors(&mut self, now: Time) {
        self.collect_changes();
        for token in std::mem::take(&mut self.ready) {
            if let Some(descriptor) = self.descriptors.get(&token) {
                self.ready_descriptors.insert(descriptor.uid(), token);
            }
        }
        let budget = Budget::begin();
        while budget.is_left()
            && let Some((_, token)) = self.ready_descriptors.next()
        {
            self.serve(now, token);
        }
    }

    /// Queues the descriptors of sockets whose readiness has changed, and reports the ends of set-ups.
    fn collect_changes(&mut self) {
        self.report_setups();
        while let Some(change) = self.sockets.poll_readiness() {
            if let Some(token) = self.by_socket.get(&change.socket) {
                self.ready.insert(*token);
            }
        }
    }

    /// Sends the packets that the protocol has.
    fn transmit(&mut self, cx: &mut Context<'_>, now: Time) {
        self.network.flush(cx);
        let udp_port = self.transport().encapsulation_port();
        while let Some((transmit, bytes)) = self
            .outgoing
            .poll(|out| self.sockets.poll_transmit(now, out))
        {
            self.network.open_destination(&transmit.route);
            let outcome = self.network.send(cx, &transmit, bytes);
            if outcome == TransmitOutcome::TooBig {
                self.sockets
                    .handle_oversized(now, &transmit, bytes, route_mtu);
                continue;
            }
            if let Some(icmp) = outcome.as_icmp(&transmit, bytes) {
                self.sockets.handle_icmp(now, &icmp);
                continue;
            }
            let sent = (&transmit, bytes);
            self.captures.record_sent(&self.sockets, udp_port, sent);
        }
    }

    /// Waits for the next timer. Ready if it is already due.
    fn arm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let times = [
            self.sockets.poll_timeout(),
            self.next_check,
            self.accept_again,
            self.serve_again,
            self.ends,
            self.association_log.next_report(),
            self.users.next_report(),
        ];
        let Some(next) = times.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        // A timer that moved to a later time, as T3-rtx does with every SACK, is set again when it fires.
        if self.armed.is_none_or(|at| next < at) {
            self.armed = Some(next);
            let at = self.epoch + Duration::from_nanos(next.as_nanos());
            self.sleep.as_mut().reset(at.into());
        }
        let fired = self.sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }
}
