// Host with the sockets of crate `api`. Included once for each of the two crates.

use std::fmt::Write;
use std::net::IpAddr;

use carrick_proto::{IcmpInput, Time};

use crate::input::{Input, Message, Outputs, payload};

pub(crate) struct Host {
    sockets: api::Sockets,
    config: api::Config,
    /// Identifiers in the order of creation, closed sockets included.
    ids: Vec<api::SocketId>,
}

impl Host {
    pub(crate) fn new(addresses: Vec<IpAddr>, seed: u8, has_limits: bool) -> Self {
        let mut config = api::Config::new(addresses, [seed; 32]);
        config.max_sockets = 40;
        if has_limits {
            config.max_associations = 6;
            config.max_associations_per_source = Some(4);
            config.max_associations_per_owner = Some(3);
            config.receive_memory = 100_000;
            config.send_memory_per_owner = 30_000;
            config.backlog_per_source = Some(1);
            config.max_backlog = 3;
        }
        let mut sockets = api::Sockets::new(config.clone()).expect("valid parameters");
        enable_reports(&mut sockets);
        Self {
            sockets,
            config,
            ids: Vec::new(),
        }
    }

    pub(crate) fn socket_count(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.sockets.host_addresses().to_vec()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.sockets.poll_timeout()
    }

    /// Processes an input and drains the outputs. With `is_listed`, they include the lists of sockets and
    /// associations, and the statistics; with `is_exported`, the export.
    pub(crate) fn process(
        &mut self,
        now: Time,
        input: &Input,
        is_listed: bool,
        is_exported: bool,
    ) -> Outputs {
        let mut outputs = Outputs {
            text: self.perform(now, input),
            ..Outputs::default()
        };
        let mut buffer = Vec::new();
        while let Some(transmit) = self.sockets.poll_transmit(now, &mut buffer) {
            outputs
                .packets
                .push((transmit, std::mem::take(&mut buffer)));
        }
        let sockets = &mut self.sockets;
        let text = &mut outputs.text;
        while let Some(change) = sockets.poll_readiness() {
            let _ = write!(text, "\n{change:?}");
        }
        while let Some(setup) = sockets.poll_setup() {
            let _ = write!(text, "\n{setup:?}");
        }
        while let Some(report) = next_report(sockets) {
            let _ = write!(text, "\n{report:?} {report}");
        }
        let _ = write!(
            text,
            "\n{:?} {:?} {} {:?} {:?} {}",
            sockets.poll_timeout(),
            usage(sockets),
            sockets.open_association_count(),
            sockets.closing_sockets(),
            sockets.loopback_in_use(),
            take_dropped_reports(sockets),
        );
        for id in &self.ids {
            let _ = write!(text, "\n{id} {:?}", sockets.readiness(*id));
            if is_listed {
                let peers = (0..6)
                    .map(|n| sockets.peer_addresses(*id, n))
                    .collect::<Vec<_>>();
                let _ = write!(
                    text,
                    " {:?} {:?} {:?} {:?} {peers:?} {:?} {:?} {:?} {:?} {}",
                    sockets.status(*id),
                    sockets.pending_error(*id),
                    sockets.local_addresses(*id),
                    sockets.local_address(*id),
                    sockets.peer_address(*id),
                    sockets.unread(*id),
                    sockets.timeouts(*id),
                    sockets.dropped_notifications(*id),
                    sockets.closing_sockets().contains(id),
                );
            }
        }
        if is_listed {
            let statistics = sockets.statistics();
            let rows = sockets.overview(None).collect::<Vec<_>>();
            let addresses = (0..9)
                .map(|n| sockets.association_addresses(n))
                .collect::<Vec<_>>();
            let _ = write!(text, "\n{statistics:?}\n{rows:?}\n{addresses:?}");
        }
        if is_exported {
            outputs.export = sockets.export(now).expect("an export").into_bytes();
        }
        outputs
    }

    fn perform(&mut self, now: Time, input: &Input) -> String {
        let sockets = &mut self.sockets;
        let ids = &self.ids;
        match input {
            Input::Socket {
                is_one_to_one,
                is_v6,
            } => {
                let style = if *is_one_to_one {
                    api::Style::OneToOne
                } else {
                    api::Style::OneToMany
                };
                let family = if *is_v6 {
                    api::Family::Inet6
                } else {
                    api::Family::Inet
                };
                let created = sockets.socket(style, family);
                self.ids.extend(created);
                format!("{created:?}")
            }
            Input::Bind(n, address) => format!("{:?}", sockets.bind(ids[*n], *address)),
            Input::BindxAdd(n, addresses) => format!("{:?}", sockets.bindx_add(ids[*n], addresses)),
            Input::BindxRemove(n, addresses) => {
                format!("{:?}", sockets.bindx_remove(now, ids[*n], addresses))
            }
            Input::Listen(n, backlog) => format!("{:?}", sockets.listen(ids[*n], *backlog)),
            Input::Connect(n, peer) => format!("{:?}", sockets.connect(now, ids[*n], *peer)),
            Input::Connectx(n, peers) => {
                let started = sockets.connectx(now, ids[*n], peers);
                if let Ok(association) = started {
                    sockets.watch_setup(association);
                }
                format!("{started:?}")
            }
            Input::Accept(n) => {
                let accepted = sockets.accept(ids[*n]);
                self.ids.extend(accepted.map(|(id, _)| id));
                format!("{accepted:?}")
            }
            Input::Send(n, message) => {
                let Message {
                    address,
                    len,
                    control,
                } = message;
                let control = control.iter().map(|(kind, bytes)| {
                    api::ancillary::ControlMessage::sctp(*kind, bytes.clone())
                });
                let control = control.collect::<Vec<_>>();
                let (control, _) = api::ancillary::write_control(&control, usize::MAX);
                let message = api::OutgoingMessage {
                    address: *address,
                    data: payload(*len),
                    control: &control,
                };
                format!("{:?}", sockets.sendmsg(now, ids[*n], &message))
            }
            Input::Receive(n, sizes, flags) => {
                format!("{:?}", sockets.recvmsg(now, ids[*n], *sizes, *flags))
            }
            Input::SetOption(n, option, value) => {
                format!("{:?}", sockets.setsockopt(now, ids[*n], *option, value))
            }
            Input::GetOption(n, option, buffer) => {
                format!("{:?}", sockets.getsockopt(now, ids[*n], *option, buffer))
            }
            Input::PeelOff(n, association) => {
                let branched = sockets.peeloff(now, ids[*n], *association);
                self.ids.extend(branched);
                format!("{branched:?}")
            }
            Input::ShutDown(n, how) => format!("{:?}", sockets.shutdown(now, ids[*n], *how)),
            Input::Close(n) => format!("{:?}", sockets.close(now, ids[*n])),
            Input::Abort(n) => format!("{:?}", sockets.abort(now, ids[*n])),
            Input::ShutDownAssociations(n) => {
                format!("{:?}", sockets.shut_down_associations(now, ids[*n]))
            }
            Input::AbortAssociations => format!("{:?}", sockets.abort_associations(now)),
            Input::SetOwner(n, owner) => format!("{:?}", sockets.set_owner(ids[*n], *owner)),
            Input::SetPrivileged(n, on) => format!("{:?}", sockets.set_privileged(ids[*n], *on)),
            Input::SetError(n) => format!("{:?}", sockets.set_error(ids[*n], api::Errno::EACCES)),
            Input::SetDefaults(number) => {
                let mut config = api::Config::default_association();
                config.paths.path_max_retrans = *number;
                config.extensions.interleaving = number % 2 == 0;
                config.paths.expose_potentially_failed = number % 3 == 0;
                format!("{:?}", sockets.set_default_association(config))
            }
            Input::AddressAdded(ip) => format!("{:?}", sockets.host_address_added(*ip)),
            Input::AddressRemoved(ip) => format!("{:?}", sockets.host_address_removed(now, *ip)),
            Input::RoutesChanged => format!("{:?}", sockets.host_routes_changed()),
            Input::Packets(route, packets) => {
                let known = packets.iter().map(|packet| sockets.has_port(route, packet));
                let known = known.collect::<Vec<_>>();
                sockets.handle_datagrams(now, route, packets.iter().cloned());
                format!("{known:?}")
            }
            Input::Icmp(kind, remote, quoted) => {
                let (kind, remote) = (*kind, *remote);
                let icmp = IcmpInput {
                    kind,
                    remote,
                    encapsulation: None,
                    quoted,
                };
                format!("{:?}", sockets.handle_icmp(now, &icmp))
            }
            Input::Oversized(transmit, packets, mtu) => {
                let mtu = |_, _| Some(*mtu);
                format!(
                    "{:?}",
                    sockets.handle_oversized(now, transmit, packets, mtu)
                )
            }
            Input::Timeout => format!("{:?}", sockets.handle_timeout(now)),
            Input::Handover => {
                let export = sockets.export(now).expect("an export");
                let successor = api::Sockets::import(self.config.clone(), now, export.as_bytes());
                self.sockets = successor.expect("the sockets of an export");
                let again = self.sockets.export(now).expect("an export");
                enable_reports(&mut self.sockets);
                format!("the successor has the same state: {}", again == export)
            }
        }
    }
}
