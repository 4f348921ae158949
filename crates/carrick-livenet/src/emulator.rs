//! The thread that carries packets between the devices through the simulated network, in real time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick_netsim::mobile::MobileNode;
use carrick_netsim::{Change, ConfigError, InterfaceId, Network, NodeId, Packet, Port, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use crate::blueprint::Blueprint;
use crate::error::Error;
use crate::host::Tun;
use crate::scheduling::{EMULATOR, real_time};
use crate::tap::{Tap, Tapped, Way};

/// Packets taken from one device before the network is looked after again.
const BATCH: usize = 64;
/// The longest packet of IP.
const LONGEST: usize = 65_535;
/// How soon an order to stop is seen.
const PATIENCE: Duration = Duration::from_millis(20);

/// A network and those of its nodes that become hosts of the kernel.
pub struct Plan {
    network: Network,
    hosts: Vec<NodeId>,
    tap: Option<Tap>,
}

impl Plan {
    /// The nodes that are named here become namespaces, in this order; all others stay what they are
    /// in the simulator, with their programs. A node whose program is a [`MobileNode`] around a [`Port`]
    /// keeps it: its Mobile IP is the simulator's, and its namespace sends from and receives at the home
    /// address.
    pub fn new(network: Network, hosts: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            network,
            hosts: hosts.into_iter().collect(),
            tap: None,
        }
    }

    /// The same, with somebody who is shown each packet that leaves or enters a host, on the thread of
    /// the network: what it takes long for makes the network late.
    #[must_use]
    pub fn with_tap(self, tap: impl FnMut(&Tapped<'_>) + 'static) -> Self {
        Self {
            tap: Some(Box::new(tap)),
            ..self
        }
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plan {{ hosts: {:?} }}", self.hosts)
    }
}

/// What other threads tell the emulator.
enum Order {
    Devices(Vec<(NodeId, Vec<Tun>)>),
    Change(Box<Change>, Option<Time>, Sender<Result<(), ConfigError>>),
}

/// An emulation that has begun, what its hosts are to look like, and who is told how all of them look after
/// a change of their addresses.
pub(crate) type Started = (
    Emulation,
    Vec<(NodeId, Blueprint)>,
    Receiver<Vec<Blueprint>>,
);

/// A network that runs in real time.
#[derive(Debug)]
pub struct Emulation {
    epoch: Instant,
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    ordinary: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Emulation {
    /// Starts the thread, which builds the network itself: its programs need not be able to change
    /// threads.
    pub(crate) fn start(
        epoch: Instant,
        build: impl FnOnce() -> Result<Plan, Error> + Send + 'static,
    ) -> Result<Started, Error> {
        let (orders, received) = mpsc::channel();
        let (changes, changed) = mpsc::channel();
        let (reply, answer) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicU64::new(0));
        let (stopping, counter) = (stop.clone(), refused.clone());
        let thread = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || {
                let mut plan = match build() {
                    Ok(plan) => plan,
                    Err(error) => {
                        // Whoever waits for the answer is there.
                        let _ = reply.send(Err(error));
                        return;
                    }
                };
                for host in &plan.hosts {
                    if !plan.network.runs::<MobileNode<Port>>(*host) {
                        let program = Box::new(Port::default());
                        plan.network.set_node_program(*host, program);
                    }
                }
                let blueprints = blueprints(&plan.network, &plan.hosts);
                let blueprints = plan.hosts.iter().copied().zip(blueprints).collect();
                let ordinary = real_time(EMULATOR).err();
                if reply.send(Ok((blueprints, ordinary))).is_ok() {
                    let mut carrier = Carrier::new(plan, epoch, (received, changes), counter);
                    carrier.run(&stopping);
                }
            })
            .map_err(Error::system("the emulator's thread"))?;
        let (blueprints, ordinary) = answer.recv().map_err(|_| Error::Panicked("emulator"))??;
        let emulation = Self {
            epoch,
            orders,
            stop,
            refused,
            ordinary,
            thread: Some(thread),
        };
        Ok((emulation, blueprints, changed))
    }

    /// Gives the emulator the devices of its hosts; from now on packets pass.
    pub(crate) fn attach(&self, devices: Vec<(NodeId, Vec<Tun>)>) -> Result<(), Error> {
        let sent = self.orders.send(Order::Devices(devices));
        sent.map_err(|_| Error::Panicked("emulator"))
    }

    /// The network's time now.
    pub fn now(&self) -> Time {
        now(self.epoch)
    }

    /// Changes the network now, as [`Network::apply`] does.
    ///
    /// # Errors
    /// What is wrong with the change.
    pub fn apply(&self, change: Change) -> Result<(), Error> {
        self.change(change, None)
    }

    /// Changes the network at a moment to come, as [`Network::at`] does.
    ///
    /// # Errors
    /// What is wrong with the change, or that the moment has passed.
    pub fn apply_at(&self, time: Time, change: Change) -> Result<(), Error> {
        self.change(change, Some(time))
    }

    fn change(&self, change: Change, at: Option<Time>) -> Result<(), Error> {
        let (reply, answer) = mpsc::channel();
        let sent = self.orders.send(Order::Change(Box::new(change), at, reply));
        sent.map_err(|_| Error::Panicked("emulator"))?;
        let done = answer.recv().map_err(|_| Error::Panicked("emulator"))?;
        done.map_err(Error::Network)
    }

    /// Packets of the kernel that are none of the simulator's (fragments, broken headers), and those
    /// that the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Why its thread has no real-time priority, if it has none: then other work on this host makes it
    /// late.
    pub fn ordinary(&self) -> Option<&str> {
        self.ordinary.as_deref()
    }

    /// Stops the network; an error says that the thread had panicked.
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

/// What its hosts look like now.
fn blueprints(network: &Network, hosts: &[NodeId]) -> Vec<Blueprint> {
    let of = |host: &NodeId| Blueprint::of(network, *host, hosts);
    hosts.iter().map(of).collect()
}

/// Where a host of the kernel is joined to the network.
fn port(network: &mut Network, node: NodeId) -> &mut Port {
    if network.runs::<MobileNode<Port>>(node) {
        let mobile: &mut MobileNode<Port> = network.node_mut(node);
        return mobile.program_mut();
    }
    network.node_mut(node)
}

/// Sends a packet of a host's kernel, which left it by the device of `interface`.
fn send(network: &mut Network, node: NodeId, interface: InterfaceId, packet: Packet) {
    if network.runs::<MobileNode<Port>>(node) {
        // Where it goes from there is for Mobile IP to say.
        network.with_node(node, |mobile: &mut MobileNode<Port>, _, out| {
            mobile.with_program(out, |_, out| out.send(packet));
        });
        return;
    }
    network.with_node(node, |_: &mut Port, _, out| out.send_on(interface, packet));
}

/// The network with its devices.
struct Carrier {
    network: Network,
    epoch: Instant,
    orders: Receiver<Order>,
    /// Told of all hosts when addresses of one have changed.
    changes: Sender<Vec<Blueprint>>,
    refused: Arc<AtomicU64>,
    nodes: Vec<NodeId>,
    /// The same with their devices, once they have them.
    hosts: Vec<(NodeId, Vec<Tun>)>,
    tap: Option<Tap>,
    /// Where packets are read; what is kept of them is copied.
    buffer: Vec<u8>,
    bytes: Vec<u8>,
}

impl Carrier {
    fn new(
        plan: Plan,
        epoch: Instant,
        (orders, changes): (Receiver<Order>, Sender<Vec<Blueprint>>),
        refused: Arc<AtomicU64>,
    ) -> Self {
        Self {
            network: plan.network,
            epoch,
            orders,
            changes,
            refused,
            nodes: plan.hosts,
            hosts: Vec::new(),
            tap: plan.tap,
            buffer: vec![0; LONGEST],
            bytes: Vec::new(),
        }
    }

    fn run(&mut self, stop: &AtomicBool) {
        // A timer of 50 microseconds' tolerance is the default; what it can't set it does without.
        let _ = prctl::set_timerslack(1);
        while !stop.load(Ordering::Relaxed) {
            self.take_orders();
            self.network.run_until(now(self.epoch));
            self.follow();
            self.deliver();
            if self.collect() == 0 {
                self.wait();
            }
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Devices(devices) => self.hosts.extend(devices),
                Order::Change(change, at, reply) => {
                    self.network.run_until(now(self.epoch));
                    let done = match at {
                        Some(time) => self.network.at(time, *change),
                        None => self.network.apply(*change),
                    };
                    // Who asked may have gone.
                    let _ = reply.send(done);
                }
            }
        }
    }

    /// Tells of addresses that have come and gone.
    fn follow(&mut self) {
        let mut changed = false;
        for node in &self.nodes {
            changed |= port(&mut self.network, *node).take_address_change();
        }
        if changed {
            // Nobody listens any more once a host has refused a change, which is told at the end.
            let _ = self.changes.send(blueprints(&self.network, &self.nodes));
        }
    }

    /// Carries what has arrived to the kernel.
    fn deliver(&mut self) {
        for (host, (node, tuns)) in self.hosts.iter().enumerate() {
            while let Some((due, arrival, packet)) = port(&mut self.network, *node).take() {
                self.bytes.clear();
                packet.write_ip(&mut self.bytes);
                // A home address is not where it is reached; the kernel has it where it belongs.
                let owner = self.network.owner(packet.destination);
                let own = owner.filter(|owner| self.network.node_of(*owner) == *node);
                let at = own.unwrap_or(arrival);
                let interface = tuns.iter().position(|tun| tun.interface == at);
                let sent = interface.filter(|number| tuns[*number].send(&self.bytes).is_ok());
                let Some(interface) = sent else {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                if let Some(tap) = &mut self.tap {
                    tap(&Tapped {
                        time: now(self.epoch),
                        host,
                        interface,
                        way: Way::In { due },
                        packet: &packet,
                    });
                }
            }
        }
    }

    /// Sends what the kernel has to send; returns how many packets that were.
    fn collect(&mut self) -> usize {
        let mut count = 0;
        for (host, (node, tuns)) in self.hosts.iter().enumerate() {
            for (interface, tun) in tuns.iter().enumerate() {
                for _ in 0..BATCH {
                    let Ok(Some(len)) = tun.receive(&mut self.buffer) else {
                        break;
                    };
                    count += 1;
                    let bytes = Bytes::copy_from_slice(&self.buffer[..len]);
                    let Ok(packet) = Packet::from_ip_bytes(&bytes) else {
                        self.refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    let time = now(self.epoch);
                    if let Some(tap) = &mut self.tap {
                        tap(&Tapped {
                            time,
                            host,
                            interface,
                            way: Way::Out,
                            packet: &packet,
                        });
                    }
                    self.network.run_until(time);
                    send(&mut self.network, *node, tun.interface, packet);
                }
            }
        }
        count
    }

    /// Waits for a packet of the kernel or the next event of the network.
    fn wait(&mut self) {
        let next = self.network.next_event().map_or(PATIENCE, |next| {
            let ahead = next.saturating_duration_since(now(self.epoch));
            ahead.min(PATIENCE)
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
            // Without a way to wait, the loop goes on; it leaves the core to others from time to time.
            Err(error) => {
                debug_assert!(false, "{}", io::Error::from(error));
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
