//! The task: a loop over the parts of the daemon.
//!
//! Each round processes packets, readiness of descriptors and control connections, and timeouts; then it
//! serves the descriptors that changed, and only then asks the protocol for packets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use carrick::Transport;
use carrick::network::{NetworkInput, StrayPackets, TransmitOutcome, route_mtu};
use carrick_proto::{AssociationConfig, JoinedTransmits, Time};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::association_log::AssociationLog;
use crate::capture::DaemonPacket;
use crate::config::{DaemonEnd, StopRequest};
use crate::handover::Handover;
use crate::metrics::{MetricsServer, Scrape};
use crate::parts::Parts;
use crate::poller::EVENTS;
use crate::requests::serve_client;
use crate::restored::restore;
use crate::serve::closed::check_ended;
use crate::serve::lease::serve_leases;
use crate::serve::listener::{end_listeners, update_store};
use crate::serve::serve;
use crate::statistics::statistics;
use crate::stopping::{abort_associations, has_work};
use crate::timer::TaskTimer;
use crate::turns::Budget;

/// Stands for all SCTP ports in [`StrayPackets::answers`].
const ALL_PORTS: u16 = 0;

/// Task of the daemon.
#[derive(Debug)]
pub(crate) struct Driver {
    parts: Parts,
    timer: TaskTimer,
    strays: StrayPackets,
    outgoing: JoinedTransmits,
    association_log: AssociationLog,
    /// Requests for the metrics.
    scrapes: Option<mpsc::Receiver<Scrape>>,
    /// Address and socket of the metrics, for a successor.
    metrics: Option<(SocketAddr, OwnedFd)>,
}

impl Driver {
    /// Creates the task. Its clock starts at `epoch`.
    pub(crate) fn new(parts: Parts, epoch: Instant) -> Self {
        Self {
            parts,
            timer: TaskTimer::new(epoch),
            strays: StrayPackets::default(),
            outgoing: JoinedTransmits::default(),
            association_log: AssociationLog::default(),
            scrapes: None,
            metrics: None,
        }
    }

    /// Restores listening descriptors that the service manager has passed, and lets it hold those of this daemon.
    /// Associations get identifiers behind those in a file that it has passed.
    pub(crate) fn restore_listeners(
        &mut self,
        passed: BTreeMap<u64, Vec<OwnedFd>>,
        associations: Option<OwnedFd>,
    ) {
        let parts = &mut self.parts;
        parts.listeners.start();
        let next = associations.and_then(|file| parts.listeners.continue_ids(file));
        if let Some(next) = next {
            parts.sockets.skip_association_ids(next);
        }
        restore(&mut self.parts, passed);
    }

    /// Keeps what the service manager holds of listening descriptors that are continued after a planned restart.
    pub(crate) fn keep_listeners(
        &mut self,
        passed: &BTreeMap<u64, Vec<OwnedFd>>,
        associations: Option<OwnedFd>,
    ) {
        let parts = &mut self.parts;
        let (descriptors, sockets) = (&parts.descriptors, &parts.sockets);
        let listeners = &mut parts.listeners;
        listeners.succeed(descriptors, sockets, |cookie| passed.contains_key(&cookie));
        if let Some(file) = associations {
            // The state has the next identifier.
            let _ = listeners.continue_ids(file);
        }
        let gone = passed
            .keys()
            .copied()
            .filter(|cookie| !listeners.holds(*cookie));
        let gone: Vec<u64> = gone.collect();
        listeners.discard(gone.into_iter());
    }

    /// Lets the service manager hold the listening descriptors of a predecessor that has handed over. It may hold all of
    /// them already.
    pub(crate) fn store_listeners(&mut self) {
        let now = self.timer.now();
        let parts = &mut self.parts;
        let (descriptors, sockets) = (&parts.descriptors, &parts.sockets);
        parts.listeners.succeed(descriptors, sockets, |_| true);
        parts.listeners.wait_after_handover(now);
    }

    pub(crate) fn transport(&self) -> Transport {
        self.parts.network.transport()
    }

    /// Returns the number of associations that have not ended.
    pub(crate) fn association_count(&self) -> usize {
        self.parts.sockets.open_association_count()
    }

    /// Returns whether the daemon has created the path of the control socket.
    pub(crate) fn owns_path(&self) -> bool {
        self.parts.clients.owns_path()
    }

    /// Starts the tasks of the server of the metrics, whose requests are answered from now on.
    pub(crate) fn start_metrics(&mut self, server: MetricsServer) -> JoinSet<()> {
        // Without a free descriptor, a successor opens the socket again.
        let listener = server.duplicate().ok();
        self.metrics = listener.map(|listener| (server.address(), listener));
        let failures = self.parts.users.failures().clone();
        let (tasks, scrapes) = server.start(failures, self.parts.config.log);
        self.scrapes = Some(scrapes);
        tasks
    }

    /// Changes the parameters of later associations, which are valid.
    pub(crate) fn set_default_association(&mut self, association: AssociationConfig) {
        // Checked by `Defaults::set`.
        let _ = self.parts.sockets.set_default_association(association);
        self.parts.listeners.check_all(None);
    }

    /// Ends the task as requested.
    pub(crate) fn stop(&mut self, request: StopRequest) {
        let now = self.timer.now();
        let descriptors = &mut self.parts.descriptors;
        self.parts.stopping.stop(now, request, descriptors);
    }

    /// Closes the connections of all clients outside the task, which ends: their requests may have files.
    pub(crate) fn close_clients(&mut self) {
        for client in self.parts.clients.take_all() {
            let uid = client.owner.uid;
            self.parts.users.close_files(uid, [client.connection]);
        }
    }

    /// Runs rounds until nothing is left to be done, for a limited time: the runtime sees what files have become ready
    /// between two calls. Ready when the task ends.
    ///
    /// 1. Process what has come: packets, events of files, timeouts, changes of the host's addresses.
    /// 2. Serve clients, descriptors and leases, each kind for a limited time.
    /// 3. Send packets of each user in turn, for a limited time: those of all messages of the round together.
    /// 4. Report what the round has changed, in the log, in the metrics, to waiting programs and to the service manager.
    /// 5. Hand over, let the service manager hold the sockets, or end, if that was requested.
    /// 6. Wait for the next timer, if nothing was left behind.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DaemonEnd> {
        let budget = Budget::begin();
        while budget.is_left() {
            // 1
            let now = self.timer.now();
            let mut busy = self.receive(cx, now);
            busy |= self.poll_files(cx, now).is_ready();
            busy |= self.expire(now);
            busy |= self.follow_host(cx, now);
            // 2
            self.serve_clients(cx, now);
            self.serve_descriptors(now);
            busy |= serve_leases(&mut self.parts, cx, now);
            // 3
            // A successor does not get packets that have been taken from the protocol.
            let leaves = self.parts.clients.has_successor() || self.parts.stopping.is_to_be_held();
            let budget = (!leaves).then(Budget::begin);
            busy |= self.transmit(cx, now, budget);
            // 4
            self.poll_scrapes(cx);
            self.parts.collect_changes();
            self.parts.end_lingering();
            self.log_associations(now);
            update_store(&mut self.parts, now);
            // 5
            if let Some(end) = self.hand_over(now) {
                return Poll::Ready(end);
            }
            busy |= self.parts.descriptors.is_busy() || self.parts.clients.is_busy();
            if self.parts.stopping.ends().is_some() {
                ready!(self.poll_end(cx, now, busy));
                return Poll::Ready(DaemonEnd::Stopped);
            }
            // 6
            if !busy && self.arm(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands over to a process, or lets the service manager hold the sockets, if that was requested. Returns the end of
    /// the task if it succeeds.
    fn hand_over(&mut self, now: Time) -> Option<DaemonEnd> {
        let handover = Handover {
            now,
            timer: &self.timer,
            metrics: self.metrics.as_ref(),
        };
        if let Some(client) = self.parts.clients.take_successor()
            && let Some(process) = handover.hand_over(&mut self.parts, &client)
        {
            return Some(DaemonEnd::HandedOver { process });
        }
        if self.parts.stopping.take_hold() {
            match handover.hold(&mut self.parts) {
                Ok(()) => return Some(DaemonEnd::Held),
                Err(reason) => {
                    (self.parts.config.log)(&format!(
                        "the service manager does not hold the sockets: {reason}; associations end"
                    ));
                    let descriptors = &mut self.parts.descriptors;
                    self.parts.stopping.end(self.timer.now(), descriptors);
                }
            }
        }
        None
    }

    /// Ready when no association is left, or when the time for their shutdown is over.
    fn poll_end(&mut self, cx: &mut Context<'_>, now: Time, busy: bool) -> Poll<()> {
        let parts = &mut self.parts;
        let is_over = parts.stopping.ends().is_some_and(|at| at <= now);
        if !is_over && has_work(&parts.sockets, &parts.descriptors) {
            let (sockets, descriptors) = (&mut parts.sockets, &mut parts.descriptors);
            let busy = parts.stopping.shut_down(now, sockets, descriptors) || busy;
            if busy || self.arm(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        abort_associations(now, &mut parts.sockets, parts.config.log);
        end_listeners(parts);
        for id in parts.descriptors.sockets() {
            // The socket exists as long as its descriptor.
            let _ = parts.sockets.abort(now, id);
        }
        self.transmit(cx, now, None);
        self.log_associations(now);
        Poll::Ready(())
    }

    /// Logs what has happened to associations and paths, and how many lines about programs were suppressed.
    fn log_associations(&mut self, now: Time) {
        self.parts.users.report_suppressed(now);
        let (sockets, followers) = (&mut self.parts.sockets, &mut self.parts.followers);
        if let Some(log) = self.parts.config.association_log {
            self.association_log.write(now, sockets, followers, log);
        } else if !followers.is_empty() {
            while let Some(report) = sockets.reports().poll() {
                followers.send(&report);
            }
            if followers.is_empty() {
                sockets.reports().disable();
            }
        }
    }

    /// Processes received packets. Returns true if more may wait.
    ///
    /// Packets of one route are passed together, which costs less for each, unless a raw socket, a capture or a lease
    /// has to inspect them one by one.
    fn receive(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let udp_port = self.transport().encapsulation_port();
        let (parts, strays) = (&mut self.parts, &mut self.strays);
        let (sockets, captures) = (&mut parts.sockets, &mut parts.captures);
        let leases = &mut parts.leases;
        let more = parts.network.poll_receive(cx, |arrival| match arrival {
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
        leases.flush();
        more
    }

    /// Reads the readiness of descriptors, clients and leases; ready if there was any.
    fn poll_files(&mut self, cx: &mut Context<'_>, now: Time) -> Poll<()> {
        let mut events = Vec::with_capacity(EVENTS);
        ready!(self.parts.poller.poll_read(cx, &mut events));
        self.parts.handle_events(now, &mut events);
        Poll::Ready(())
    }

    /// Processes what is due. Returns whether anything was.
    fn expire(&mut self, now: Time) -> bool {
        let parts = &mut self.parts;
        let mut any = parts.sockets.poll_timeout().is_some_and(|at| at <= now);
        if any {
            parts.sockets.handle_timeout(now);
        }
        if parts.descriptors.ends().is_check_due(now) {
            check_ended(parts, now);
            any = true;
        }
        any |= parts.descriptors.expire_starved(now);
        any | parts.clients.expire_pause(now, &parts.poller)
    }

    /// Follows the addresses and routes of the host.
    fn follow_host(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let sockets = &mut self.parts.sockets;
        let changes = self.parts.network.poll_host(cx, sockets.host_addresses());
        if changes.routes {
            sockets.host_routes_changed();
        }
        for address in changes.added {
            sockets.host_address_added(address);
        }
        for address in changes.removed {
            sockets.host_address_removed(now, address);
        }
        if changes.checked {
            self.close_unused_loopback();
        }
        changes.checked
    }

    /// Closes the sockets of addresses of 127.0.0.0/8 that no interface has and no program uses.
    fn close_unused_loopback(&mut self) {
        let (sockets, network) = (&self.parts.sockets, &mut self.parts.network);
        let known = sockets.host_addresses();
        let mut open = network.loopback_addresses();
        if open.any(|address| !known.contains(&address)) {
            let used = sockets.loopback_in_use();
            network.close_loopback(known, &used);
            self.parts.users.count_files();
        }
    }

    /// Sends the statistics to those who wait for them.
    fn poll_scrapes(&mut self, cx: &mut Context<'_>) {
        while let Some(scrapes) = &mut self.scrapes
            && let Poll::Ready(Some(scrape)) = scrapes.poll_recv(cx)
        {
            // The request may have timed out.
            let _ = scrape.send(statistics(&self.parts, self.association_log.suppressed()));
        }
    }

    /// Processes requests, one at a time of each user in turn.
    fn serve_clients(&mut self, cx: &mut Context<'_>, now: Time) {
        let parts = &mut self.parts;
        while let Poll::Ready(uid) = parts.users.closers().poll_relieved(cx) {
            parts.clients.resume(uid);
        }
        let budget = Budget::begin();
        while budget.is_left()
            && let Some(token) = parts.clients.next_turn(&parts.users)
        {
            serve_client(parts, now, token);
        }
    }

    /// Serves descriptors, one at a time of each user in turn.
    fn serve_descriptors(&mut self, now: Time) {
        self.parts.collect_changes();
        self.parts.descriptors.queue_turns();
        let budget = Budget::begin();
        while budget.is_left()
            && let Some(token) = self.parts.descriptors.next_turn()
        {
            serve(&mut self.parts, now, token);
        }
    }

    /// Sends the packets that the protocol has, within a budget if there is one. Returns whether more may wait.
    fn transmit(&mut self, cx: &mut Context<'_>, now: Time, budget: Option<Budget>) -> bool {
        let udp_port = self.transport().encapsulation_port();
        let (sockets, network) = (&mut self.parts.sockets, &mut self.parts.network);
        network.flush(cx);
        while budget.is_none_or(|budget| budget.is_left()) {
            let next = self.outgoing.poll(|out| sockets.poll_transmit(now, out));
            let Some((transmit, bytes)) = next else {
                return false;
            };
            network.open_destination(&transmit.route);
            let outcome = network.send(cx, &transmit, bytes);
            if outcome == TransmitOutcome::TooBig {
                sockets.handle_oversized(now, &transmit, bytes, route_mtu);
                continue;
            }
            if let Some(icmp) = outcome.as_icmp(&transmit, bytes) {
                sockets.handle_icmp(now, &icmp);
                continue;
            }
            let sent = (&transmit, bytes);
            self.parts.captures.record_sent(sockets, udp_port, sent);
        }
        true
    }

    /// Waits for the next timer. Ready if it is already due.
    fn arm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let parts = &self.parts;
        let times = [
            parts.sockets.poll_timeout(),
            parts.descriptors.next_timeout(),
            parts.clients.accept_again(),
            parts.listeners.next_timeout(),
            parts.stopping.ends(),
            self.association_log.next_report(),
            parts.users.next_report(),
        ];
        let next = times.into_iter().flatten().min();
        self.timer.poll(cx, next)
    }
}
