//! The thread that carries packets between the devices through the simulated network, in real time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use carrick_netsim::mobile::MobileNode;
use carrick_netsim::{Change, ConfigError, InterfaceId, Network, NodeId, Packet, Port, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use crate::error::Error;
use crate::host::{Blueprint, Tun};
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
    /// threads. Returns what its hosts are to look like.
    pub(crate) fn start(
        epoch: Instant,
        build: impl FnOnce() -> Result<Plan, Error> + Send + 'static,
    ) -> Result<(Self, Vec<(NodeId, Blueprint)>), Error> {
        let (orders, received) = mpsc::channel();
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
                let blueprint =
                    |host: &NodeId| (*host, Blueprint::of(&plan.network, *host, &plan.hosts));
                let blueprints = plan.hosts.iter().map(blueprint).collect();
                let ordinary = real_time(EMULATOR).err();
                if reply.send(Ok((blueprints, ordinary))).is_ok() {
                    let mut carrier = Carrier::new(plan, epoch, received, counter);
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
        Ok((emulation, blueprints))
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

    /// Stops the network.
    ///
    /// # Errors
    /// If the thread had panicked.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
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
        let _ = self.end();
    }
}

fn now(epoch: Instant) -> Time {
    Time::from_nanos(u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The next packet that has arrived at a host.
fn take(network: &mut Network, node: NodeId) -> Option<(Time, InterfaceId, Packet)> {
    if network.runs::<MobileNode<Port>>(node) {
        let mobile: &mut MobileNode<Port> = network.node_mut(node);
        return mobile.program_mut().take();
    }
    network.node_mut::<Port>(node).take()
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
    refused: Arc<AtomicU64>,
    hosts: Vec<(NodeId, Vec<Tun>)>,
    tap: Option<Tap>,
    buffer: BytesMut,
    bytes: Vec<u8>,
}

impl Carrier {
    fn new(plan: Plan, epoch: Instant, orders: Receiver<Order>, refused: Arc<AtomicU64>) -> Self {
        Self {
            network: plan.network,
            epoch,
            orders,
            refused,
            hosts: Vec::new(),
            tap: plan.tap,
            buffer: BytesMut::new(),
            bytes: Vec::new(),
        }
    }

    fn run(&mut self, stop: &AtomicBool) {
        // A timer of 50 microseconds' tolerance is the default; what it can't set it does without.
        let _ = prctl::set_timerslack(1);
        while !stop.load(Ordering::Relaxed) {
            self.take_orders();
            self.network.run_until(now(self.epoch));
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

    /// Carries what has arrived to the kernel.
    fn deliver(&mut self) {
        for (host, (node, tuns)) in self.hosts.iter().enumerate() {
            while let Some((due, arrival, packet)) = take(&mut self.network, *node) {
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
                    self.buffer.resize(LONGEST, 0);
                    let Ok(Some(len)) = tun.receive(&mut self.buffer) else {
                        break;
                    };
                    count += 1;
                    let bytes: Bytes = self.buffer.split_to(len).freeze();
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
