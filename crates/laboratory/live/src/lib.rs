//! Simulated networks in real time, between network namespaces of this host, and the laboratory's
//! experiments on them.
//!
//! Each host of a [`carrick_netsim::Network`] becomes a network namespace with a TUN device for each of
//! its interfaces. One thread carries the packets between them, in real time, through the links, queues
//! and routers of the simulator. Every program in a namespace takes part: the kernel's TCP, SCTP in user
//! space, any other program. Addresses that are added or removed in the network are added or removed on
//! the interfaces of the namespaces, too.
//!
//! ```no_run
//! use std::time::Duration;
//! use carrick_live::{LiveNetwork, NetworkPlan};
//! use carrick_netsim::{LinkConfig, NetworkBuilder};
//!
//! let live = LiveNetwork::start("example", || {
//!     let mut builder = NetworkBuilder::new(1);
//!     let hosts = ["a", "b"].map(|name| builder.add_host(name));
//!     let a = builder.add_interface(hosts[0], ["10.0.0.1".parse().expect("an address")]);
//!     let b = builder.add_interface(hosts[1], ["10.0.0.2".parse().expect("an address")]);
//!     builder.connect_both(a, b, LinkConfig::delay(Duration::from_millis(20)));
//!     Ok(NetworkPlan::new(builder.build()?, hosts))
//! })?;
//! let pinged = live.host("a")?.command("ping", &["-c", "1", "10.0.0.2"])?;
//! assert!(pinged.status.success());
//! # Ok::<(), carrick_live::Error>(())
//! ```
//!
//! The modules are the three parts of the crate:
//!
//! - `network`: namespaces, TUN devices and the emulator ([`LiveNetwork`]). [`run_on_host`] starts a
//!   program on a host of a network that another process runs.
//! - `accuracy`: how late this machine makes packets ([`LinkAccuracy`]), and when its cores were stalled
//!   ([`StallMonitor`]).
//! - `experiment`: the live runs of a [`carrick_lab::live::LivePlan`] ([`run_experiment`]). All runs of a plan
//!   run at the same time, each in a separate network named `SCENARIO-PID.RUN`, while probes on
//!   a separate network measure how exactly this machine emulates delay and rate. A [`RunningNetwork`] is
//!   the network of a run without its programs, for any others.
//!
//! It needs Linux, root (`CAP_NET_ADMIN` and `CAP_SYS_ADMIN`) and the program `ip`. The namespaces have no
//! names: the kernel removes them, with all devices, addresses and routes, when the process ends for any
//! reason.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod accuracy;
mod error;
mod experiment;
mod network;
mod scheduling;

pub use accuracy::{
    DelayErrors, HostStalls, LatenessStats, LinkAccuracy, RateError, StallIntervals, StallMonitor,
    UnloadedError,
};
pub use error::Error;
pub use experiment::{RunProgress, RunningNetwork, ScheduledChange, check_support, run_experiment};
pub use network::{
    CapturedPacket, Direction, Directory, Emulation, Host, LiveNetwork, Namespace, NetworkPlan,
    run_on_host, running_networks, spawn_on_host,
};
