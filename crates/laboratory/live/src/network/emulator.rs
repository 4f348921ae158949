//! Thread that forwards packets between the devices through the simulated network, in real time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick_netsim::mobile::MobileNode;
use carrick_netsim::{
    Change, ConfigError, ExternalHost, InterfaceId, Network, NodeId, Packet, Time,
};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use super::blueprint::Blueprint;
use super::capture::{CapturedPacket, Direction, PacketObserver};
use super::host::{Tun, TunBuffers};
use crate::error::Error;
use crate::scheduling::{EMULATOR, set_real_time};

/// Maximum number of reads from one device before the events of the network are processed.
const READS: usize = 64;
/// Maximum time after which the thread checks whether it has to stop.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Network, with the nodes that become network namespaces.
pub struct NetworkPlan {
    network: Network,
    hosts: Vec<NodeId>,
    observer: Option<PacketObserver>,
}

impl NetworkPlan {
    /// Makes a plan in which `hosts` become namespaces, in this order. All other nodes remain nodes of the
    /// simulator, with their programs. A node whose program is a [`MobileNode`] around a [`ExternalHost`] keeps this
    /// program: the simulator runs its Mobile IP, and its namespace sends from the home address and receives
    /// at it.
    pub fn new(network: Network, hosts: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            network,
            hosts: hosts.into_iter().collect(),
            observer: None,
        }
    }

    /// Sets a callback that receives each packet that leaves or enters a host. It runs on the thread of the
    /// emulator, so that a slow callback delays the network.
    #[must_use]
    pub fn with_observer(self, observer: impl FnMut(&CapturedPacket<'_>) + 'static) -> Self {
        Self {
            observer: Some(Box::new(observer)),
            ..self
        }
    }
}

impl std::fmt::Debug for NetworkPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NetworkPlan {{ hosts: {:?} }}", self.hosts)
    }
}

/// Command of another thread to the emulator.
enum EmulatorCommand {
    Devices(Vec<(NodeId, Vec<Tun>)>),
    Change(Box<Change>, Option<Time>, Sender<Result<(), ConfigError>>),
}

/// Running emulation, the initial configuration of its hosts, and a channel that receives the configuration
/// of all hosts after each change of their addresses.
pub(crate) type StartedEmulation = (
    Emulation,
    Vec<(NodeId, Blueprint)>,
    Receiver<Vec<Blueprint>>,
);

/// Emulation of a network in real time.
#[derive(Debug)]
pub struct Emulation {
    epoch: Instant,
    commands: Sender<EmulatorCommand>,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    without_real_time: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Emulation {
    /// Starts the thread. It builds the network itself, because the network's programs need not be `Send`.
    pub(crate) fn start(
        epoch: Instant,
        build: impl FnOnce() -> Result<NetworkPlan, Error> + Send + 'static,
    ) -> Result<StartedEmulation, Error> {
        let (commands, received) = mpsc::channel();
        let (changes, changed) = mpsc::channel();
        let (reply, answer) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicU64::new(0));
        let (stopping, counter) = (stop.clone(), dropped.clone());
        let thread = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || {
                let mut plan = match build() {
                    Ok(plan) => plan,
                    Err(error) => {
                        // The receiver waits for this reply.
                        let _ = reply.send(Err(error));
                        return;
                    }
                };
                for host in &plan.hosts {
                    if !plan.network.runs::<MobileNode<ExternalHost>>(*host) {
                        let program = Box::new(ExternalHost::default());
                        plan.network.set_node_program(*host, program);
                    }
                }
                let blueprints = blueprints(&plan.network, &plan.hosts);
                let blueprints = plan.hosts.iter().copied().zip(blueprints).collect();
                let without_real_time = set_real_time(EMULATOR).err();
                if reply.send(Ok((blueprints, without_real_time))).is_ok() {
                    let mut carrier = EmulatorLoop::new(plan, epoch, (received, changes), counter);
                    carrier.run(&stopping);
                }
            })
            .map_err(Error::system("starting the emulator thread"))?;
        let (blueprints, without_real_time) =
            answer.recv().map_err(|_| Error::Panicked("emulator"))??;
        let emulation = Self {
            epoch,
            commands,
            stop,
            dropped,
            without_real_time,
            thread: Some(thread),
        };
        Ok((emulation, blueprints, changed))
    }

    /// Passes the devices of the hosts to the emulator, which then starts to forward packets.
    pub(crate) fn attach(&self, devices: Vec<(NodeId, Vec<Tun>)>) -> Result<(), Error> {
        let sent = self.commands.send(EmulatorCommand::Devices(devices));
        sent.map_err(|_| Error::Panicked("emulator"))
    }

    /// Current time of the network.
    pub fn now(&self) -> Time {
        now(self.epoch)
    }

    /// Applies a change to the network at once, as [`Network::apply`] does.
    ///
    /// # Errors
    /// [`Error::Network`] if the change is invalid.
    pub fn apply(&self, change: Change) -> Result<(), Error> {
        self.change(change, None)
    }

    /// Schedules a change of the network for the network time `time`, as [`Network::at`] does.
    ///
    /// # Errors
    /// [`Error::Network`] if the change is invalid or `time` has passed.
    pub fn apply_at(&self, time: Time, change: Change) -> Result<(), Error> {
        self.change(change, Some(time))
    }

    fn change(&self, change: Change, at: Option<Time>) -> Result<(), Error> {
        let (reply, answer) = mpsc::channel();
        let sent = self
            .commands
            .send(EmulatorCommand::Change(Box::new(change), at, reply));
        sent.map_err(|_| Error::Panicked("emulator"))?;
        let done = answer.recv().map_err(|_| Error::Panicked("emulator"))?;
        done.map_err(Error::Network)
    }

    /// Number of dropped packets: those from the kernel that the simulator cannot represent (fragments,
    /// malformed headers), and those that the kernel did not accept.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Reason why the emulator's thread has no real-time priority, if it has none. Other load on this host
    /// then delays it.
    pub fn without_real_time(&self) -> Option<&str> {
        self.without_real_time.as_deref()
    }

    /// Stops the emulation.
    ///
    /// # Errors
    /// [`Error::Panicked`] if the thread has panicked.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().map_err(|_| Error::Panicked("emulator"))
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        // A panic of the thread has been printed.
        let _ = self.stop();
    }
}

fn now(epoch: Instant) -> Time {
    Time::from_nanos(u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the current configuration of the hosts.
fn blueprints(network: &Network, hosts: &[NodeId]) -> Vec<Blueprint> {
    let of = |host: &NodeId| Blueprint::of(network, *host, hosts);
    hosts.iter().map(of).collect()
}

/// Returns the port that connects the namespace of `node` to the network.
fn port(network: &mut Network, node: NodeId) -> &mut ExternalHost {
    if network.runs::<MobileNode<ExternalHost>>(node) {
        let mobile: &mut MobileNode<ExternalHost> = network.node_mut(node);
        return mobile.program_mut();
    }
    network.node_mut(node)
}

/// Sends a packet that a host's kernel sent by the device of `interface`.
fn send(network: &mut Network, node: NodeId, interface: InterfaceId, packet: Packet) {
    if network.runs::<MobileNode<ExternalHost>>(node) {
        // Mobile IP selects the interface.
        network.with_node(node, |mobile: &mut MobileNode<ExternalHost>, _, out| {
            mobile.with_program(out, |_, out| out.send(packet));
        });
        return;
    }
    network.with_node(node, |_: &mut ExternalHost, _, out| {
        out.send_on(interface, packet)
    });
}

/// State of the emulator's thread: the network with its devices.
struct EmulatorLoop {
    network: Network,
    epoch: Instant,
    commands: Receiver<EmulatorCommand>,
    /// Receives the configuration of all hosts after each change of their addresses.
    changes: Sender<Vec<Blueprint>>,
    dropped: Arc<AtomicU64>,
    nodes: Vec<NodeId>,
    /// Nodes with their devices, as soon as these exist.
    hosts: Vec<(NodeId, Vec<Tun>)>,
    observer: Option<PacketObserver>,
    buffers: TunBuffers,
}

impl EmulatorLoop {
    fn new(
        plan: NetworkPlan,
        epoch: Instant,
        (commands, changes): (Receiver<EmulatorCommand>, Sender<Vec<Blueprint>>),
        dropped: Arc<AtomicU64>,
    ) -> Self {
        Self {
            network: plan.network,
            epoch,
            commands,
            changes,
            dropped,
            nodes: plan.hosts,
            hosts: Vec::new(),
            observer: plan.observer,
            buffers: TunBuffers::new(),
        }
    }

    fn run(&mut self, stop: &AtomicBool) {
        // The default slack of timers is 50 microseconds; a failure leaves it so.
        let _ = prctl::set_timerslack(1);
        while !stop.load(Ordering::Relaxed) {
            self.run_commands();
            self.network.run_until(now(self.epoch));
            self.report_address_changes();
            self.deliver();
            if self.collect() == 0 {
                self.wait();
            }
        }
    }

    fn run_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                EmulatorCommand::Devices(devices) => self.hosts.extend(devices),
                EmulatorCommand::Change(change, at, reply) => {
                    self.network.run_until(now(self.epoch));
                    let done = match at {
                        Some(time) => self.network.at(time, *change),
                        None => self.network.apply(*change),
                    };
                    // The receiver may have been dropped.
                    let _ = reply.send(done);
                }
            }
        }
    }

    /// Reports added and removed addresses to the address sync thread.
    fn report_address_changes(&mut self) {
        let mut changed = false;
        for node in &self.nodes {
            changed |= port(&mut self.network, *node).take_address_change();
        }
        if changed {
            // The thread has ended if a change failed on a host; `LiveNetwork::remove` returns that error.
            let _ = self.changes.send(blueprints(&self.network, &self.nodes));
        }
    }

    /// Writes packets that have arrived at a host to its kernel.
    fn deliver(&mut self) {
        for host in 0..self.hosts.len() {
            while let Some((due, arrival, packet)) =
                port(&mut self.network, self.hosts[host].0).take()
            {
                let (node, tuns) = &mut self.hosts[host];
                // A packet to a home address arrives at the interface of the care-of address; the kernel
                // expects it at the interface that has the home address.
                let owner = self.network.owner(packet.destination);
                let own = owner.filter(|owner| self.network.node_of(*owner) == *node);
                let at = own.unwrap_or(arrival);
                match tuns.iter().position(|tun| tun.interface == at) {
                    Some(interface) => {
                        if tuns[interface].queue(due, packet) {
                            self.flush(host, interface);
                        }
                    }
                    None => self.count_dropped(1),
                }
            }
            for interface in 0..self.hosts[host].1.len() {
                self.flush(host, interface);
            }
        }
    }

    /// Writes the packets that a device has queued.
    fn flush(&mut self, host: usize, interface: usize) {
        let tun = &mut self.hosts[host].1[interface];
        let (sent, refused) = tun.flush(&mut self.buffers);
        let time = now(self.epoch);
        for (due, packet) in sent {
            if let Some(observer) = &mut self.observer {
                observer(&CapturedPacket {
                    time,
                    host,
                    interface,
                    direction: Direction::Inbound { due },
                    packet: &packet,
                });
            }
        }
        self.count_dropped(refused);
    }

    fn count_dropped(&self, packets: usize) {
        self.dropped.fetch_add(packets as u64, Ordering::Relaxed);
    }

    /// Sends the packets of the kernels through the network and returns their number.
    fn collect(&mut self) -> usize {
        let mut count = 0;
        for (host, (node, tuns)) in self.hosts.iter().enumerate() {
            for (interface, tun) in tuns.iter().enumerate() {
                for _ in 0..READS {
                    let received = match tun.receive(&mut self.buffers) {
                        Ok(0) => break,
                        Ok(received) => received,
                        Err(error) => {
                            // An error that is none of the system concerns a packet, which is lost.
                            self.count_dropped(usize::from(error.raw_os_error().is_none()));
                            break;
                        }
                    };
                    count += received;
                    let time = now(self.epoch);
                    self.network.run_until(time);
                    for packet in self.buffers.packets(received) {
                        let bytes = Bytes::copy_from_slice(packet);
                        let Ok(packet) = Packet::from_ip_bytes(&bytes) else {
                            self.dropped.fetch_add(1, Ordering::Relaxed);
                            continue;
                        };
                        if let Some(observer) = &mut self.observer {
                            observer(&CapturedPacket {
                                time,
                                host,
                                interface,
                                direction: Direction::Outbound,
                                packet: &packet,
                            });
                        }
                        send(&mut self.network, *node, tun.interface, packet);
                    }
                }
            }
        }
        count
    }

    /// Waits for a packet of a kernel or the next event of the network.
    fn wait(&mut self) {
        let next = self.network.next_event().map_or(MAX_WAIT, |next| {
            let ahead = next.saturating_duration_since(now(self.epoch));
            ahead.min(MAX_WAIT)
        });
        if next.is_zero() {
            return;
        }
        let mut fds: Vec<PollFd<'_>> = self
            .hosts
            .iter()
            .flat_map(|(_, tuns)| tuns)
            .map(|tun| PollFd::new(tun.as_fd(), PollFlags::POLLIN))
            .collect();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(next)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            // If polling fails, the loop continues with a short sleep, so that it does not occupy the core.
            Err(error) => {
                debug_assert!(false, "{}", io::Error::from(error));
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
